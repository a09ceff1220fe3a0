"""Persons instead of rows: the facts about a table in which every person is one row of means.

This module states facts; the reader of tables makes the means (:mod:`tightdp.data.persons`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tightdp.errors import check_choice, check_most, fail
from tightdp.schema import Category, CompleteRows, Interval, Schema, complete_rows

PER = ("row", "person")
PER_WORDS = (
    "what counts alike: 'row', every row; 'person', every person, with the mean of its rows, "
    "however many they are: noise does not grow with them"
)
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

    >>> facts = {"neighbors": "add-remove", "person": "id", "rows_per_person": 5}
    >>> means = rows_that_count(Schema({"x": Interval(0, 1)}, rows=9, **facts), per="person")
    >>> means.rows_per_person, means.rows_used, means.protected_rows
    (1, 5, 5)
    """

    used: int
    averages: ClassVar[bool] = True

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


class CompletePersonMeans(PersonMeans, CompleteRows):
    """The means of the complete rows of persons; who has none is left out."""

    __slots__ = ()


def rows_that_count(schema: object, missing: object = None, per: object = None) -> Schema:
    """The facts for a statistic of rows, as :func:`~tightdp.schema.complete_rows`, or of persons.

    >>> rows_that_count(Schema({"x": Interval(0, 1)}, rows=9), per="person")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `per` = 'person' needs `person` in the schema: whose row it is.
    """
    facts = complete_rows(schema, missing)
    if per is None or check_choice("per", per, PER) == "row":
        return facts
    if facts.person is None:
        fail("`per` = 'person' needs `person` in the schema: whose row it is.")
    most = facts.rows_per_person
    check_most("rows_per_person", most, _MOST_AVERAGED, "rows to average", "state fewer")
    kind = CompletePersonMeans if facts.drops else PersonMeans
    options = facts._options() | {"rows_per_person": 1, "used": most}
    return kind(facts.columns, facts.rows, **options)
