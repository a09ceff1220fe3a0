"""The sums that a linear regression needs, with categories, and bodies around their changes.

:class:`RegressionMoments` sums products of a constant, the numeric features, the indicators of
categories and the target. Its entries come in *parts* that can get noise of their own: those with
the target, those of the features alone, and the square of the target. Every part has a body that
provably contains what one row can change.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import Block, Grid, gram_of_doubles, product_rounding
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.statistics import SCALED, Statistic, columns_of_kind, distinct
from tightdp.errors import FloatArray, Integers, check_choice, check_most, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.moment_bodies import KINDS, MomentBody
from tightdp.geometry.moment_hulls import K2
from tightdp.geometry.norm_balls import MEASURING_SEED, LpBall, NormBall, SecondMoment
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema

Entry = tuple[int, int, int]
"""Columns i and j of the design and a factor: the entry sums ``factor * z_i * z_j``."""

MOST_MOMENTS = 1 << 17  # of a regression: about 500 numeric features
MOST_MATRIX = 1 << 11  # entries whose covariance is a matrix; of more it is their variances
MOMENT_KINDS = ("triangle", "cylinder", "box")
ROWS: Entry = (0, 0, 1)
"""The number of rows, where it is private."""

_DRAWS = 6_000


@dataclass(frozen=True, slots=True)
class Group:
    """Entries that share a body: "moments", a "square", a "box" or a "diamond", times ``unit``."""

    entries: tuple[Entry, ...]
    shape: str
    unit: int = 1


class RegressionMoments(Statistic):
    r"""Sums of products of :math:`z = (1, d_1, ..., d_q, y)`, numeric columns scaled to [-1, 1].

    A category with stated levels :math:`l_0, l_1, ...` becomes indicators of :math:`l_1, ...`; its
    first level is the reference, which cells of a level that nobody stated count as. Indicators of
    one category exclude each other, so products of two of them are 0 and not summed, and squares of
    indicators are their sums.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
        Numeric columns or categories.
    target : str
        A numeric column.
    joint : bool
        One part ``"moments"`` instead of ``"target"`` and ``"features"``.
    square : bool
        Whether the square of the target is summed, too (part ``"square"``), for the residual
        variance.

    Notes
    -----
    *Bodies.* Sums of products of numeric columns move within a
    :class:`~tightdp.MomentBody` (proved there). ``y (1, x)`` at the corners takes every sign
    vector, so its hull is a cube and that of its changes [-2, 2]^(p+1), exactly. Within a category
    one row has at most one indicator, so ``x (d_1, d_2, ...)``, ``y (d_1, d_2, ...)`` and products
    of two categories lie in the l1 ball, their changes in twice that ball. Squares of features
    that no moment body covers, and ``y^2``, move within their interval. The product of bodies
    around the projections contains the space itself.

    *Rows whose number is private* are counted among the features' moments. Under add-remove a row
    moves the moments by :math:`\pm(1, \phi)`, and squares enter as 2 x^2 - 1: all entries but
    indicators then move within [-1, 1], and products with the indicators of one category within the
    l1 ball. Where rows with missing cells are left out
    (:class:`~tightdp.schema.CompleteRows`), a replaced row may also come or go. *The other
    entries then move as before*: a row of zeros (the middles of the bounds, and the reference
    levels) adds :math:`\phi = 0`, so that to leave a row out is, for them, to replace it by
    that row; and the count moves within [-1, 1].

    Examples
    --------
    >>> from tightdp import Category
    >>> levels = Category(["a", "b", "c"], other="a")
    >>> facts = {"x": Interval(0, 1), "k": levels, "y": Interval(0, 9)}
    >>> moments = RegressionMoments(Schema(facts, rows=50), ["x", "k"], "y")
    >>> moments.design, moments.names[moments.where("target")]
    (('x', 'k[b]', 'k[c]'), ('y', 'x*y', 'k[b]*y', 'k[c]*y'))
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        joint: bool = False,
        square: bool = True,
    ) -> None:
        self.schema = check_schema(schema)
        self.features, self.target = tuple(features), target
        self.columns = (*self.features, target)
        if len(set(self.columns)) < len(self.columns) or not self.features:
            fail("`features` and `target` must be distinct columns, at least one feature.")
        if not isinstance(schema[target], Interval):
            fail(f"The target {target!r} must be a column with an Interval.")
        self.joint, self.square = joint, square
        self.counted = not joint and not schema.rows_known
        self._added = self.counted and schema.neighbors is Neighbors.ADD_REMOVE
        self._numeric = [n for n in self.features if isinstance(schema[n], Interval)]
        self.layout = DesignMatrix(schema, self.features, target)
        self.design, self.places = self.layout.design, self.layout.places
        self.parts = self._lay_out()
        entries = [entry for groups in self.parts.values() for g in groups for entry in g.entries]
        remedy = "choose fewer features, or levels"
        check_most("features", len(entries), MOST_MOMENTS, "moments", remedy)
        self.entries = np.array(entries, dtype=np.int64)
        # what is subtracted from an entry for every row: from squares under add-remove
        squares = [self._added and i == j > 0 for i, j, _ in entries]
        self.centred = np.array(squares, dtype=np.int64)
        self.names = tuple(self._label(*entry) for entry in entries)

    # --- layout -------------------------------------------------------------------------------

    multi_affine = False

    @property
    def degree(self) -> int:
        return 2

    @property
    def outcome(self) -> int:
        """Place of the target in z."""
        return len(self.design) + 1

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        y = self.outcome
        x = [self.places[name][0] for name in self._numeric]
        sets = [self.places[n] for n in self.features if n not in self._numeric]
        with_target = [Group(tuple((k, y, 1) for k in s), "diamond") for s in sets]
        between = [Group(tuple((0, k, 1) for k in s), "diamond") for s in sets]
        between += [Group(tuple((j, k, 1) for k in s), "diamond") for j in x for s in sets]
        between += [
            Group(tuple((j, k, 1) for j in s for k in t), "diamond")
            for s, t in combinations(sets, 2)
        ]
        if self._added:
            return self._lay_out_added(x, with_target, between)
        unit = 2 if sets else 1  # all bodies of a product but boxes need one radius
        parts: dict[str, tuple[Group, ...]] = {}
        if self.joint:
            parts["moments"] = (*moment_groups(x, y, unit), *with_target, *between)
        else:
            box = Group(tuple((k, y, 1) for k in [0, *x]), "box")
            parts["target"] = (box, *with_target)
            own = moment_groups(x[:-1], x[-1], unit) if x else ()
            last = (Group(((x[-1], x[-1], 2 * unit),), "box", unit),) if x else ()
            if len(x) == 1:
                own, last = (Group(((0, x[0], unit), (x[0], x[0], 2 * unit)), "square", unit),), ()
            count = (Group((ROWS,), "count"),) if self.counted else ()
            parts["features"] = (*count, *own, *last, *between)
        if self.square:
            parts["square"] = (Group(((y, y, 2),), "box"),)
        return parts

    def _lay_out_added(
        self, x: list[int], with_target: list[Group], between: list[Group]
    ) -> dict[str, tuple[Group, ...]]:
        """The same where a row is added or removed: boxes of [-1, 1], and l1 balls."""
        y = self.outcome
        own = [ROWS, *((0, j, 1) for j in x), *((j, j, 2) for j in x)]
        own += [(j, k, 1) for j, k in combinations(x, 2)]
        parts = {
            "target": (Group(tuple((k, y, 1) for k in [0, *x]), "box"), *with_target),
            "features": (Group(tuple(own), "box"), *between),
        }
        return parts | ({"square": (Group(((y, y, 2),), "box"),)} if self.square else {})

    def _label(self, i: int, j: int, factor: int) -> str:
        if (i, j, factor) == ROWS:
            counted = "persons" if self.schema.persons_alike else "rows"
            taken = counted in (*self.design, self.target)
            return f"number of {counted}" if taken else counted
        label = ("1", *self.design, self.target)
        body = f"{label[i]}^2" if i == j else label[j] if i == 0 else f"{label[i]}*{label[j]}"
        body = body if factor == 1 else f"{factor}*{body}"
        return f"{body}-1" if self._added and i == j else body

    def where(self, part: str) -> slice:
        """The entries of a part."""
        check_choice("part", part, self.parts)
        sizes = {name: sum(len(g.entries) for g in groups) for name, groups in self.parts.items()}
        start = sum(sizes[name] for name in list(sizes)[: list(sizes).index(part)])
        return slice(start, start + sizes[part])

    # --- bodies -------------------------------------------------------------------------------

    def ball(self, part: str, kind: str = "triangle") -> NormBall:
        """A body around the changes of a part; ``kind`` is that of its moment body.

        Parameters
        ----------
        part : str
        kind : {"triangle", "cylinder", "box"}
        """
        check_choice("kind", kind, MOMENT_KINDS)
        groups = self.parts[check_choice("part", part, self.parts)]
        balls = [group_ball(group, kind, 1 if self._added else 2) for group in groups]
        return balls[0] if len(balls) == 1 else Product(balls)

    def sensitivity_space(self) -> SensitivitySpace:
        if self.joint and not self.schema.rows_known:
            fail("All moments in one body need a public number of rows: use joint=False.")
        return SensitivitySpace(_RegressionImage(self), self.schema.neighbors)

    # --- sums ---------------------------------------------------------------------------------

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        if len(self._numeric) == len(self.features):
            rows = grid.cells(block, self.columns)
        else:
            rows = self._design_rows(block, grid)
        sums = rows.sum(axis=1).astype(np.int64)
        gram = gram_of_doubles(rows, grid.cell_bits)
        whole = np.zeros((len(rows) + 1, len(rows) + 1), dtype=gram.dtype)
        whole[1:, 1:] = gram
        whole[0, 1:] = sums.astype(gram.dtype) * grid.points
        whole[0, 0] = len(block) * grid.points**2
        i, j, factor = self.entries.T
        # up to 4 times a sum: see `rows_that_fit`
        return np.asarray(whole[i, j] * factor - self.centred * whole[0, 0])

    def _design_rows(self, block: Block, grid: Grid) -> FloatArray:
        parts: list[FloatArray] = []
        for name in self.columns:
            column = self.schema[name]
            if isinstance(column, Interval):
                parts.append(grid.cells(block, [name]))
            else:
                codes = block[name]
                levels = np.arange(1, len(column.indicators) + 1)
                parts.append((codes[None, :] == levels[:, None]) * float(grid.points))
        return np.vstack(parts)

    def row_rounding(self, grid: Grid) -> FloatArray:
        cell = [0.0]
        for name in self.columns:
            numeric = isinstance(self.schema[name], Interval)
            width = 1 if name == self.target else len(self.places[name])
            cell += [grid.rounding(name) if numeric else 0.0] * width
        return np.array([k * product_rounding([cell[i], cell[j]]) for i, j, k in self.entries])

    # --- the way back -------------------------------------------------------------------------

    def matrices(self, values: FloatArray) -> FloatArray:
        """Second moments of z, shape (..., q + 2, q + 2), from entries divided by n.

        What the entries do not tell is filled in: 1 for the constant where rows are not counted,
        0 between exclusive indicators, NaN for the square of the target if it was not summed.
        """
        size = self.outcome + 1
        out = np.zeros((*values.shape[:-1], size, size))
        i, j, factor = self.entries.T
        rows = values[..., [self.count_place]] if self.counted else 0.0
        scaled = (values + self.centred * rows) / factor
        out[..., i, j] = scaled
        out[..., j, i] = scaled
        if not self.counted:
            out[..., 0, 0] = 1.0
        if not self.square:
            out[..., -1, -1] = np.nan
        for name in self.features:
            if name not in self._numeric:
                places = self.places[name]
                out[..., places, places] = out[..., 0, places]
        return out

    @property
    def count_place(self) -> int:
        """Where the number of rows stands among the entries, if rows are counted."""
        return int(np.flatnonzero((self.entries == ROWS).all(axis=1))[0])

    # --- the number of rows, and what noise does to means over them ----------------------------

    def rows(self, values: FloatArray, covariance: FloatArray) -> float:
        """The number of rows; a noisy one is no less than what noise makes of an empty table."""
        if not self.counted:
            return float(self.schema.rows)
        return max(float(values[self.count_place]), self._rows_error(covariance), 1.0)

    def least_rows(self, rows: float, covariance: FloatArray) -> float:
        """So many rows there are, or hardly fewer."""
        return rows - (self._rows_error(covariance) if self.counted else 0.0)

    def _rows_error(self, covariance: FloatArray) -> float:
        return 2 * float(np.sqrt(variances_of(covariance)[self.count_place]))

    def unit_noise(self) -> tuple[Integers, Integers, Integers, FloatArray]:
        """What one unit of noise on every entry adds to the matrix of products.

        Lists of entries, rows and columns of the matrix, and what is added there: the numbers of
        :meth:`noise_matrices` for the identity that are not 0, which are few.
        """
        i, j, factor = self.entries.T
        entry, share = np.arange(len(i)), 1 / factor
        pairs = i != j
        indicators = [k for n in self.features if n not in self._numeric for k in self.places[n]]
        own = (i == 0) & np.isin(j, indicators)  # sums of indicators are their squares, too
        found = [
            (entry, i, j, share),
            (entry[pairs], j[pairs], i[pairs], share[pairs]),
            (entry[own], j[own], j[own], share[own]),
        ]
        if self.counted:  # squares are counted less one for every row
            lifted = self.centred != 0
            rows = np.full(int(lifted.sum()), self.count_place)
            found.append((rows, i[lifted], j[lifted], (self.centred * share)[lifted]))
        if not self.counted:  # the number of rows is public
            found = [
                tuple(part[(at > 0) | (to > 0)] for part in (k, at, to, s))
                for k, at, to, s in found
            ]
        entries, first, second, value = (np.concatenate(part) for part in zip(*found, strict=True))
        return entries, first, second, value

    def noise_matrices(self, noise: FloatArray) -> FloatArray:
        """Draws of noise in the places of the moments, nothing elsewhere."""
        full = self.matrices(noise)
        if not self.counted:
            full[..., 0, 0] = 0.0
        full[np.isnan(full)] = 0.0
        return full

    def on_products(self, noise: FloatArray, products: FloatArray, rows: float) -> FloatArray:
        r"""What draws of noise on the sums do to the mean products M.

        With noise N on the sums and :math:`N_0` on a noisy number n of rows, the sums divided by
        the true number are :math:`M - (N - M N_0)/(n - N_0)`. Draws serve with both signs: the
        smaller divisor of the two is taken.
        """
        full = self.noise_matrices(noise)
        if not self.counted:
            return full / rows
        off = full[:, :1, :1]
        return np.asarray((full - products * off) / np.maximum(rows - abs(off), 1.0))

    def product_variances(
        self, covariance: FloatArray, products: FloatArray, rows: float
    ) -> FloatArray:
        """Variances of the noise on the mean products, to first order; 0 where there is none."""
        i, j, factor = self.entries.T
        each = variances_of(covariance)
        own = each / factor**2
        if self.counted:
            place = self.count_place
            alone = np.where(np.arange(len(each)) == place, each, 0.0)
            shared = alone if covariance.ndim == 1 else covariance[place]
            off = self.centred / factor - products[i, j]  # what a row too many does
            own = own + 2 * off * shared / factor + off**2 * each[place]
        out = np.zeros((self.outcome + 1, self.outcome + 1))
        out[i, j] = out[j, i] = own / rows**2
        return out

    def paired(self) -> NDArray[np.bool_]:
        """Which pairs of columns of the design are not indicators of one category."""
        free = np.ones((len(self.design), len(self.design)), dtype=bool)
        for name in self.features:
            if name not in self._numeric:
                places = np.array(self.places[name]) - 1
                free[np.ix_(places, places)] = False
        return free


