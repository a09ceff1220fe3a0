"""Reading terms such as ``"x"``, ``"k"``, ``"x:k"`` into the image of one row."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import FloatArray, check_array, check_choice, check_filled, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import (
    BoxImage,
    FiniteImage,
    Hull,
    OneHotImage,
    ProductImage,
    RowImage,
)
from tightdp.geometry.zonotopes import Zonotope
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Interval, check_column

Domain = Mapping[str, Interval | Category]
_MOST_VERTICES = 1 << 16


def image_of_terms(domain: Domain, terms: Iterable[str] | None) -> RowImage:
    """The row image of sums of products of columns, split into independent blocks."""
    parsed = read_terms(domain, terms)
    blocks: list[RowImage] = []
    numeric: list[str] = []
    for group in connected_terms(parsed):
        single = group[0][0] if len(group) == 1 and len(group[0]) == 1 else None
        if single is not None and isinstance(domain[single], Interval):
            numeric.append(single)
            continue
        blocks += _boxes(numeric, domain)
        column = domain[single] if single is not None else None
        if isinstance(column, Category) and single is not None:
            blocks.append(OneHotImage(single, column.levels))
        else:
            blocks.append(_enumerated(group, domain))
    blocks += _boxes(numeric, domain)
    return blocks[0] if len(blocks) == 1 else ProductImage(blocks)


def affine_image(
    matrix: ArrayLike,
    intervals: Sequence[Interval],
    offset: ArrayLike | None,
) -> RowImage:
    """The row image of ``A x + b`` on a box."""
    A = check_array("matrix", matrix, 2, len(intervals))
    shift = np.zeros(len(A)) if offset is None else check_array("offset", offset, 1, len(A))
    low = np.array([interval.low for interval in intervals])
    high = np.array([interval.high for interval in intervals])
    return AffineImage(A, shift, low, high)


class AffineImage(RowImage):
    """``A x + b`` on a box: P is a zonotope around ``A m + b``, m the middle of the box."""

    def __init__(self, A: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray) -> None:
        self.A, self.b, self.low, self.high = A, b, low, high
        self.names = tuple(f"t{j}" for j in range(len(A)))

    @property
    def _centre(self) -> FloatArray:
        return self.A @ ((self.low + self.high) / 2) + self.b

    @property
    def symmetric(self) -> bool:
        return not self._centre.any()

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        x = np.where(self.A.T @ c >= 0, self.high, self.low)
        return self.A @ x + self.b, {f"x{i}": float(value) for i, value in enumerate(x)}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        x = self.low + (self.high - self.low) * rng.uniform((size, len(self.low)))
        return x @ self.A.T + self.b

    def replace_hull(self) -> Hull:
        width = self.high - self.low
        if self.A.shape[0] == self.A.shape[1]:
            return Hull(LpBall(len(width), np.inf, width).image(self.A), True, "image of a box")
        return Hull(Zonotope((self.A * width).T), True, "zonotope: image of a box")

    def add_hull(self) -> Hull:
        # conv(P u -P) is the zonotope of P with one more segment, from -centre to +centre
        half = (self.A * (self.high - self.low) / 2).T
        return Hull(Zonotope(np.vstack([half, self._centre])), True, "zonotope and its mirror")


def read_terms(domain: Domain, terms: Iterable[str] | None) -> list[tuple[str, ...]]:
    """The columns of every term, checked against the domain."""
    _check_domain(domain)
    parsed = [read_term(domain, term) for term in (domain if terms is None else terms)]
    check_filled("terms", parsed)
    if len({frozenset(factors) for factors in parsed}) < len(parsed):
        fail("`terms` must be distinct: the same sum twice needs noise only once.")
    return parsed


# --- parsing ----------------------------------------------------------------------------------


def _check_domain(domain: Domain) -> None:
    if not isinstance(domain, Mapping) or not domain:
        fail("`domain` must be a non-empty mapping from column names to Interval or Category.")
    for name, column in domain.items():
        check_column(name, column)


def read_term(domain: Domain, term: str, name: str = "terms") -> tuple[str, ...]:
    """The columns of one term, each at most once; the name of a column is that column.

    ``name`` is that of the parameter, as errors call it.
    """
    if not isinstance(term, str):
        fail(f"`{name}` must be strings such as 'x' or 'x:k'. Got {type(term).__name__}.")
    if term in domain:  # whatever colons and spaces are in it
        return (term,)
    factors = tuple(part.strip() for part in term.split(":"))
    for factor in factors:
        check_choice(name, factor, domain)
    if len(set(factors)) < len(factors):
        fail(
            f"The term {term!r} uses a column twice. Squares are not multi-affine: use "
            "SensitivitySpace.moments or SensitivitySpace.sum_and_squares."
        )
    return factors


def connected_terms(terms: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    """Groups of terms that share columns, in order of first appearance.

    >>> connected_terms([("a",), ("b",), ("c",), ("a", "c")])
    [[('a',), ('c',), ('a', 'c')], [('b',)]]
    """
    groups: dict[int, list[tuple[str, ...]]] = {}
    home: dict[str, int] = {}  # the group of every column
    for j, term in enumerate(terms):
        touching = sorted({home[name] for name in term if name in home})
        first = groups.setdefault(touching[0] if touching else j, [])
        for other in touching[1:]:
            moved = groups.pop(other)
            first += moved
            home |= dict.fromkeys((name for each in moved for name in each), touching[0])
        first.append(term)
        home |= dict.fromkeys(term, touching[0] if touching else j)
    return [groups[place] for place in sorted(groups)]


def _boxes(numeric: list[str], domain: Domain) -> list[RowImage]:
    """The pending numeric columns as one box (and clears the list)."""
    if not numeric:
        return []
    intervals = [domain[name] for name in numeric]
    low = np.array([column.low for column in intervals if isinstance(column, Interval)])
    high = np.array([column.high for column in intervals if isinstance(column, Interval)])
    box = BoxImage(low, high, list(numeric))
    numeric.clear()
    return [box]


def _enumerated(group: Sequence[tuple[str, ...]], domain: Domain) -> FiniteImage:
    """Images of all vertices of the columns that occur in a group of interacting terms."""
    columns = list(dict.fromkeys(itertools.chain.from_iterable(group)))
    values = [_vertex_values(domain[name]) for name in columns]
    count = math.prod(len(v) for v in values)
    if count > _MOST_VERTICES:
        fail(
            f"The terms {', '.join(':'.join(t) for t in group)} have {count} domain vertices, more "
            f"than {_MOST_VERTICES}. Split the statistic into fewer interacting columns."
        )
    rows = [dict(zip(columns, row, strict=True)) for row in itertools.product(*values)]
    names: list[str] = []
    entries: list[FloatArray] = []
    for term in group:
        for label, entry in _expanded(term, rows, domain):
            names.append(label)
            entries.append(entry)
    return FiniteImage(np.column_stack(entries), rows, names)


def _vertex_values(column: Interval | Category) -> list[Any]:
    if isinstance(column, Interval):
        return [column.low, column.high]
    return list(column.levels)


def _expanded(
    term: tuple[str, ...], rows: list[dict[str, Any]], domain: Domain
) -> Iterable[tuple[str, FloatArray]]:
    """The entries of a term: one for each combination of the levels of its categories."""
    options = []
    for name in term:
        column = domain[name]
        if isinstance(column, Interval):
            options.append([(name, np.array([row[name] for row in rows], dtype=np.float64))])
        else:
            options.append(
                [
                    (f"{name}[{level}]", np.array([float(row[name] == level) for row in rows]))
                    for level in column.levels
                ]
            )
    for choice in itertools.product(*options):
        yield ":".join(label for label, _ in choice), np.prod([v for _, v in choice], axis=0)
