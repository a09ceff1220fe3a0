"""Persons instead of rows: the facts about a table in which every person counts as one row does.

A person is one row of means (:class:`PersonMeans`), or its rows share the weight of one
(:class:`PersonWeights`). This module states facts; the reader of tables makes means and weights
(:mod:`tightdp.data.persons`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tightdp.errors import check_choice, check_count, check_most, fail
from tightdp.schema import Category, CompleteRows, Interval, Schema, complete_rows

PER = ("row", "person")
PER_WORDS = (
    "what counts alike: 'row', every row; 'person', every person, with the mean of its rows, "
    "however many they are: noise does not grow with them"
)
_MOST_EVEN = 12  # rows of a person whose weights are exactly alike: lcm(1..12) has 15 bits
_EVEN_BITS = 10  # otherwise a person's weight is lost to rounding by less than 2**-10 of it
_MOST_WEIGHED = 1 << 10  # rows of a person that share a weight
_MOST_AVERAGED = 1 << 32  # rows of a person: twice the sum of so many cells of 26 bits fits 62


@dataclass(frozen=True, slots=True, init=False)
class PersonMeans(Schema):
    """The same facts about a table in which every person has one row, the mean of its rows.

    At most ``rows_used`` rows of a person are averaged, cell by cell, and rounded to the grid. A
    row of means depends on the rows of its person alone, and its cells are within their bounds: so
    tables that differ by a person, with all its rows, differ by one row of means, and what is
    computed from such a schema must be private between these: ``rows_per_person`` is 1. Means lie
    between the steps of a column, which are none here. Made by :func:`rows_that_count` from the
    ``per="person"`` of a release, never by its user.

    Where columns divide the rows into groups, a person has a row of means for each group in which
    it has rows, and at most ``rows_per_person`` of these are kept, chosen by a public mixing of
    person and group: tables that differ by a person differ by so many rows of means.

    >>> facts = {"neighbors": "add-remove", "person": "id", "rows_per_person": 5}
    >>> means = rows_that_count(Schema({"x": Interval(0, 1)}, rows=9, **facts), per="person")
    >>> means.rows_per_person, means.rows_used, means.protected_rows
    (1, 5, 5)
    """

    used: int
    divided: tuple[str, ...]
    averages: ClassVar[bool] = True

    def __init__(
        self,
        columns: Mapping[str, Interval | Category],
        rows: int,
        *,
        used: int,
        divided: tuple[str, ...] = (),
        **facts: Any,
    ) -> None:
        Schema.__init__(self, columns, rows, **facts)
        object.__setattr__(self, "used", used)
        object.__setattr__(self, "divided", divided)

    def __hash__(self) -> int:
        return Schema.__hash__(self)

    def _options(self) -> dict[str, Any]:
        return Schema._options(self) | {"used": self.used, "divided": self.divided}

    @property
    def group_columns(self) -> tuple[str, ...]:
        return self.divided

    @property
    def counted_as(self) -> str:
        once = "every person counts once"
        if self.divided:
            groups = "1 group" if self.rows_per_person == 1 else f"{self.rows_per_person} groups"
            once = f"{once} in a group, and in at most {groups}"
        return f"{once}, with the mean of its rows"

    @property
    def rows_used(self) -> int:
        return self.used


@dataclass(frozen=True, slots=True, init=False)
class PersonWeights(Schema):
    r"""The same facts about a table in which the rows of a person share the weight of one row.

    Of a person with n rows that are used each counts :math:`\lfloor W/n \rfloor` of W parts of a
    row, W public (``row_units``): a statistic sums :math:`\lfloor W/n \rfloor\,\phi(row)`, in
    units that are W times as fine. Adding or removing a person moves it by a sum of at most W
    terms :math:`\pm\phi`, which lies in W times the hull of :math:`\{\pm\phi\}`, a set that holds
    0: no more than one row of the whole weight does, so that ``rows_per_person`` is 1. Persons
    weigh exactly alike where W is a multiple of all n, which it is for up to 12 rows; those with
    more weigh less by a part in a thousand at most.

    >>> facts = {"neighbors": "add-remove", "person": "id", "rows_per_person": 5}
    >>> weights = shared_weights(Schema({"x": Interval(0, 1)}, rows=9, **facts))
    >>> weights.row_units, weights.rows_per_person, weights.protected_rows
    (60, 1, 5)
    """

    used: int

    def __init__(
        self, columns: Mapping[str, Interval | Category], rows: int, *, used: int, **facts: Any
    ) -> None:
        Schema.__init__(self, columns, rows, **facts)
        object.__setattr__(self, "used", used)

    def __hash__(self) -> int:
        return Schema.__hash__(self)

    def _options(self) -> dict[str, Any]:
        return Schema._options(self) | {"used": self.used}

    @property
    def rows_used(self) -> int:
        return self.used

    @property
    def counted_as(self) -> str:
        return "every person weighs alike: its rows share the weight of one"

    @property
    def row_units(self) -> int:  # type: ignore[override]
        if self.used <= _MOST_EVEN:
            return max(2, math.lcm(*range(1, self.used + 1)))  # more than one: it says who counts
        return 1 << (_EVEN_BITS + self.used.bit_length())


class CompletePersonWeights(PersonWeights, CompleteRows):
    """Weights shared by the complete rows of persons; who has none is left out."""

    __slots__ = ()


class CompletePersonMeans(PersonMeans, CompleteRows):
    """The means of the complete rows of persons; who has none is left out."""

    __slots__ = ()


def rows_that_count(
    schema: object,
    missing: object = None,
    per: object = None,
    *,
    divided: tuple[str, ...] = (),
    groups: int = 1,
    groups_per_person: object = None,
) -> Schema:
    """The facts for a statistic of rows, as :func:`~tightdp.schema.complete_rows`, or of persons.

    Of persons in ``groups`` groups, into which columns divide the rows, each counts in at most
    ``groups_per_person`` of them: by default in all in which it can have rows.

    >>> rows_that_count(Schema({"x": Interval(0, 1)}, rows=9), per="person")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `per` = 'person' needs `person` in the schema: whose row it is.
    """
    facts = complete_rows(schema, missing)
    if not _of_persons(facts, per):
        if groups_per_person is not None:
            fail("`groups_per_person` is for per='person' and groups (`by`).")
        return facts
    most = facts.rows_per_person
    check_most("rows_per_person", most, _MOST_AVERAGED, "rows to average", "state fewer")
    if groups_per_person is not None and not divided:
        fail("`groups_per_person` is for groups: state `by`, or leave it out.")
    reach = min(most, groups)
    if groups_per_person is not None:
        reach = min(reach, check_count("groups_per_person", groups_per_person))
    kind = CompletePersonMeans if facts.drops else PersonMeans
    options = facts._options() | {"rows_per_person": reach, "used": most, "divided": divided}
    return kind(facts.columns, facts.rows, **options)


def shared_weights(schema: object, missing: object = None, per: object = "person") -> Schema:
    """The same, where the rows of a person are not averaged but share the weight of one."""
    facts = complete_rows(schema, missing)
    if not _of_persons(facts, per):
        return facts
    most = facts.rows_per_person
    check_most("rows_per_person", most, _MOST_WEIGHED, "rows that share a weight", "state fewer")
    kind = CompletePersonWeights if facts.drops else PersonWeights
    return kind(
        facts.columns, facts.rows, **facts._options() | {"rows_per_person": 1, "used": most}
    )


def _of_persons(facts: Schema, per: object) -> bool:
    if per is None or check_choice("per", per, PER) == "row":
        return False
    if facts.person is None:
        fail("`per` = 'person' needs `person` in the schema: whose row it is.")
    return True
