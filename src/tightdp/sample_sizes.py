"""Power and sample sizes of tests, before anything is spent: one interface for all of them.

Everything here uses public facts alone: rows are simulated, and the noise is that of the release.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from tightdp.accepted import Number
from tightdp.errors import fail
from tightdp.parameters import tells_arguments


@runtime_checkable
class PlannedTest(Protocol):
    """A test that knows its power, and says in words what an effect is."""

    effect: str

    def power(self, effect: Any, alpha: float = 0.05, rows: int | None = None) -> float: ...

    def rows_for(self, effect: Any, power: float = 0.8, alpha: float = 0.05) -> int: ...

    def detects(self, power: float = 0.8, alpha: float = 0.05) -> float: ...

    def at(self, epsilon: Any) -> Any: ...


def _planned(test: object, epsilon: Number | None) -> PlannedTest:
    """The test behind a mechanism or a request, at another epsilon where one is stated."""
    found = getattr(test, "mechanism", test)
    if not isinstance(found, PlannedTest):
        fail(
            "`test` must be a test, such as tightdp.MeansTest, or a request of one. "
            f"Got {type(test).__name__}."
        )
    if epsilon is None:
        return found
    other: PlannedTest = found.at(epsilon)
    return other


@tells_arguments
def power(
    test: object,
    effect: object,
    *,
    rows: int | None = None,
    epsilon: Number | None = None,
    alpha: float = 0.05,
) -> float:
    """The chance that a test notices an effect; costs nothing.

    Parameters
    ----------
    test : a test, or a request of one
    effect : number or list
        What there is to notice: of a proportion the share; of shares and tables Cohen's w of a
        drift along the cells, or all shares; of means the difference between the last and the
        first group, or the mean of every group; of columns their correlation.
    rows, epsilon : optional
        By default those of the test.
    alpha : float
        The level of the test.

    Examples
    --------
    >>> from tightdp import Category, Interval, MeansTest, Schema
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> test = MeansTest(Schema(facts, rows=500), "pay", "sex", epsilon=1)
    >>> power(test, 10) > 0.9 > power(test, 10, epsilon=0.1)
    True
    """
    return _planned(test, epsilon).power(effect, alpha, rows)


@tells_arguments
def sample_size(
    test: object,
    effect: object,
    *,
    power: float = 0.8,
    epsilon: Number | None = None,
    alpha: float = 0.05,
) -> int:
    """The number of rows with which a test notices an effect with such a power; costs nothing.

    Parameters
    ----------
    test, effect, epsilon, alpha :
        As for :func:`power`.
    power : float

    Examples
    --------
    >>> from tightdp import Interval, ProportionTest, Schema
    >>> test = ProportionTest(Schema({"age": Interval(0, 100)}, rows=9), "age", low=18, epsilon=1)
    >>> sample_size(test, 0.6), sample_size(test, 0.6, epsilon=0.1)
    (201, 500)
    """
    return _planned(test, epsilon).rows_for(effect, power, alpha)


@tells_arguments
def detectable(
    test: object, *, power: float = 0.8, epsilon: Number | None = None, alpha: float = 0.05
) -> float:
    """The least effect that a test notices with such a power, NaN if there is none; costs nothing.

    Parameters
    ----------
    test, epsilon, alpha :
        As for :func:`power`.
    power : float

    Examples
    --------
    >>> from tightdp import CorrelationTest, Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=1000)
    >>> 0.08 < detectable(CorrelationTest(schema, ["x", "y"], epsilon=1)) < 0.13
    True
    """
    return _planned(test, epsilon).detects(power, alpha)