class FeatureMoments(RegressionMoments):
    """Those of the features alone; the target is read and not summed.

    Examples
    --------
    >>> schema = Schema({"a": Interval(0, 1), "b": Interval(0, 1), "y": Interval(-5, 5)}, rows=100)
    >>> FeatureMoments(schema, ["a", "b"], "y").names
    ('a', '2*a^2', 'b', 'a*b', '2*b^2')
    """

    def __init__(self, schema: Schema, features: Sequence[str], target: str) -> None:
        super().__init__(schema, features, target, square=False)

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        return {"features": super()._lay_out()["features"]}


class Moments(RegressionMoments):
    """First and second moments of features and a target, all scaled to [-1, 1].

    The entries are those of :class:`~tightdp.MomentBody`: sums, twice the sums of squares, and sums
    of products, for linear regression.

    Examples
    --------
    >>> schema = Schema({"a": Interval(0, 1), "y": Interval(-5, 5)}, rows=100)
    >>> Moments(schema, ["a"], "y").names
    ('a', '2*a^2', 'y', 'a*y')
    """

    def __init__(
        self, schema: Schema, features: Sequence[str], target: str, *, kind: str | None = None
    ) -> None:
        x = columns_of_kind(schema, features, Interval, "features")
        columns_of_kind(schema, [target], Interval, "target")
        super().__init__(schema, x, target, joint=True, square=False)
        self._kind = None if kind is None else check_choice("kind", kind, [*KINDS, "hull"])
        distinct(self.names)

    @property
    def units(self) -> str:
        return SCALED

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.moments(
            len(self.features), kind=self._kind, neighbors=self.schema.neighbors
        )


