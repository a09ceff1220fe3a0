"""Pictures of sensitivity spaces, norm balls, noise, rankings, releases, audits and guarantees.

Every function draws on the axes it is given, or on a new figure, and returns the axes; nothing else
is changed. What is drawn as a space or a ball is exact; sampled movements are drawn as points, are
labelled as samples, and are never turned into an outline.
"""

from tightdp.plots.design_pictures import plot_design, plot_design_bounds, plot_suboptimality
from tightdp.plots.gradient_pictures import (
    plot_median_rates,
    plot_plane_law,
    plot_quantile_law,
    plot_rates,
)
from tightdp.plots.hypothesis_pictures import plot_coverage, plot_null_law, plot_test_power
from tightdp.plots.key_pictures import plot_key_chances
from tightdp.plots.ranking_pictures import plot_cautionary_example, plot_ranking
from tightdp.plots.release_pictures import (
    plot_audit,
    plot_coefficients,
    plot_conversions,
    plot_density,
    plot_power,
    plot_previews,
    plot_release,
)
from tightdp.plots.shape_pictures import (
    outline,
    plot_example_sensitivity,
    plot_noise_density,
    plot_sensitivity_space,
)
from tightdp.plots.table_pictures import plot_table

__all__ = [
    "outline",
    "plot_audit",
    "plot_cautionary_example",
    "plot_coefficients",
    "plot_conversions",
    "plot_coverage",
    "plot_density",
    "plot_design",
    "plot_design_bounds",
    "plot_example_sensitivity",
    "plot_key_chances",
    "plot_median_rates",
    "plot_noise_density",
    "plot_null_law",
    "plot_plane_law",
    "plot_power",
    "plot_previews",
    "plot_quantile_law",
    "plot_ranking",
    "plot_rates",
    "plot_release",
    "plot_sensitivity_space",
    "plot_suboptimality",
    "plot_table",
    "plot_test_power",
]
