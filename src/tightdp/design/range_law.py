"""A data-dependent noise as integers: its tables, its loss, and the proof of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from tightdp.design.planar_grid import LOSSES, mean_loss
from tightdp.design.range_bound import RangeBound
from tightdp.design.records import ProvedDesign, check_format, complete
from tightdp.design.verifier import rational
from tightdp.errors import UndecidedError, check_choice, fail
from tightdp.noise.range_noise import RangeNoise

FORMAT = "tightdp data-dependent design 1"


@dataclass(frozen=True, eq=False)
class DataDependentDesign(ProvedDesign):
    r"""One noise for each interval of a query's range, with proofs of privacy and of loss.

    A query q in group g of intervals is released as :math:`q + X_g`,
    :math:`X_g \sim \sum_i p_g(i)\,\mathrm{Uniform}[bi, b(i+1))`, b = ``cell_width``. Which group it
    was is not released.

    **Privacy.**
    Statement: for a query that moves by at most ``sensitivity``, clamped to its public range, the
    release is (epsilon, delta)-DP. Needs, Proof: :class:`~tightdp.RangeNoise`,
    whose conditions :meth:`verify` checks in integers. Rounding the query half up to the grid of a
    release costs nothing: a move by whole steps commutes with it and it keeps the order.
    Numerics: ``exact`` on the grid of :meth:`noise`.
    References: Selvi and others (2025), problems P' and D'.
    Erratum: the published curve tests one shift for each pair of intervals; three are needed.

    Attributes
    ----------
    epsilon, delta, sensitivity, low : Fraction
        ``low`` is the lower end of the range.
    loss : {"l1", "l2"}
    resolution : int
        Cells per ``sensitivity``.
    edges : tuple of int
        Where the groups begin and end, in cells from ``low``.
    weights : tuple of Fraction
        Public weight of each cell of the range in the mean loss; they sum to 1.
    tables : tuple of tuples of int
    instance_optimal : Fraction or None
        The largest mean loss allowed in any group.

    Examples
    --------
    >>> from tightdp import design_data_dependent_noise
    >>> design = design_data_dependent_noise(
    ...     epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(0.0, 4.0), resolution=2)
    >>> design.verify(), round(float(design.lower), 3), round(float(design.upper), 4)
    (True, 0.582, 0.9565)
    """

    epsilon: Fraction
    delta: Fraction
    sensitivity: Fraction
    low: Fraction
    loss: str
    resolution: int
    edges: tuple[int, ...]
    weights: tuple[Fraction, ...]
    start: int
    tables: tuple[tuple[int, ...], ...] = field(repr=False)
    bound: RangeBound = field(repr=False)
    instance_optimal: Fraction | None = None
    monotone: bool = False

    # --- what it costs ------------------------------------------------------------------------

    @property
    def _unit(self) -> Fraction:
        """Loss of one cell in units of the query."""
        return self.cell_width ** (1 if self.loss == "l1" else 2)

    @property
    def high(self) -> Fraction:
        """Upper end of the range: a whole number of cells above ``low``."""
        return self.low + self.edges[-1] * self.cell_width

    @cached_property
    def losses(self) -> tuple[Fraction, ...]:
        """Expected loss of the noise of each group."""
        cells = [
            mean_loss(abs(2 * (self.start + i) + 1), self.loss) for i in range(len(self.tables[0]))
        ]
        means = (
            Fraction(sum((w * c for w, c in zip(t, cells, strict=True)), Fraction(0)), sum(t))
            for t in self.tables
        )
        return tuple(self._unit * mean for mean in means)

    @cached_property
    def upper(self) -> Fraction:
        """The weighted mean of the expected losses."""
        groups = [sum(self.weights[a:b], Fraction(0)) for a, b in pairwise(self.edges)]
        return sum((w * c for w, c in zip(groups, self.losses, strict=True)), Fraction(0))

    @cached_property
    def lower(self) -> Fraction:
        """What every data-dependent noise with this guarantee loses at least."""
        most = self.instance_optimal
        return self._unit * self.bound.value(
            epsilon=self.epsilon,
            delta=self.delta,
            reach=self.resolution,
            weights=self.weights,
            loss=self.loss,
            most=None if most is None else most / self._unit,
        )

    # --- the law ------------------------------------------------------------------------------

    def noise(self, points: int = 1) -> RangeNoise:
        """The exact law on a grid with ``points`` steps a cell, for integer queries from 0."""
        return RangeNoise(
            self.tables,
            start=self.start,
            edges=self.edges,
            reach=self.resolution,
            points=points,
            epsilon=self.epsilon,
        )

    # --- the proof ----------------------------------------------------------------------------

    def verify(self) -> bool:
        """Check all statements in integers, without a solver; an error if one fails."""
        check_choice("loss", self.loss, LOSSES)
        if self.sensitivity <= 0 or self.resolution < 1 or not 0 < self.delta < 1:
            fail("The parameters of the design are out of their range.", UndecidedError)
        noise = self.noise()  # its tables and edges fit each other
        good = len(self.weights) == self.edges[-1] and sum(self.weights) == 1
        if not good or min(self.weights) < 0:
            fail("The weights must be >= 0, sum to 1, one for each cell.", UndecidedError)
        if noise.exact_delta() > self.delta:
            fail("The shortfall of this noise is not proved to be <= delta.", UndecidedError)
        if self.instance_optimal is not None and max(self.losses) > self.instance_optimal:
            fail("The noise of a group loses more than was allowed.", UndecidedError)
        if self.monotone and not (self.start <= 0 and all(map(self._unimodal, self.tables))):
            fail("A table is not monotone on both sides of zero.", UndecidedError)
        if self.lower > self.upper:
            fail("The lower bound exceeds the loss of a private noise.", UndecidedError)
        return True

    def _unimodal(self, table: tuple[int, ...]) -> bool:
        left, right = table[: -self.start], table[-self.start :]
        rises = all(a <= b for a, b in pairwise(left))
        return rises and all(a >= b for a, b in pairwise(right))

    # --- JSON ---------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""
        rationals = ("epsilon", "delta", "sensitivity", "low", "upper", "lower")
        most = self.instance_optimal
        return {
            "format": FORMAT,
            **{name: str(getattr(self, name)) for name in rationals},
            **{name: getattr(self, name) for name in ("loss", "resolution", "start", "monotone")},
            "edges": list(self.edges),
            "weights": [str(w) for w in self.weights],
            "instance_optimal": None if most is None else str(most),
            "tables": [list(table) for table in self.tables],
            "bound": self.bound.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> DataDependentDesign:
        """The design in a dictionary; refused when its proofs do not hold."""
        check_format(record, FORMAT)
        with complete():
            most = record["instance_optimal"]
            facts: dict[str, Any] = {
                name: rational(record[name]) for name in ("epsilon", "delta", "sensitivity", "low")
            }
            design = cls(
                **facts,
                loss=str(record["loss"]),
                resolution=int(record["resolution"]),
                start=int(record["start"]),
                monotone=bool(record["monotone"]),
                edges=tuple(map(int, record["edges"])),
                weights=tuple(map(rational, record["weights"])),
                instance_optimal=None if most is None else rational(most),
                tables=tuple(tuple(map(int, table)) for table in record["tables"]),
                bound=RangeBound.from_dict(record["bound"]),
            )
        return design._proved(record)