def variances_of(covariance: FloatArray) -> FloatArray:
    """The variances of entries, whether all of their covariances are known or these alone."""
    return covariance if covariance.ndim == 1 else np.diag(covariance)


def moment_groups(x: list[int], y: int, unit: int) -> tuple[Group, ...]:
    """Entries in the order of :class:`~tightdp.MomentBody` for features x and a last column y."""
    if not x:
        return (Group(((0, y, unit),), "box", unit),)
    entries = [(0, j, unit) for j in x] + [(j, j, 2 * unit) for j in x]
    entries += [(j, k, unit) for j, k in combinations(x, 2)]
    entries += [(0, y, unit), *((j, y, unit) for j in x)]
    return (Group(tuple(entries), "moments", unit),)


def group_ball(group: Group, kind: str, ends: int) -> NormBall:
    """The body of a group where a row is replaced, 2 ``ends``, or added or removed, 1."""
    size, unit = len(group.entries), float(group.unit)
    if group.shape == "count":
        return LpBall(size, np.inf, 1.0)
    if group.shape == "diamond":
        return LpBall(size, 1, float(ends))
    if group.shape == "box" or kind == "box":
        # u x and 2 u x^2 move by at most 2 u
        return LpBall(size, np.inf, ends * unit)
    if group.shape == "square":
        return _scaled(_square(), unit)
    features = sum(i == j for i, j, _ in group.entries)
    return _scaled(_moment_body(features, kind), unit)


