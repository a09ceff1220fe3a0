r"""The gate that every additive noise passes: it covers what rows do to the statistic, by names.

Shapes are built from the mathematics of a statistic; a release adds them to what is measured. The
gate stands where both meet. Public rows at the ends of their bounds are measured by the code that
measures data (:mod:`tightdp.data.public_rows`), and the noise must have been made for every move
between them: integers against the integer levels and sensitivities that it is drawn by, entry by
entry in the order of the release. A shape whose entries stand in another order does not pass.

``certified`` says how far this reaches. *exact*: the rows tested are all that can be extreme, and
the largest level of their moves was found in integers, which by convexity proves the cover for all
rows. *by structure*: there are too many such rows, or squares among the entries; then that the
shape holds the sensitivity space is proved in :mod:`tightdp.geometry`, and a seeded selection of
rows, with every end of every column, was tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from tightdp.data.public_rows import (
    Images,
    cell_rows,
    independent_images,
    measured_at_once,
    sampled_images,
    swept_images,
)
from tightdp.data.statistics import Statistic
from tightdp.errors import UncoveredMoveError, WideIntegers, fail
from tightdp.privacy import Neighbors
from tightdp.shaping.cell_noise import SymmetricNoise

_SINGLE = 9  # rows that are measured each by itself, where there are many cells
EXACT, BY_STRUCTURE = "exact", "by structure"


class Covering(Protocol):
    """Noise that can say which moves it was made for."""

    bits: int
    factor: int

    def covers(self, moves: WideIntegers) -> NDArray[np.bool_]:
        """Whether each move of one row, in steps of the noise's lattice, is covered."""

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        """Whether all moves between combinations of the images are proved to be covered."""

    def covers_by_structure(self) -> bool:
        """Whether the shape is proved to hold the sensitivity space."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a noise was certified, and on how many measured moves it was tested."""

    certified: str
    moves: int


def certify_moves(statistic: Statistic, noise: Covering) -> Coverage:
    """Let pass only noise that covers the moves of the statistic.

    Raises
    ------
    UncoveredMoveError
        Naming the entries of a move that is not covered. Nothing has been spent by then.
    """
    paired = statistic.schema.neighbors is Neighbors.REPLACE_ONE
    if isinstance(noise, SymmetricNoise):
        return _certify_cells(statistic, noise, paired)
    some = _steps(sampled_images(statistic, noise.bits), noise.factor)
    optional = paired and statistic.schema.drops  # a row may come or go: its moves are images
    tested = _test(statistic, noise, _between(some) if paired else some)
    tested += _test(statistic, noise, some) if optional else 0
    blocks = [
        Images(block.entries, _steps(block.values, noise.factor), block.complete)
        for block in independent_images(statistic, noise.bits)
    ]
    relations = [paired, False] if optional else [paired]
    complete = all(block.complete for block in blocks)
    if complete and all(noise.covers_all(blocks, pairs) for pairs in relations):
        return Coverage(EXACT, tested)
    every = _steps(swept_images(statistic, noise.bits), noise.factor)
    swept = np.concatenate([every[1:] - every[:-1], every - some[:1]]) if paired else every
    tested += _test(statistic, noise, np.concatenate([swept, every]) if optional else swept)
    if not noise.covers_by_structure():
        _refuse(statistic, range(len(statistic)))
    return Coverage(BY_STRUCTURE, tested)


def _certify_cells(statistic: Statistic, noise: Covering, paired: bool) -> Coverage:
    """The same for many cells, of which no two rows are kept at a time.

    A row for every cell is measured, all at once: every entry must count one of them. Some are
    measured each by itself: all that moves is one entry, by 1. Noise is tested on differences of
    these.
    """
    every = cell_rows(statistic)
    one_each = measured_at_once(statistic, every, noise.bits)
    if every.shape[0] != len(statistic) or not (one_each == 1).all():
        _refuse(statistic, range(len(statistic)))
    before, tested = None, 0
    for row in np.unique(np.linspace(0, len(every) - 1, _SINGLE).astype(np.int64)):
        image = measured_at_once(statistic, every[row : row + 1], noise.bits)
        if np.count_nonzero(image) != 1 or image.max() != 1:
            _refuse(statistic, np.flatnonzero(image))
        move = image if before is None or not paired else image - before
        if before is not None or not paired:
            tested += _test(statistic, noise, move[None, :])
        before = image
    if not noise.covers_by_structure():
        _refuse(statistic, range(len(statistic)))
    return Coverage(BY_STRUCTURE, tested)


def _test(statistic: Statistic, noise: Covering, moves: WideIntegers) -> int:
    """Refuse noise that does not cover one of the moves; how many were tested."""
    covered = noise.covers(moves)
    if not covered.all():
        _refuse(statistic, np.flatnonzero(moves[int(np.argmin(covered))]))
    return len(moves)


def _between(points: WideIntegers) -> WideIntegers:
    first, second = np.triu_indices(len(points), 1)
    return np.asarray(points[first] - points[second])


def _steps(values: WideIntegers, factor: int) -> WideIntegers:
    """Images on the lattice of the noise, wide enough for sums and differences."""
    far = max(int(values.max(initial=0)), -int(values.min(initial=0)))
    wide = object if far * factor >= 1 << 60 else np.int64
    return values.astype(wide) * factor


def _refuse(statistic: Statistic, moved: Sequence[int] | NDArray[np.intp]) -> NoReturn:
    names = ", ".join(repr(statistic.names[int(j)]) for j in moved[:6])
    more = ", ..." if len(moved) > 6 else ""
    fail(
        f"The noise is not proved to cover how far one row can move {names}{more}. Nothing was "
        "spent. Choose another `noise`; if it is one of tightdp's own, please report this.",
        UncoveredMoveError,
    )
