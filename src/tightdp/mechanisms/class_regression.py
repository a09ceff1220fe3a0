"""Logistic regression for several classes by objective perturbation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.convex.class_losses import SoftmaxLoss
from tightdp.convex.class_objective import ClassObjective
from tightdp.convex.margin_losses import RowLoss
from tightdp.data.design_matrix import target_name
from tightdp.data.statistics import distinct
from tightdp.errors import FloatArray, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.counting_balls import HistogramBall
from tightdp.geometry.norm_balls import NormBall
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.schema import Category, Schema, check_schema


class ClassPerturbation(ObjectivePerturbation):
    r"""Releases one vector of coefficients for each of K classes, together zero in every column.

    .. math::

        \hat\theta = \mathrm{argmin} \sum_i \Bigl(\log \sum_k e^{\theta_k \cdot x_i}
            - \theta_{y_i} \cdot x_i\Bigr) + \tfrac{\gamma}{2} \sum_k |\theta_k|^2
            + \sum_k V_k \cdot \theta_k, \qquad f(v) \propto \exp(-\eta \|v\|_K)

    where V lives in the space E of vectors with :math:`\sum_k V_k = 0`, and the ball K is, for
    every column, the hull of all :math:`e_k - e_l`, which for two classes makes a cube. (Indicators
    of a category count as columns of their own here: the hull of a whole category is smaller.)

    **Privacy.**
    Statement: as for :class:`~tightdp.ObjectivePerturbation`, under both neighbour relations.
    Needs: [P2] to [P5] there, without penalties but the ridge; in place of [P1] the bounds of
    :class:`~tightdp.convex.class_losses.SoftmaxLoss`.
    Proof: that of the base on the space E, with these changes.

    1. *The space.* Slopes :math:`p - e_y` sum to zero over classes. So the gradient of the sum, V
       and with them the minimiser lie in E, and :math:`V = -(\nabla L + \gamma\theta)` maps E onto
       E, smoothly and one to one.
    2. *The noise.* A row adds :math:`(p - e_y) \otimes x`, whose entries for one column are
       :math:`x_j (p - e_y)`. Half their l1 norm, the norm of K, is :math:`|x_j| s \le s`,
       :math:`s = 1 - p_y < 1`. So a neighbour moves V by at most s + 1 (s if a row comes or goes).
    3. *The determinant.* A row adds :math:`W \otimes x x^T`, :math:`W = \mathrm{diag}(p) - pp^T`
       **of rank K - 1**. With :math:`C \ge \gamma I` the rest of the Hessian on E, the determinant
       grows by :math:`\det(I + W^{1/2} (I \otimes x)^T C^{-1} (I \otimes x) W^{1/2}) \le
       \det(I + c W)`, :math:`c = |x|^2 / \gamma \le m/\gamma`, since :math:`(I \otimes x)^T C^{-1}
       (I \otimes x) \le |x|^2 I / \gamma`. (The bound :math:`1 + c/2` for a rank of one would be
       too small, by a factor of up to :math:`(K - 1)` in the logarithm.)
    4. *Together.* Given s, :math:`\log\det(I + cW)` is at most the h(s) of the loss, and the log
       ratio at most :math:`\sup_s \eta (1 + s) + h(s)`. For two classes this is the accounting of
       :class:`~tightdp.ObjectivePerturbation`, whose :math:`\theta` is
       :math:`\theta_2 - \theta_1`.
    5. *The grid.* Integers of E are those of K - 1 coordinates; a cell is a cube of these. Two
       points of the grid next to v, v' differ by v - v' and less than 1 in each of them, a vector
       of gauge below K - 1; half a diagonal of the cell is at most :math:`\sqrt{m K (K-1)} / 2`.

    Numerics: ``idealized-numerics``, as the base.

    References: Kifer and others (2012), for the rank of Hessians; Böhning (1992), for the parabola
    above the loss; the hull of a replaced count.

    Parameters
    ----------
    schema : Schema
        The target is a Category of two or more levels.
    features, target : optional
        Names; by default all columns but the last, and the last.
    epsilon : float, Fraction or Decimal
    noise_share, ridge, fit_intercept
        As for :class:`~tightdp.ObjectivePerturbation`.

    Examples
    --------
    >>> from tightdp import Interval
    >>> columns = {"x": Interval(-1, 1), "kind": Category(["a", "b", "c"], other="a")}
    >>> mechanism = ClassPerturbation(Schema(columns, rows=3000), epsilon=1.0)
    >>> mechanism.names[:2], len(mechanism.names)
    (('a: intercept', 'a: x'), 6)
    >>> x = np.linspace(-1, 1, 3000)
    >>> table = {"x": x, "kind": ["a"] * 1000 + ["b"] * 1000 + ["c"] * 1000}
    >>> found = mechanism.release(table, rng=1).value.reshape(3, 2)
    >>> bool(found[0, 1] < 0 < found[2, 1]), bool(abs(found.sum(axis=0)).max() < 1e-6)
    (True, True)
    """

    loss: SoftmaxLoss

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        epsilon: Number,
        noise_share: Number | str = "auto",
        ridge: float = 0.0,
        fit_intercept: bool = True,
    ) -> None:
        name = target_name(check_schema(schema), target)
        column = schema[name]
        if not isinstance(column, Category):
            fail(f"The target {name!r} must be a Category for the softmax loss.")
        self.levels = column.levels
        super().__init__(
            schema,
            features,
            target,
            loss=SoftmaxLoss(len(column.levels)),
            epsilon=epsilon,
            noise=None,
            noise_share=noise_share,
            ridge=ridge,
            fit_intercept=fit_intercept,
        )

    def _read_loss(self, loss: object) -> RowLoss:
        assert isinstance(loss, SoftmaxLoss)
        return loss

    def _named(self) -> tuple[str, ...]:
        pairs = [(level, name) for level in self.levels for name in self._columns]
        return distinct(tuple(f"{level}: {name}" for level, name in pairs))

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.rows.names

    def _read_ball(self, noise: Any) -> NormBall:
        ball: NormBall = HistogramBall(self.loss.classes)
        return ball if len(self._columns) == 1 else Product([ball] * len(self._columns))

    def _cell(self) -> tuple[float, float]:
        others = self.loss.classes - 1  # [step 5]
        diagonal = math.sqrt(len(self._columns) * others * (others + 1))
        return float(others), diagonal / 2.0

    def _objective(self, rows: FloatArray, target: FloatArray, tilt: FloatArray) -> ClassObjective:
        ridge = self.calibration.ridge  # [P3]
        return ClassObjective(rows, target, self.loss, ridge, tilt, self.penalty)

    @property
    def order(self) -> NDArray[np.intp]:
        # parameters go by class and noise goes by column
        places = np.arange(len(self.names)).reshape(len(self._columns), self.loss.classes)
        return np.asarray(places.T.ravel())

    @property
    def linear(self) -> FloatArray:
        return np.asarray(np.kron(np.eye(self.loss.classes), self.rows.design.linear), np.float64)

    def stiffness(self, rows: FloatArray, margin: FloatArray) -> FloatArray:
        count = self.loss.classes
        # all classes equally likely; beside E, where nothing moves, as within it
        return np.asarray(np.kron(np.eye(count) / count, rows.T @ rows), np.float64)

    def recover(self, integers: Sequence[int]) -> FloatArray:
        """Parameters in user units, one class after the other."""
        theta = self.scaled(integers).reshape(self.loss.classes, -1)
        return self.rows.design.to_user(theta).ravel()


def several_classes(label: object) -> bool:
    """Whether more than two classes were stated.

    Two classes without a word about unseen labels are not three: whoever states them is asked for
    that word.
    """
    return isinstance(label, Category) and len(label.named) > 2
