"""Every noise law and every lattice body, ready to be drawn from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tightdp.exact.lattice_bodies import (
    CountBody,
    DiamondBody,
    PolytopeBody,
    ReplacedCountBody,
    RoundBody,
    SumBody,
)
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import MomentLatticeBody, RecordBody, SquareBody
from tightdp.exact.lattice_optional import OptionalRecordBody
from tightdp.exact.lattice_posets import PosetBody
from tightdp.geometry.poset_ball import PosetBall
from tightdp.noise.gaussian_laws import AnalyticGaussian, DiscreteGaussian, Gaussian
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.law import NoiseLaw
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.rounded_gaussian import RoundedGaussian
from tightdp.noise.table_noise import TableNoise

Make = Callable[[Any, int], Any]  # from epsilon and a sensitivity

LAWS: dict[type[NoiseLaw], Make] = {
    Laplace: lambda e, s: Laplace(epsilon=e, sensitivity=s),
    Staircase: lambda e, s: Staircase(epsilon=e, sensitivity=s),
    TruncatedLaplace: lambda e, s: TruncatedLaplace(epsilon=e, delta=0.01, sensitivity=s),
    Tulap: lambda e, s: Tulap(epsilon=e, delta=0.01, sensitivity=s),
    Gaussian: lambda e, s: Gaussian(epsilon=e, delta=0.01, sensitivity=s),
    AnalyticGaussian: lambda e, s: AnalyticGaussian(epsilon=e, delta=0.01, sensitivity=s),
    PiecewiseNoise: lambda e, s: PiecewiseNoise(
        [1, 3, 9, 3, 1], start=-2, cell_width=s, epsilon=e, sensitivity=s
    ),
    Geometric: lambda e, s: Geometric(epsilon=e, sensitivity=s),
    TruncatedGeometric: lambda e, s: TruncatedGeometric(epsilon=e, delta=0.01, sensitivity=s),
    DiscreteStaircase: lambda e, s: DiscreteStaircase(epsilon=e, sensitivity=s),
    DiscreteTulap: lambda e, s: DiscreteTulap(epsilon=e, sensitivity=s),
    LatticeSteps: lambda e, s: LatticeSteps(
        epsilon=e, sensitivity=s, width=max(1, 2 * s // 3), core=max(1, s // 2), delta=0.02
    ),
    DiscreteGaussian: lambda e, s: DiscreteGaussian(epsilon=e, delta=0.01, sensitivity=s),
    RoundedGaussian: lambda e, s: RoundedGaussian(sigma2=3 * s * s, sensitivity=s, delta=0.01),
    TableNoise: lambda e, s: TableNoise(
        [1, 3, 9, 3, 1], start=-2, points=min(s, 1 << 40), epsilon=e, sensitivity=s
    ),
}
BODIES: dict[type[LatticeBody], Callable[[], LatticeBody]] = {
    BoxBody: lambda: BoxBody([3, 2, 5], 2),
    DiamondBody: lambda: DiamondBody(9),
    RoundBody: lambda: RoundBody(5),
    SquareBody: SquareBody,
    SumBody: lambda: SumBody(6, 3),
    CountBody: lambda: CountBody(6, 3),
    ReplacedCountBody: lambda: ReplacedCountBody(6, 2),
    PosetBody: lambda: PosetBody(PosetBall(5, [(0, 1), (1, 2), (3, 4)])),
    PolytopeBody: lambda: PolytopeBody(np.array([[1, 1], [2, -1]]), np.array([3, 4]), [2, 3]),
    ProductBody: lambda: ProductBody([HistogramBody(9), BoxBody([1, 2])]),
    HistogramBody: lambda: HistogramBody(20),
    MomentLatticeBody: lambda: MomentLatticeBody(2, "triangle"),
    RecordBody: lambda: RecordBody(2),
    OptionalRecordBody: lambda: OptionalRecordBody(RecordBody(1)),
}
