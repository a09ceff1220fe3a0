"""A data-dependent noise as integers: its tables, its loss, and the proof of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

from tightdp.design import range_verifier
from tightdp.design.exact_numbers import rational
from tightdp.design.range_bound import RangeBound
from tightdp.design.range_verifier import FORMAT
from tightdp.design.records import GridDesign, check_format, complete, undecided
from tightdp.noise.range_noise import RangeNoise


@dataclass(frozen=True, eq=False)
class DataDependentDesign(GridDesign):
    r"""One noise for each interval of a query's range, with proofs of privacy and of loss.

    A query q in group g of intervals is released as :math:`q + X_g`,
    :math:`X_g \sim \sum_i p_g(i)\,\mathrm{Uniform}[bi, b(i+1))`, b = ``cell_width``. Which group it
    was is not released.

    **Privacy.**
    Statement: for a query that moves by at most ``sensitivity``, clamped to its public range, the
    release is (epsilon, delta)-DP. Needs, Proof: :class:`~tightdp.RangeNoise`,
    whose conditions :meth:`verify` checks in rational numbers
    (:mod:`tightdp.design.range_verifier`, which needs neither a solver nor the classes of this
    package). Rounding the query half up to the grid of a release costs nothing: a move by whole
    steps commutes with it and it keeps the order.
    Numerics: ``exact`` on the grid of :meth:`noise`.
    References: Selvi and others (2025), problems P' and D'.
    Erratum: the published curve tests one shift for each pair of intervals; three are needed.

    Attributes
    ----------
    epsilon, delta, sensitivity, low : Fraction
        ``low`` is the lower end of the range.
    loss : str
        The name of the loss.
    resolution : int
        Cells per ``sensitivity``.
    edges : tuple of int
        Where the groups begin and end, in cells from ``low``.
    weights : tuple of Fraction
        Public weight of each cell of the range in the mean loss; they sum to 1.
    tables : tuple of tuples of int
    instance_optimal : Fraction or None
        The largest mean loss allowed in any group.
    description, instance_loss : dict or None
        The loss, and the one that ``instance_optimal`` bounds, as the verifier reads them; None for
        l1 and l2, and where the bounded loss is the loss itself.
    monotone, ordered : bool
        Whether every density falls on both sides of zero; whether the noise of larger values leans
        further left, that is, has the larger distribution function everywhere.

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
    ordered: bool = False
    description: Mapping[str, Any] | None = field(default=None, repr=False)
    instance_loss: Mapping[str, Any] | None = field(default=None, repr=False)

    # --- what it costs ------------------------------------------------------------------------

    @property
    def high(self) -> Fraction:
        """Upper end of the range: a whole number of cells above ``low``."""
        return self.low + self.edges[-1] * self.cell_width

    @cached_property
    def _facts(self) -> range_verifier.Facts:
        with undecided():
            return range_verifier.facts_of(self._statement())

    @cached_property
    def losses(self) -> tuple[Fraction, ...]:
        """Expected loss of the noise of each group."""
        return tuple(range_verifier.mean_losses(self._facts, self._facts.loss))

    @cached_property
    def limited_losses(self) -> tuple[Fraction, ...]:
        """Expected value of the loss that ``instance_optimal`` bounds, for each group."""
        return tuple(range_verifier.mean_losses(self._facts, self._facts.limited))

    @cached_property
    def upper(self) -> Fraction:
        """The weighted mean of the expected losses."""
        return range_verifier.upper_bound(self._facts)

    @cached_property
    def lower(self) -> Fraction:
        """What every data-dependent noise with this guarantee loses at least."""
        with undecided():
            return range_verifier.lower_bound(self._statement(), self._facts)

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
        with undecided():
            range_verifier.verify(self.to_dict())
        return True

    # --- JSON ---------------------------------------------------------------------------------

    def _statement(self) -> dict[str, Any]:
        """Everything but the two bounds, which follow from it."""
        most = self.instance_optimal
        record = {
            "format": FORMAT,
            **{name: str(getattr(self, name)) for name in ("epsilon", "delta", "sensitivity")},
            "low": str(self.low),
            **{name: getattr(self, name) for name in ("loss", "resolution", "start", "monotone")},
            "ordered": self.ordered,
            "edges": list(self.edges),
            "weights": [str(w) for w in self.weights],
            "instance_optimal": None if most is None else str(most),
            "tables": [list(table) for table in self.tables],
            "bound": self.bound.to_dict(),
        }
        for name in ("description", "instance_loss"):
            if getattr(self, name) is not None:
                record[name] = dict(getattr(self, name))
        return record

    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""
        return {**self._statement(), "upper": str(self.upper), "lower": str(self.lower)}

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
                ordered=bool(record.get("ordered", False)),
                edges=tuple(map(int, record["edges"])),
                weights=tuple(map(rational, record["weights"])),
                instance_optimal=None if most is None else rational(most),
                tables=tuple(tuple(map(int, table)) for table in record["tables"]),
                bound=RangeBound.from_dict(record["bound"]),
                description=record.get("description"),
                instance_loss=record.get("instance_loss"),
            )
        with undecided():
            range_verifier.verify(record)
        return design
