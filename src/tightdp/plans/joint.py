"""Sums, means and counts of a plan as one vector: one payment, and each under its own name."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from tightdp.errors import ParameterError, fail
from tightdp.mechanisms.mechanism import short_label
from tightdp.mechanisms.vector_part import MEASURES, VectorPart
from tightdp.plans.request import Planned, Request
from tightdp.privacy import Neighbors
from tightdp.schema import Schema


def join(releases: Sequence[Planned], schema: Schema) -> list[Planned]:
    """The plan in which all releases that can share one vector are read off it.

    They are sums, means and counts of all rows with the default noise. The vector has the epsilons
    of all of them, and one key. The others stay as they are.
    """
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        fail('`together` needs a public number of rows: neighbors = "replace-one" in [schema].')
    members = [planned for planned in releases if _joins(planned.request)]
    if len(members) < 2:
        fail(
            "`together` needs at least two releases of the kinds sum, mean and count, of all rows "
            "and with the default noise: leave it out."
        )
    parts = {planned.name: _terms(planned.request) for planned in members}
    terms = list(dict.fromkeys(term for part in parts.values() for term in part))
    epsilon = sum((planned.request.epsilon for planned in members), Fraction(0))
    key = short_label("together: " + ", ".join(planned.key for planned in members))
    try:
        joined = {
            planned.name: _reading(planned, schema, terms, parts[planned.name], epsilon, key)
            for planned in members
        }
    except ParameterError as error:
        fail(f"`together`: these releases cannot be one vector. {error}")
    return [joined.get(planned.name, planned) for planned in releases]


def _joins(request: Request) -> bool:
    plain = set(request.options) <= {"columns", "noise", "delta"}
    best = request.options.get("noise", "best") == "best" and not request.options.get("delta", 0)
    return request.kind.name in MEASURES and plain and best


def _terms(request: Request) -> list[str]:
    stated = request.options.get("columns")
    return list(request.columns) if stated is None else list(stated)


def _reading(
    planned: Planned,
    schema: Schema,
    terms: Sequence[str],
    part: Sequence[str],
    epsilon: Fraction,
    key: str,
) -> Planned:
    asked, measure = planned.request, planned.request.kind.name
    made = partial(_part, schema, tuple(terms), tuple(part), measure)
    request = Request(asked.kind, schema, epsilon, asked.options, made=made)
    _ = request.mechanism  # what is wrong with it is said now
    return Planned(planned.name, key, request, planned.where, alone=asked)


def _part(
    schema: Schema, terms: Sequence[str], part: Sequence[str], measure: str, epsilon: Fraction
) -> VectorPart:
    return VectorPart(schema, list(terms), list(part), measure, epsilon=epsilon)