def _scaled(ball: NormBall, unit: float) -> NormBall:
    return ball if unit == 1.0 else ball.scaled(unit)


@lru_cache(maxsize=32)
def _moment_body(features: int, kind: str) -> MomentBody:
    """One object for each body, so that what is measured of it is measured once."""
    return MomentBody(features, kind)


def measured(ball: NormBall) -> NormBall:
    """A ball like it, with the second moments of its moment bodies measured from few points.

    Variances of noise steer shares and shrinkage: a percent is close enough for both. The bodies
    are copied: others share them, and no noise may depend on who asked first.
    """
    out = copy.deepcopy(ball)
    for inner in getattr(out, "balls", [out]):
        body = getattr(inner, "ball", inner)
        if isinstance(body, MomentBody):
            body.second_moment = _quick_second_moment(body.p, body.kind)
    return out


@lru_cache(maxsize=32)
def _quick_second_moment(features: int, kind: str) -> SecondMoment:
    body = _moment_body(features, kind)
    squares = body.sample(_DRAWS, rng=MEASURING_SEED) ** 2
    value, error = squares.mean(axis=0), squares.std(axis=0) / np.sqrt(_DRAWS)
    p, d = body.p, body.dim
    for start, stop in ((0, p), (p, 2 * p), (2 * p, d - p - 1), (d - p, d)):  # exchangeable entries
        if start < stop:
            error[start:stop] = error[start:stop].mean() / np.sqrt(stop - start)
            value[start:stop] = value[start:stop].mean()
    return SecondMoment(np.diag(value), np.diag(error))


