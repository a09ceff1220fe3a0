"""Pictures of the chances of keys that nobody listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import DimensionError, fail
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.plots.canvas import STYLES, axes_for, finish

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_key_chances(keys: PrivateKeys | Mapping[str, PrivateKeys], ax: Axes | None = None) -> Axes:
    """With which probability a key appears, against how many have it.

    Parameters
    ----------
    keys : PrivateKeys, or several of them by name

    Examples
    --------
    >>> from tightdp import Interval, PrivateKeys, Schema
    >>> schema = Schema({"age": Interval(0, 99)}, rows=1000, neighbors="add-remove")
    >>> plot_key_chances(PrivateKeys(schema, "city", epsilon=1, delta=1e-6)).get_ylabel()
    'probability that it appears'
    """
    shown = {str(keys.guarantee()): keys} if isinstance(keys, PrivateKeys) else dict(keys)
    if not 1 <= len(shown) <= len(STYLES):
        fail(f"`keys` must be one to {len(STYLES)} mechanisms.", DimensionError)
    ax = axes_for(ax, (6.4, 4.4))
    counts = np.arange(1 + max(each.noise.steps for each in shown.values()))
    for (name, each), (colour, style) in zip(shown.items(), STYLES, strict=False):
        chances = [each.chance(int(count)) for count in counts]
        ax.plot(counts, chances, color=colour, linestyle=style, linewidth=2, label=name)
    ax.set_ylim(0.0, 1.02)
    title = "Which keys appear"
    return finish(ax, "how many have the key", "probability that it appears", title)
