"""Weighted sums of products, for least squares with known weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightdp.data.blocks import Block, Grid, grouped_sums, product_rounding
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.statistics import SCALED, Statistic, check_fits, columns_of_kind, distinct
from tightdp.errors import FloatArray, Integers, check_array, check_within, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.randomness import RandomSource, SeededSource
from tightdp.schema import Interval, Schema, check_schema

_CORNERS = 4096


class WeightedMoments(Statistic):
    r"""The sums :math:`X^\top W X` and :math:`X^\top W Y` of a regression with known weights.

    Remark 6.1 of the preprint of Awan and Slavković (2018): where the variance of every error is
    known up to a factor, its inverse is the weight of the row, a column of its own. With features
    and target scaled to [-1, 1] and :math:`1 + w` twice the weight over its upper bound, the
    entries are :math:`(1+w) z_i z_j` for the pairs of z = (1, x, y) and :math:`2(1+w) z_i^2` for
    1 and the features. Each moves by at most 4 when a row is replaced: the box of the l_infinity
    mechanism, which is what the remark names. Coefficients come from a release by
    :meth:`coefficients`.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
    weight : str
        A column with bounds (0, most): rows of weight ``most`` count in full.

    Examples
    --------
    >>> import tightdp as tdp
    >>> facts = {"x": Interval(0, 2), "y": Interval(0, 8), "w": Interval(0, 1)}
    >>> moments = WeightedMoments(Schema(facts, rows=1001), ["x"], "y", weight="w")
    >>> moments.names
    ('2*(1+w)', '(1+w)*x', '2*(1+w)*x^2', '(1+w)*y', '(1+w)*x*y')
    >>> x = np.linspace(0, 2, 1001)
    >>> rows = {"x": x, "y": np.where(x < 1, 1 + 3 * x, 8.0), "w": x < 1}  # the rest counts nothing
    >>> release = tdp.AdditiveMechanism(moments, epsilon=200).release(rows)
    >>> moments.coefficients(release.value).round()
    array([1., 3.])
    """

    multi_affine = False

    def __init__(
        self, schema: Schema, features: Sequence[str], target: str, *, weight: str
    ) -> None:
        self.schema = check_schema(schema)
        self.features = tuple(columns_of_kind(schema, features, Interval, "features"))
        columns_of_kind(schema, [target], Interval, "target")
        columns_of_kind(schema, [weight], Interval, "weight")
        self.target, self.weight = target, weight
        self.columns = (*self.features, target, weight)
        if len(set(self.columns)) < len(self.columns):
            fail("`features`, `target` and `weight` must be distinct columns.")
        bounds = schema[weight]
        assert isinstance(bounds, Interval)
        if bounds.low != 0:
            fail(f"`weight`: the bounds of {weight!r} must begin at 0. Got {bounds.low:g}.")
        self.layout = DesignMatrix(schema, self.features, target)
        last = len(self.features) + 1
        pairs = [(0, 0)]
        for j in range(1, last):
            pairs += [(i, j) for i in range(j)] + [(j, j)]
        pairs += [(i, last) for i in range(last)]
        self._pairs = np.array(pairs)
        self._factor = np.where(self._pairs[:, 0] == self._pairs[:, 1], 2, 1)
        self.names = distinct(tuple(self._label(i, j) for i, j in pairs))
        check_fits(self)

    def _label(self, i: int, j: int) -> str:
        label, weight = (*self.features, self.target), f"(1+{self.weight})"
        if i == j:
            return f"2*{weight}" if i == 0 else f"2*{weight}*{label[i - 1]}^2"
        return "*".join([weight, *(label[k - 1] for k in (i, j) if k)])

    @property
    def units(self) -> str:
        return SCALED

    @property
    def degree(self) -> int:
        return 3

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        z = np.vstack(
            [
                np.full((1, len(block)), float(grid.points)),
                grid.cells(block, (*self.features, self.target)),
            ]
        )
        # 0..2 points: one bit more than other cells, which `rows_that_fit` leaves room for
        weight = grid.cells(block, [self.weight]) + grid.points
        sums = [
            grouped_sums(np.vstack([weight, z[[i, j]]]), None, 1, grid.cell_bits + 1)[0]
            for i, j in self._pairs
        ]
        return np.asarray(np.array(sums, dtype=np.int64) * self._factor)

    def row_rounding(self, grid: Grid) -> FloatArray:
        errors = [0.0, *(grid.rounding(name) for name in (*self.features, self.target))]
        weight = grid.rounding(self.weight) / 2  # of the weight itself, in [0, 1]
        each = [product_rounding([weight, errors[i], errors[j]]) for i, j in self._pairs]
        return np.asarray(2 * np.array(each) * self._factor)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(_WeightedImage(self), self.schema.neighbors)

    def scaled_rows(self, rows: FloatArray) -> FloatArray:
        """What rows (x, y, w), scaled to [-1, 1], add to every entry; shape (k, entries)."""
        z = np.column_stack([np.ones(len(rows)), rows[:, :-1]])
        i, j = self._pairs.T
        return np.asarray((1 + rows[:, -1:]) * z[:, i] * z[:, j] * self._factor)

    def coefficients(self, values: FloatArray, *, penalty: float = 0.0) -> FloatArray:
        """Intercept and slopes in user units, from released sums; costs nothing.

        The pseudo-inverse of the noisy sums, or a ridge with ``penalty`` on the scaled slopes
        and the intercept (equations 5 and 6 of the preprint).
        """
        found = check_array("values", values, 1, len(self.names)) / (2 * self._factor)
        ridge, size = check_within("penalty", penalty, "[0, inf)"), len(self.features) + 2
        i, j = self._pairs.T
        whole = np.zeros((size, size))
        whole[i, j] = whole[j, i] = found
        inverse = np.linalg.pinv(whole[:-1, :-1] + ridge * np.eye(size - 1), hermitian=True)
        return self.layout.to_user(inverse @ whole[:-1, -1])


class _WeightedImage(RowImage):
    """What one row contributes: a point of the box, reached in every entry alone."""

    def __init__(self, moments: WeightedMoments) -> None:
        self.moments, self.names = moments, moments.names

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        rng, width = SeededSource(1), len(self.moments.columns)
        signs = np.asarray(rng.integers(3, (_CORNERS, width)) - 1.0)
        rows = np.vstack([signs, 2 * rng.uniform((_CORNERS, width)) - 1])
        images = self.moments.scaled_rows(rows)
        k = int((images @ c).argmax())
        return images[k], dict(zip(self.moments.columns, rows[k].tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        rows = 2 * rng.uniform((size, len(self.moments.columns))) - 1
        return self.moments.scaled_rows(rows)

    def replace_hull(self) -> Hull:
        # (1+w) z_i z_j lies in [-2, 2], 2 (1+w) z_i^2 in [0, 4]: both move by at most 4
        return Hull(LpBall(self.dim, np.inf, 4.0), False, "outer: the box of all entries")

    def add_hull(self) -> Hull:
        most = 2.0 * self.moments._factor
        return Hull(LpBall(self.dim, np.inf, most), False, "outer: the box of all entries")
