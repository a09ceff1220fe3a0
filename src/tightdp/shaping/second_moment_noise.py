"""Which noise sums of products of columns get, for covariances: the body with the least energy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number
from tightdp.data.regression_moments import MOMENT_KINDS, group_ball, measured
from tightdp.data.second_moments import SQUARE, SecondMoments
from tightdp.errors import FloatArray, InfeasibleSamplingError, check_choice, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.nuclear_ball import MOST_SIZE, NuclearBall, entry_moments
from tightdp.geometry.nuclear_spectrum import Spectrum, replaced_spectrum, spectrum
from tightdp.noise.nuclear import MOST_REPLACED
from tightdp.noise.on_lattice import lattice_body
from tightdp.schema import Schema
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.nuclear_part import NuclearPart

NOISES = ("best", "nuclear", "l2", "columns")

# Public guesses that only steer where the noise goes, never how much privacy there is: the squared
# length of the mean, and the squared size of the matrix of second moments, beside that of a row.
_LEVEL = 1 / 24
_SIZE = 1 / 9
_WEIGHTS = np.arange(1, 257) / 64  # of the constant, beside the length of a row
_SHARES = 1000  # steps of epsilon that parts get
_EXACT_ROOT = Fraction(577, 408)  # exceeds the square root of 2 by less than two millionths
_MANY = 4  # columns: with more, bodies of columns one by one are larger than nuclear balls


@dataclass(frozen=True, slots=True)
class SecondMomentNoise:
    """Sums of products, and the bodies of their noise with their shares of epsilon."""

    moments: SecondMoments
    parts: tuple[Part, ...]

    def variances(self) -> FloatArray:
        """Of the noise on the entries of the matrix of sums, at epsilon = 1; 0 where there is none.

        Shape (p + 1, p + 1), in units of scaled columns.
        """
        each = np.concatenate([part.variances(Fraction(1)) for part in self.parts])
        i, j, factor = self.moments.entries.T
        size = len(self.moments.columns) + 1
        out = np.zeros((size, size))
        out[i, j] = out[j, i] = each / factor**2
        return out

    def energy(self) -> float:
        """Expected squared Frobenius norm of the noise on the matrix of products."""
        return float(self.variances()[1:, 1:].sum())

    def predicted_energy(self) -> float:
        """The same of covariances, for the public guesses; up to a factor that epsilon decides."""
        return float((self.variances() * _effects(self.moments)).sum())

    @property
    def words(self) -> str:
        """Which bodies were taken, and what they cost beside the hull of the moves, or a bound."""
        moments = self.moments
        shares = [f"{float(part.share):.1%} of epsilon" for part in self.parts]
        told = [
            f"{part.name}: {part.shape}{f', {share}' if len(shares) > 1 else ''}"
            for part, share in zip(self.parts, shares, strict=True)
        ]
        times = self.energy() / hull_energy(moments)
        text = f"{'; '.join(told)}; {times:.2f} times the noise energy of "
        if not moments.shortens:
            text += "a nuclear ball for the products alone"
        elif moments.added:
            text += "the hull of what rows do to the products alone"
        else:
            text += "the least body known around what rows do to the products alone"
        if len(moments.columns) > MOST_SIZE:
            text += f", which is not drawn for more than {MOST_SIZE} columns"
        return text


def hull_energy(moments: SecondMoments) -> float:
    """Energy of the noise that the products alone would have, in the body that is least known.

    Where rows of bounded length are added or removed it is the hull of their moves.
    """
    size, R = len(moments.columns), float(moments.square)
    return float((R if moments.added else 2 * R) ** 2 * _law(moments, size).squares)


def choose_noise(
    schema: Schema,
    columns: Iterable[str] | None,
    norm: Number | None,
    noise: object,
    *,
    sums: bool,
) -> SecondMomentNoise:
    """The asked noise; "best" has the least predicted energy of the covariances."""
    check_choice("noise", noise, NOISES)
    listed = None if columns is None else columns if isinstance(columns, str) else list(columns)

    def moments(layout: str) -> SecondMoments:
        return SecondMoments(schema, listed, norm=norm, sums=sums, layout=layout)

    first = moments("apart")
    width, R = len(first.columns), float(first.square)
    few = width <= _MANY and width < 2 * R
    layouts = {
        "nuclear": ["apart", *["matrix"] * (sums and width < MOST_SIZE)],
        "columns": ["columns"],
        "l2": ["round"],
    }
    asked = [str(noise)]
    if noise == "best":
        asked = ["nuclear", *["columns"] * few] if width <= MOST_SIZE else ["columns", "l2"]
    made = (body_of(moments(layout)) for name in asked for layout in layouts[name])
    return min(made, key=SecondMomentNoise.predicted_energy)


def body_of(moments: SecondMoments) -> SecondMomentNoise:
    """The bodies that sums of one layout are made for."""
    make = {"matrix": _joint, "apart": _apart, "round": _round, "columns": _by_columns}
    alone = moments.layout == "matrix" and not moments.sums
    return (_apart if alone else make[moments.layout])(moments)


def _effects(moments: SecondMoments) -> FloatArray:
    """What a unit of variance of each entry of the sums adds to the energy of the covariances.

    With S the products, m the mean and n the number of rows, the covariance S / n - m m' moves by
    :math:`(dS - m\\,ds^T - ds\\,m^T - (S/n - 2 m m^T)\\,dn)/n`.
    """
    width, R = len(moments.columns), float(moments.square)
    out = np.ones((width + 1, width + 1))
    out[0, 1:] = out[1:, 0] = _LEVEL * R * (width + 1) / width  # each stands twice
    out[0, 0] = _SIZE * R**2 / width
    return out


# --- bodies ---------------------------------------------------------------------------------------


def _joint(moments: SecondMoments) -> SecondMomentNoise:
    r"""One ball of the nuclear norm for z z', z = (1, x).

    With a weight c on the constant, :math:`|Sz|^2 \le R + c^2`. A row that is added or removed
    moves the sums by :math:`\pm z z^T`, of nuclear norm :math:`|Sz|^2`. Replaced, it moves them by
    D = z z' - w w': the traces of its positive and negative part are at most :math:`R + c^2`
    (that of the positive part is the largest inner product with a projection, which is at most that
    of z z'), their sum is its nuclear norm and their difference its trace. A row that is left out
    for missing cells is one that comes or goes: then D = z z' or - w w', within the same bounds.
    """
    size = len(moments.columns) + 1
    weight = _weight(moments, entry_moments(size, _law(moments, size)))
    part = _matrix_part(moments, "moments", moments.square + weight**2, (weight, *[1] * (size - 1)))
    return SecondMomentNoise(moments, (part,))


def _apart(moments: SecondMoments) -> SecondMomentNoise:
    """The same ball for x x' alone, a round one for the sums, and the number of rows apart."""
    parts = {
        "products": _matrix_part(moments, "products", moments.square, (1,) * len(moments.columns))
    }
    return _shared(moments, parts | _sums_part(moments))


def _law(moments: SecondMoments, size: int) -> Spectrum:
    """Sizes of the law: replaced rows of small matrices have one of their own."""
    if not moments.added and size <= MOST_REPLACED:
        return replaced_spectrum(size)
    return spectrum(size)


def _matrix_part(
    moments: SecondMoments, name: str, reach: Fraction, weights: tuple[Fraction | int, ...]
) -> NuclearPart:
    """Nuclear noise for rows with |Sz|^2 of at most ``reach``."""
    size, times = len(weights), 1 if moments.added else 2
    first = len(moments.columns) + 1 - size  # 0 where the constant is one of the columns
    entries = tuple((i - first, j - first, f) for i, j, f in moments.parts[name])
    ball = NuclearBall(size, float(times * reach), [float(w) for w in weights])
    replaced = not moments.added and size <= MOST_REPLACED
    return NuclearPart(name, ball, Fraction(1), times * reach, entries, replaced=replaced)


def _weight(moments: SecondMoments, unit: FloatArray) -> Fraction:
    """The weight of the constant with the least predicted energy, on a public grid."""
    size = len(moments.columns) + 1
    spread = np.zeros((size, size))
    i, j = np.triu_indices(size)
    spread[i, j] = spread[j, i] = np.diag(unit)
    effects = _effects(moments) * spread
    own, single = float(effects[1:, 1:].sum()), float(effects[0, 1:].sum() * 2)
    count = float(effects[0, 0]) if moments.counted else 0.0
    R = float(moments.square)
    c = _WEIGHTS * R**0.5
    energy = (R + c**2) ** 2 * (own + single / c**2 + count / c**4)
    best = float(c[int(np.argmin(energy))])
    return Fraction(max(1, round(1024 * best)), 1024)


def _round(moments: SecondMoments) -> SecondMomentNoise:
    r"""Round balls for the products and for the sums.

    x x' has the Frobenius norm :math:`|x|^2 \le R`, x x' - y y' at most :math:`\sqrt2 R`, as its
    square is :math:`|x|^4 + |y|^4 - 2 (x \cdot y)^2`.
    """
    first = Fraction(1) if moments.added else _EXACT_ROOT
    ball = _l2(len(moments.parts["products"]), SQUARE * moments.square * first)
    return _shared(moments, {"products": Part("products", ball, Fraction(1))} | _sums_part(moments))


def _sums_part(moments: SecondMoments) -> dict[str, Part]:
    """A round ball for the sums: rows have a length of at most the root of R."""
    if not moments.sums:
        return {}
    reach = (1 if moments.added else 2) * _root_up(moments.square)
    return {"sums": Part("sums", _l2(len(moments.parts["sums"]), reach), Fraction(1))}


def _l2(dim: int, radius: Fraction) -> NormBall:
    return LpBall(dim, 2, float(np.nextafter(float(radius), np.inf)))


def _root_up(square: Fraction) -> Fraction:
    """A rational that is no less than the square root."""
    root = Fraction(float(square) ** 0.5 * (1 + 2.0**-40))
    assert root**2 >= square
    return root


def _by_columns(moments: SecondMoments) -> SecondMomentNoise:
    """The smallest body, of those that know columns one by one, that noise can be drawn from."""
    groups, ends = dict(moments.groups)["moments"], 1 if moments.added else 2
    for kind in MOMENT_KINDS:
        balls = [group_ball(group, kind, ends) for group in groups]
        ball = balls[0] if len(balls) == 1 else Product(balls)
        try:
            lattice_body(ball)[0].check_feasible()
        except InfeasibleSamplingError:
            continue
        return SecondMomentNoise(moments, (Part("moments", measured(ball), Fraction(1)),))
    fail("`columns` must be fewer for exact noise.", InfeasibleSamplingError)


def _shared(moments: SecondMoments, parts: dict[str, Part]) -> SecondMomentNoise:
    """Shares of epsilon for all parts: v_1 / s_1^2 + v_2 / s_2^2 + ... is least for s ~ v^(1/3)."""
    if "rows" in moments.parts:
        parts = {**parts, "rows": Part("rows", LpBall(1, 1, 1.0), Fraction(1))}
    whole, effects = tuple(parts.values()), _effects(moments)
    if len(whole) == 1:
        return SecondMomentNoise(moments, whole)
    variances = SecondMomentNoise(moments, whole).variances() * effects
    own = []
    for name in parts:
        where = moments.entries[moments.where(name)]
        twice = np.where(where[:, 0] == where[:, 1], 1, 2)
        own.append(float((variances[where[:, 0], where[:, 1]] * twice).sum()))
    odds = np.cbrt(own)
    steps = [max(1, round(_SHARES * float(s))) for s in odds[1:] / odds.sum()]
    shares = [Fraction(_SHARES - sum(steps), _SHARES), *(Fraction(s, _SHARES) for s in steps)]
    shared = zip(whole, shares, strict=True)
    return SecondMomentNoise(moments, tuple(replace(part, share=s) for part, s in shared))
