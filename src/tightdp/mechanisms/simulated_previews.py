"""Previews of mechanisms whose error depends on the rows: releases on made-up tables."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.made_up import made_up_table
from tightdp.errors import FloatArray
from tightdp.preview import MADE_UP_ROWS, Preview, of_rows, spread
from tightdp.randomness import RandomSource, source
from tightdp.release import Release
from tightdp.schema import Schema

if TYPE_CHECKING:
    from tightdp.mechanisms.mechanism import Mechanism

Reader = Callable[[Any, Release], tuple[tuple[str, ...], FloatArray]]
"""Of a mechanism and a release: the names and numbers that are asked for."""

PREVIEW_SEED = 20_260_102  # of tables that are made up for previews
FAINT = Fraction(1000)  # an epsilon whose noise is invisible beside any other
_TABLES, _REPLICATES = 6, 10  # made-up tables, and releases on each
_MOST_ROWS = 20_000


def _answer(mechanism: Mechanism, release: Release) -> tuple[tuple[str, ...], FloatArray]:
    found = mechanism.answer(mechanism.read(release))
    return found.names, found.value


def simulated_preview(
    mechanism: Mechanism, schema: Schema, confidence: float, read: Reader = _answer
) -> Preview:
    """Errors on made-up rows; of a large table on fewer, for the noise shrinks like 1/rows.

    Several tables, for the error at a table depends on where its rows happen to lie. ``read`` makes
    numbers of a release, where an answer would take long for what else is in it.
    """
    few = schema.with_rows(min(schema.rows, _MOST_ROWS))
    smaller = mechanism if few.rows == schema.rows else mechanism.rebuilt(schema=few)
    bits, errors = source(PREVIEW_SEED), []
    for _ in range(_TABLES):
        table = made_up_table(few, bits)
        faint = smaller.at(FAINT)
        names, truth = read(faint, _released(faint, table, bits, confidence))
        found = [
            read(smaller, _released(smaller, table, bits, confidence))[1]
            for _ in range(_REPLICATES)
        ]
        errors.append(np.array(found) - truth)
    pooled = np.concatenate(errors) * (few.rows / schema.rows)
    return preview_of_errors(mechanism, names, pooled, confidence)


def preview_of_errors(
    mechanism: Mechanism, names: tuple[str, ...], errors: FloatArray, confidence: float
) -> Preview:
    """The preview of simulated errors, one of them along the last axis."""
    schema = mechanism.public_facts()
    assert schema is not None
    return Preview(
        names,
        *spread(errors, confidence),
        confidence,
        mechanism.guarantee(),
        f"simulated {len(errors)} times",
        of_rows(schema, MADE_UP_ROWS),
    )


def _released(
    mechanism: Mechanism, table: TableLike, bits: RandomSource, confidence: float
) -> Release:
    said = mechanism.guarantee(seeded=bits.seeded)
    drawn = mechanism.draw(table, bits, confidence, False)
    return Release.published(drawn, guarantee=said, noise=mechanism.law, confidence=confidence)
