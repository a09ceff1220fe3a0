"""What a book of tables with means or sums draws: coordinates of counts, and sums within groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.data.class_moments import GroupMoments
from tightdp.data.one_pass import IntegerSum, SharedTable, share_pass
from tightdp.draft import Draft
from tightdp.errors import FloatArray, check_count, check_filled, check_instance, fail
from tightdp.mechanisms.additive import lost_to_the_grid
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.mechanisms.table_noise_choice import spending
from tightdp.privacy import Numerics, check_epsilon
from tightdp.randomness import RandomSource
from tightdp.shaping.class_noise import BodyNoise
from tightdp.shaping.gaussian_class_noise import GaussianClassNoise


class GroupPart(ClassMechanism):
    """Releases sums of numbers within groups, with or without the sizes of the groups.

    **Privacy.** As for :class:`~tightdp.mechanisms.counts.ClassMechanism`, with noise in the shape
    of what a row does to its group, or, for a budget in rho, with Gaussian noise.

    Parameters
    ----------
    moments : GroupMoments
    epsilon : float, Fraction or Decimal, optional
    rho, delta : float, Fraction or Decimal, optional
        Instead of epsilon: the budget, and the delta at which it is told in epsilon.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = {"pay": Interval(0, 9), "sex": Category(["f", "m"], other="f")}
    >>> sums = GroupMoments(Schema(facts, rows=9), ["pay"], "sex", counted=False)
    >>> GroupPart(sums, epsilon=1).preview().std.round(3)
    array([2.828, 2.828])
    """

    def __init__(
        self,
        moments: GroupMoments,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number = 0,
    ) -> None:
        check_instance("moments", moments, GroupMoments)
        budget = spending(epsilon, delta, rho)
        choice: BodyNoise | GaussianClassNoise
        if budget.rho is None:
            choice = BodyNoise(moments, budget.epsilon)
        else:
            choice = GaussianClassNoise(moments, None, budget.delta, budget.rho)
        self._adopt(moments, choice)
        self._of_group, self.drawn = choice, choice
        self.in_rho = rho is not None
        self.moments = moments

    @property
    def counted(self) -> bool:
        """Whether the sizes of groups are measured, too."""
        return bool(self.moments.layout.counted)

    @property
    def variances(self) -> FloatArray:
        """Of the scaled entries of one group."""
        return np.diag(self.drawn.block())

    def sum_reach(self, miss: float) -> FloatArray:
        """Half-widths of the scaled sums of a group, each missed with at most this chance."""
        forms = np.eye(self.moments.layout.width)[self.moments.layout.counted :]
        lost = lost_to_the_grid(self.moments, self.bits)[: forms.shape[1]]
        return self.form_reach(forms, miss) + np.abs(forms) @ lost

    def drawn_counts(self, size: int, rng: RandomSource) -> FloatArray:
        """Noise of the sizes of all groups, for public simulations."""
        draws = self.drawn.sample(size, rng=rng)[:, :: self.moments.layout.width]
        return np.asarray(draws, dtype=np.float64) / self.resolution

    def _find_errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        groups, width = len(self.moments.groups), self.moments.layout.width
        miss = (1 - confidence ** (1 / groups)) / width  # groups are independent
        lost = lost_to_the_grid(self.moments, self.bits)[:width]
        half = self.form_reach(np.eye(width), miss) + lost
        return np.tile(self.variances, groups), np.tile(half, groups)


class BookParts(Together):
    r"""Releases coordinates of tables, if any, and sums within groups, for one payment.

    **Privacy.**
    Statement: a release is :math:`(\epsilon_0 + \sum_i k\epsilon_i, \delta)`-DP under the neighbour
    relation of the schema, where neighbours differ in k rows; costs in rho are
    :math:`\rho_0 + \sum_i k^2\rho_i`. k is 1, or 2 where several tables are public, and the promise
    is then between tables that agree in them.
    Needs: [P1] the coordinates are private for k rows, sums for one; [P2] draws are independent.
    Proof: a promise to all neighbours is one to those that agree in some tables. Two rows more cost
    sums twice epsilon, or four times rho, by group privacy; then basic composition [P1, P2].
    Numerics: ``exact``.

    Parameters
    ----------
    parts : sequence of Mechanism
        A :class:`~tightdp.mechanisms.table_mechanism.TableMechanism`, or none, and
        :class:`GroupPart` s.
    times : int
        k.

    Examples
    --------
    >>> from tightdp import Category, Interval, Schema
    >>> facts = {"pay": Interval(0, 9), "sex": Category(["f", "m"], other="f")}
    >>> schema = Schema(facts, rows=9)
    >>> sums = GroupPart(GroupMoments(schema, ["pay"], "sex", counted=False), epsilon=1)
    >>> BookParts([TableMechanism(schema, ["sex"], epsilon=1), sums]).guarantee().epsilon
    2.0
    """

    def __init__(self, parts: Sequence[Mechanism], times: int = 1) -> None:
        self.parts = tuple(parts)
        check_filled("parts", self.parts, "mechanism")
        first = self.parts[0]
        self.times = check_count("times", times)
        if not all(isinstance(part, (TableMechanism, GroupPart)) for part in self.parts):
            fail("`parts` must be coordinates of tables and sums of groups.")
        self.neighbors, self.numerics = first.neighbors, Numerics.EXACT
        self.in_rho = all(part.in_rho for part in self.parts)
        costs = [part.cost for part in self.parts]
        if self.in_rho:
            spent = (c.rho * self._steps(p) ** 2 for c, p in zip(costs, self.parts, strict=True))
            delta = max(part.delta for part in self.parts)
            self._cost = Cost.concentrated(sum(spent, Fraction(0)), delta=delta)
        else:
            times_each = [
                c if self._steps(p) == 1 else Cost.of(c.epsilon * times)
                for c, p in zip(costs, self.parts, strict=True)
            ]
            self._cost = Cost.total(times_each)
        self.epsilon, self.delta = self._cost.epsilon, self._cost.delta

    def _steps(self, part: Mechanism) -> int:
        """Of group privacy."""
        return self.times if isinstance(part, GroupPart) else 1

    @property
    def given(self) -> str:
        return self.parts[0].given

    @property
    def names(self) -> tuple[str, ...]:
        """Of all entries that are drawn."""
        return tuple(name for part in self.parts for name in part.statistic.names)  # type: ignore[attr-defined]

    def at(self, epsilon: Number) -> BookParts:
        """The same parts, whose shares of epsilon stay."""
        factor = check_epsilon(epsilon) / self.epsilon
        return BookParts([part.at(part.epsilon * factor) for part in self.parts], self.times)

    def check(self, frame: TableLike) -> None:
        for part in self.parts:
            part.check(frame)

    def draws_level(self) -> bool:
        return False

    def half_widths(self, confidence: float) -> FloatArray:
        each = 1 - (1 - confidence) / len(self.parts)
        return np.concatenate([part.half_widths(each) for part in self.parts])

    def integer_sums(self) -> Sequence[IntegerSum]:
        # counts and sums are of the same rows of a person: means are made of both
        sums = (one for part in self.parts for one in part.integer_sums())
        return [replace(one, mark=id(self)) for one in sums]

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        each = 1 - (1 - confidence) / len(self.parts)
        begun = [part.prepare(rng, each) for part in self.parts]  # noise before rows, of all
        schema = self.public_facts()
        assert schema is not None

        def finish(table: Any, progress: bool) -> Draft:
            if not isinstance(table, SharedTable):
                with share_pass(table, schema, self.integer_sums()) as shared:
                    return finish(shared, progress)
            first, *others = (one(table, progress) for one in begun)
            return first.beside(*others)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)
