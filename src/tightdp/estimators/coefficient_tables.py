"""Tables of coefficients as text and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tightdp.errors import FloatArray
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.printed import (
    bare,
    html_table,
    interval_head,
    notebook,
    short,
    text_table,
    value_and_interval,
    whole,
)
from tightdp.privacy import Guarantee, Neighbors
from tightdp.schema import Category, Schema


@dataclass(frozen=True, slots=True, eq=False)
class CoefficientTable:
    """Rows of text with a title and notes; prints as text, shows as HTML in notebooks."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        head, rule, *body = text_table([self.head, *self.rows])
        return "\n".join([self.title, rule, head, rule, *body, rule, *self.notes])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return notebook(html_table([self.head, *self.rows], *self.notes, caption=self.title))


def table_title(model: PrivateEstimator[Any]) -> str:
    """What was fitted, and on how many rows; where their number is private, on how many at most."""
    public = model.schema_.neighbors is Neighbors.REPLACE_ONE
    return f"{type(model).__name__}, {'' if public else 'at most '}{whole(model.schema_.rows)} rows"


def reference_notes(schema: Schema) -> tuple[str, ...]:
    """One line on the categories whose level of unseen cells nobody stated, if there are any.

    >>> sex = Category(["Male", "Female"])
    >>> reference_notes(Schema({"sex": sex}, rows=9))
    ('Missing and unseen cells count as the first level, where `other` is not stated: sex.',)
    """
    added = [n for n, c in schema.columns.items() if isinstance(c, Category) and not c.stated]
    words = "Missing and unseen cells count as the first level, where `other` is not stated"
    return (f"{words}: {', '.join(added)}.",) if added else ()


def coefficient_table(
    title: str,
    names: Sequence[str],
    values: FloatArray,
    spread: FloatArray,
    bounds: FloatArray,
    level: float,
    guarantee: Guarantee,
    *,
    about: str,
    notes: Sequence[str] = (),
) -> CoefficientTable:
    """Coefficients, the spread of the privacy noise, and intervals for those of the population.

    ``about`` says of what they are intervals, and if what is assumed; ``notes`` stand last.
    """
    body = []
    for name, value, std, ends in zip(names, values, spread, bounds, strict=True):
        middle, interval = value_and_interval(value, ends)
        body.append((name, middle, short(std), interval))
    return CoefficientTable(
        title,
        ("", "coef", "noise std", interval_head(level, "population")),
        tuple(body),
        (
            str(guarantee),
            f"The intervals hold each by itself, for {about}: noise and sampling error together.",
            *notes,
        ),
    )


def bare_table(
    title: str,
    names: Sequence[str],
    values: FloatArray,
    guarantee: Guarantee,
    lacking: str,
    *,
    notes: Sequence[str] = (),
) -> CoefficientTable:
    """Coefficients alone; ``lacking`` says why there are no intervals."""
    body = tuple((name, bare(float(value))) for name, value in zip(names, values, strict=True))
    said = (str(guarantee), f"No intervals. {lacking}", *notes)
    return CoefficientTable(title, ("", "coef"), body, said)
