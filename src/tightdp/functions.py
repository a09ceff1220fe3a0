"""Sums, means, variances, counts and histograms in one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from numpy.typing import ArrayLike

from tightdp.data.statistics import Counts, Histogram
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.base import Mechanism
from tightdp.mechanisms.means import MeanMechanism, SumMechanism, VarianceMechanism
from tightdp.release import Release
from tightdp.schema import Schema


def sum(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private sums of numeric columns, drawn exactly with the least noise.

    Sums are in the units of the columns. Under add-remove, where a sum of scaled cells says little
    without the number of rows, a noisy number of rows of the same release puts them there.

    Options are those of :meth:`AdditiveMechanism.release` (``ledger``, ``key``, ``confidence``,
    ``rng``, ``progress``), and ``noise`` and ``delta``.

    >>> import numpy as np
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 10)}, rows=4)
    >>> release = sum({"x": np.array([1.0, 2.0, 3.0, 99.0])}, ["x"], schema=schema, epsilon=1.0)
    >>> release.names, release.guarantee.epsilon
    (('x',), 1.0)
    """
    return _released(SumMechanism, (schema, columns), frame, epsilon, options)


def count(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private counts of the levels of categories: marginals, or a joint table for ``"j:k"``.

    >>> import numpy as np
    >>> from tightdp import Category, Schema
    >>> schema = Schema({"k": Category(["a", "b"], other="a")}, rows=3)
    >>> release = count({"k": np.array(["a", "b", "a"])}, ["k"], schema=schema, epsilon=1.0)
    >>> release.names, int(release.value.sum())  # the total is public
    (('k[a]', 'k[b]'), 3)
    """
    return _released(AdditiveMechanism, (Counts(schema, columns),), frame, epsilon, options)


def histogram(
    frame: Any,
    column: str,
    *,
    schema: Schema,
    epsilon: Any,
    bins: int | ArrayLike = 10,
    **options: Any,
) -> Release:
    """A private histogram of a numeric column with public bins.

    >>> import numpy as np
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 10)}, rows=4)
    >>> release = histogram({"x": np.arange(4.0)}, "x", schema=schema, epsilon=1.0, bins=2)
    >>> release.names
    ('x[0, 5)', 'x[5, 10]')
    """
    cells = Histogram(schema, column, bins)
    return _released(AdditiveMechanism, (cells,), frame, epsilon, options)


def mean(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private means of numeric columns.

    Under replace-one the noisy sum is divided by the public number of rows. Under add-remove the
    noisy sum is divided by a noisy number of rows of the same release; standard errors are then of
    first order, and the intervals are those of Fieller (1954), for the law of the noise.

    >>> import numpy as np
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> mean({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=10.0)["x"].__round__(1)
    1.5
    """
    return _released(MeanMechanism, (schema, columns), frame, epsilon, options)


def variance(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private variances (divisor n) of numeric columns, from noisy sums and sums of squares.

    Values are moved into the range that a variance can have; standard errors are of first order,
    and the intervals hold for the law of the noise, second order included.

    >>> import numpy as np
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> variance({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=50.0)["x"].__round__(0)
    1.0
    """
    return _released(VarianceMechanism, (schema, columns), frame, epsilon, options)


def _released(
    kind: Callable[..., Mechanism],
    of: tuple[Any, ...],
    frame: Any,
    epsilon: Any,
    options: dict[str, Any],
) -> Release:
    """The release of a mechanism; two of the options are its own, the others those of a release."""
    shape = {"noise": options.pop("noise", "best"), "delta": options.pop("delta", 0)}
    return kind(*of, epsilon=epsilon, **shape).release(frame, **options)