@lru_cache(maxsize=1)
def _square() -> K2:
    return K2()


class _RegressionImage(RowImage):
    """What one row contributes, for searches and proofs of containment."""

    def __init__(self, moments: RegressionMoments) -> None:
        self.moments = moments
        self.names = moments.names

    def images(self, rows: NDArray[Any]) -> FloatArray:
        """phi of rows z, shape (k, q + 2)."""
        i, j, factor = self.moments.entries.T
        return np.asarray(rows[:, i] * rows[:, j] * factor - self.moments.centred)

    def rows(self, size: int, rng: RandomSource, *, extreme: bool) -> FloatArray:
        """Random public rows z: corners of the domain, or points inside."""
        moments = self.moments
        cells = [
            rng.integers(levels + 1, size) if levels else _cells(size, rng, extreme)
            for levels in moments.layout.groups
        ]
        return np.column_stack(
            [moments.layout.rows(np.column_stack(cells)), _cells(size, rng, extreme)]
        )

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        from tightdp.randomness import SeededSource

        rng = SeededSource(1)
        rows = np.vstack([self.rows(4096, rng, extreme=e) for e in (True, False)])
        images = self.images(rows)
        k = int((images @ c).argmax())
        names = ("1", *self.moments.design, self.moments.target)
        return images[k], dict(zip(names, rows[k].tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.images(self.rows(size, rng, extreme=False))

    def replace_hull(self) -> Hull:
        balls = [self.moments.ball(part) for part in self.moments.parts]
        whole = balls[0] if len(balls) == 1 else Product(balls)
        return Hull(whole, False, "outer: product of the bodies of the parts")

    def add_hull(self) -> Hull:
        return self.replace_hull()  # the bodies are those of the relation


def _cells(size: int, rng: RandomSource, extreme: bool) -> FloatArray:
    """Signs and zeros, or uniform cells in [-1, 1]."""
    if extreme:
        return np.asarray(rng.integers(3, size) - 1.0)
    return 2 * rng.uniform(size) - 1
