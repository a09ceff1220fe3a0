"""The additive mechanism: an exact integer statistic plus exact integer noise."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.data.statistics import Statistic
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    check_choice,
    check_probability,
    fail,
)
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.ranking import LP_NAMES
from tightdp.geometry.sensitivity import certify_contains
from tightdp.noise.enclosures import float_up
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.noise.rates import check_epsilon
from tightdp.privacy import Guarantee, Numerics
from tightdp.randomness import source
from tightdp.release import Release

SHAPES = ("best", "hull", *LP_NAMES)


@dataclass(frozen=True, slots=True, eq=False)
class Preview:
    """The error to expect from a release, known before any data are touched.

    ``std`` and ``half_width`` are in user units and speak of the noise alone: sampling error and
    the clamp are not included.

    Examples
    --------
    >>> from tightdp import Interval, Schema, Sums
    >>> sums = Sums(Schema({"x": Interval(0, 10)}, rows=100))
    >>> AdditiveMechanism(sums, epsilon=1.0).preview().std.round(2)
    array([14.14])
    """

    names: tuple[str, ...]
    std: FloatArray
    half_width: FloatArray
    confidence: float
    guarantee: Guarantee
    noise: str

    def __str__(self) -> str:
        width = max(5, *map(len, self.names))
        lines = [f"{'entry':{width}}  {'noise std':>12}  {f'+- at {self.confidence:.0%}':>12}"]
        lines.append("-" * len(lines[0]))
        lines += [
            f"{name:{width}}  {s:12.5g}  {h:12.5g}"
            for name, s, h in zip(self.names, self.std, self.half_width, strict=True)
        ]
        note = "noise only: sampling error and clamping are not included"
        return "\n".join([*lines, "", f"{self.guarantee}; {self.noise}", note])


class AdditiveMechanism:
    r"""Releases :math:`t(X) + z`: an integer statistic plus lattice noise shaped like a ball.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema, for one person
    with at most ``rows_per_person`` rows.
    Needs: [P1] the ball contains the sensitivity space (certified at construction); [P2] t(X) is
    the exact integer vector of quantised rows; [P3] the noise has its stated law.
    Proof: a quantised row is a row of the domain, so neighbours move t(X) / resolution within the
    ball, r times as far for r rows of a person [P1, P2]; their integer difference has level at
    most L, and :class:`~tightdp.LatticeNoise` is epsilon-DP for it [P3].
    Numerics: ``exact``.
    Order of events: parameters are checked, the ledger is charged, the noise is drawn, and only
    then are data read; what fails later stays paid for.

    Parameters
    ----------
    statistic : Statistic
    noise : {"hull", "best", "l1", "l2", "linf"} or NormBall
        The shape. "hull" is the convex hull of the sensitivity space; "best" the feasible one of
        the named shapes with the least predicted variance; a ball of your own must contain the
        space, which is proved or refused.
    epsilon : float, Fraction or Decimal

    Examples
    --------
    >>> from tightdp import Category, Counts, Schema
    >>> schema = Schema({"k": Category(["a", "b", "c"])}, rows=1000)
    >>> mechanism = AdditiveMechanism(Counts(schema), epsilon=1.0)
    >>> mechanism.preview().std.round(3)
    array([1.826, 1.826, 1.826])
    """

    def __init__(self, statistic: Statistic, *, noise: Any = "hull", epsilon: Any) -> None:
        if not isinstance(statistic, Statistic):
            fail(f"`statistic` must be a Statistic. Got {type(statistic).__name__}.")
        self.statistic = statistic
        self.epsilon = check_epsilon(epsilon)
        self.ball = self._shape(noise)
        self.bits = statistic.bits_for(self._finest(self.ball))
        self.noise = self._lattice(self.ball)
        self.noise.check_feasible()

    # --- the shape ----------------------------------------------------------------------------

    def _shape(self, noise: Any) -> NormBall:
        space = self.statistic.sensitivity_space()
        if isinstance(noise, NormBall):
            certificate = certify_contains(noise, space)  # [P1]
            if not certificate:
                fail(
                    "`noise` must be a ball that is proved to contain the sensitivity space. The "
                    f"best bound on the gauge of a difference is {certificate.bound:.6g}: scale "
                    "the ball by it."
                )
            return noise
        name = check_choice("noise", noise, SHAPES)
        if name == "hull":
            return space.hull()
        balls = [space.hull()] if name == "best" else []
        named = LP_NAMES if name == "best" else [name]
        balls += [
            LpBall(space.dim, LP_NAMES[n], float(space.sensitivity(p=LP_NAMES[n]))) for n in named
        ]
        return min((b for b in balls if self._feasible(b)), key=_mean_variance)

    def _feasible(self, ball: NormBall) -> bool:
        try:
            self._lattice(ball).check_feasible()
        except InfeasibleSamplingError:
            return False
        return True

    def _finest(self, ball: NormBall) -> int:
        body, radius = lattice_body(ball)
        return default_resolution(body.rank, self.epsilon, radius)

    def _lattice(self, ball: NormBall) -> LatticeNoise:
        bits = self.statistic.bits_for(self._finest(ball))
        return lattice_noise(
            self._per_person(ball), self.epsilon, resolution=self.statistic.resolution(bits)
        )

    def _per_person(self, ball: NormBall) -> NormBall:
        rows = self.statistic.schema.rows_per_person
        return ball.scaled(float(rows)) if rows > 1 else ball

    # --- facts known in advance ---------------------------------------------------------------

    @property
    def resolution(self) -> int:
        """Lattice points per unit of the scaled statistic."""
        return self.statistic.resolution(self.bits)

    def guarantee(self, *, seeded: bool = False) -> Guarantee:
        """What a release promises."""
        return Guarantee(
            epsilon=float_up(self.epsilon),  # never less than what is spent
            neighbors=self.statistic.schema.neighbors,
            numerics=Numerics.EXACT,
            seeded=seeded,
        )

    @property
    def law(self) -> str:
        """The exact law of the noise, in words."""
        return (
            f"integers z with weight exp(-{self.noise.rate} * level(z)), levels of "
            f"{self.noise.body!r}, in units of 1/{self.resolution}"
        )

    def _scale(self) -> float:
        """Radius of the noise ball relative to the ball: the rounding of L, persons included."""
        rows = self.statistic.schema.rows_per_person
        _, radius = lattice_body(self._per_person(self.ball), self.resolution)
        return rows * self.noise.sensitivity / (float(radius) * self.resolution)

    def _errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Covariance and simultaneous half-widths of the noise in user units."""
        zero, recover = np.zeros(len(self.statistic)), self.statistic.recover
        origin = recover(zero)
        linear = np.column_stack([recover(e) - origin for e in np.eye(len(zero))])
        ball, rate = self.ball.scaled(self._scale()), float(self.epsilon)
        covariance = linear @ orders.covariance(ball, rate).value @ linear.T
        radius = orders.concentration_radius(ball, rate, confidence)
        # half-widths of the image of the concentration set: its support along every entry
        return covariance, radius * np.asarray(ball.support(linear))

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect, from public facts alone; costs nothing."""
        level = check_probability("confidence", confidence)
        covariance, half = self._errors(level)
        return Preview(
            self.statistic.names,
            np.sqrt(np.diag(covariance)),
            half,
            level,
            self.guarantee(),
            self.law,
        )

    # --- the release --------------------------------------------------------------------------

    def release(
        self,
        frame: Any,
        *,
        ledger: Any = None,
        key: str | None = None,
        confidence: float = 0.95,
        rng: Any = None,
        progress: bool = False,
    ) -> Release:
        """Pay, draw the noise, read the data once, and publish.

        With a ``key`` that the ledger already holds, the stored release comes back and nothing is
        spent; without a key every call is a new release and a new spend.
        """
        level, bits = check_probability("confidence", confidence), source(rng)
        guarantee = self.guarantee(seeded=bits.seeded)
        if ledger is None:
            if key is not None:
                fail("`key` needs a `ledger` that remembers it.")
            return self._publish(frame, guarantee, level, bits, progress, {})
        facts = self._fingerprint(level)
        with ledger.charge(
            guarantee, key=key, label=repr(self.statistic), fingerprint=facts
        ) as charge:
            if charge.stored is not None:
                return Release.from_dict(charge.stored)
            release = self._publish(frame, guarantee, level, bits, progress, charge.receipt())
            charge.store(release.to_dict())
        return release

    def _fingerprint(self, confidence: float) -> str:
        """A digest of the public parameters: the same key must mean the same request."""
        facts = [repr(self.statistic), str(self.statistic.schema), self.law, str(confidence)]
        return hashlib.sha256("\n".join(facts).encode()).hexdigest()

    def _publish(
        self,
        frame: Any,
        guarantee: Guarantee,
        confidence: float,
        rng: Any,
        progress: bool,
        receipt: dict[str, Any],
    ) -> Release:
        noise = self.noise.sample(rng=rng)  # before the data are read: its timing tells nothing
        covariance, half = self._errors(confidence)
        exact = self.statistic.measure(frame, bits=self.bits, progress=progress)
        noisy = tuple(int(t) + int(z) for t, z in zip(exact, noise, strict=True))
        scaled = np.array([z / self.resolution for z in noisy])
        return Release(
            names=self.statistic.names,
            value=self.statistic.recover(scaled),
            integers=noisy,
            resolution=self.resolution,
            guarantee=guarantee,
            noise=self.law,
            covariance=covariance,
            half_width=half,
            confidence=confidence,
            receipt=receipt,
        )


def _mean_variance(ball: NormBall) -> float:
    return float(np.trace(orders.covariance(ball, 1.0).value))
