"""Quantiles in one line each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tightdp.mechanisms.joint_quantiles import KNormQuantiles
from tightdp.mechanisms.quantiles import KNormMedian, KNormQuantile
from tightdp.release import Release
from tightdp.schema import Schema


def quantile(
    frame: Any,
    column: str,
    tau: Any,
    *,
    schema: Schema,
    epsilon: Any,
    interval: str = "none",
    **options: Any,
) -> Release:
    """A private quantile of a numeric column, drawn exactly; see :class:`KNormQuantile`.

    Options are ``ledger``, ``key``, ``confidence``, ``rng`` and ``progress``.

    >>> import numpy as np
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
    >>> release = quantile({"x": np.linspace(0, 10, 2001)}, "x", 0.2, schema=schema, epsilon=10)
    >>> 1.8 < release["x[0.2]"] < 2.2
    True
    """
    mechanism = KNormQuantile(schema, column, tau, epsilon=epsilon, interval=interval)
    return mechanism.release(frame, **options)


def median(
    frame: Any,
    column: str,
    *,
    schema: Schema,
    epsilon: Any,
    interval: str = "none",
    **options: Any,
) -> Release:
    """A private median of a numeric column, drawn exactly; see :class:`KNormMedian`.

    >>> import numpy as np
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
    >>> release = median({"x": np.linspace(0, 10, 2001)}, "x", schema=schema, epsilon=10)
    >>> 4.8 < release["x[0.5]"] < 5.2
    True
    """
    return KNormMedian(schema, column, epsilon=epsilon, interval=interval).release(frame, **options)


def quantiles(
    frame: Any, column: str, taus: Sequence[Any], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Several private quantiles of a numeric column for one payment; see :class:`KNormQuantiles`.

    >>> import numpy as np
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=2001)
    >>> table = {"x": np.linspace(0, 10, 2001)}
    >>> release = quantiles(table, "x", [0.25, 0.5, 0.75], schema=schema, epsilon=10)
    >>> bool((abs(release.value - [2.5, 5, 7.5]) < 0.3).all())
    True
    """
    return KNormQuantiles(schema, column, taus, epsilon=epsilon).release(frame, **options)
