"""Pictures of sensitivity spaces, norm balls, noise, rankings, releases, audits and guarantees.

Every function draws on the axes it is given, or on a new figure, and returns the axes; nothing else
is changed. What is drawn as a space or a ball is exact; sampled movements are drawn as points, are
labelled as samples, and are never turned into an outline.
"""

from tightdp.plots.audit import plot_audit
from tightdp.plots.density import plot_density, plot_rates
from tightdp.plots.designs import plot_design, plot_design_bounds, plot_suboptimality
from tightdp.plots.geometry import (
    outline,
    plot_example_sensitivity,
    plot_noise_density,
    plot_sensitivity_space,
)
from tightdp.plots.gradient import plot_median_rates, plot_plane_law, plot_quantile_law
from tightdp.plots.meaning import plot_power
from tightdp.plots.ranking import plot_cautionary_example, plot_ranking
from tightdp.plots.regression import plot_coefficients
from tightdp.plots.release import plot_previews, plot_release

__all__ = [
    "outline",
    "plot_audit",
    "plot_cautionary_example",
    "plot_coefficients",
    "plot_density",
    "plot_design",
    "plot_design_bounds",
    "plot_example_sensitivity",
    "plot_median_rates",
    "plot_noise_density",
    "plot_plane_law",
    "plot_power",
    "plot_previews",
    "plot_quantile_law",
    "plot_ranking",
    "plot_rates",
    "plot_release",
    "plot_sensitivity_space",
    "plot_suboptimality",
]
