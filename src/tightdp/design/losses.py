"""What noise costs: losses with exact cell means, values and minorants.

A loss is a description (a small dictionary) that the stand-alone verifier can read, so that both
sides of a certificate compute the same rational numbers from it. A function of the user is turned
into tables, rounded outward under a promise that is checked where it can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.design import loss_values
from tightdp.errors import check_choice, exact_fraction, fail, fraction_within

NAMES = ("l1", "l2")
_SAMPLES = 8  # points of a user's function in each cell
_TRUST = Fraction(1, 10**12)  # relative error granted to a user's function
_SLOPES = "[0, 2**200]"  # Lipschitz bounds: times any step they are doubles
_FAR = 40  # growth is sampled out to 1.25**40 sensitivities

_Floor = tuple[Fraction, Fraction, Fraction, Fraction]
"""Two lines over an interval: ends of the one through the left sample, then of the other."""


@dataclass(frozen=True)
class Loss:
    """A loss that the verifier knows from its description.

    Attributes
    ----------
    name : str
    description : dict
        What a certificate stores.
    degree : int or None
        p when c(tx) = t**p c(x) for t > 0: such a problem is solved at sensitivity 1.
    """

    name: str
    description: dict[str, Any] = field(hash=False)
    degree: int | None = None

    @property
    def symmetric(self) -> bool:
        """Whether c(x) = c(-x)."""
        return loss_values.symmetric(self.description)

    @property
    def key(self) -> str | None:
        """Equal for equal losses; None where that cannot be known."""
        return repr(sorted(self.description.items()))

    def means(self, width: Fraction, first: int, last: int) -> list[Fraction]:
        """Means of c over the cells [i width, (i+1) width), i = first..last-1, never too small."""
        cells = range(first, last)
        return [loss_values.mean(self.description, i * width, (i + 1) * width) for i in cells]

    def values(self, step: Fraction, first: int, last: int, *, up: bool) -> list[Fraction]:
        """c(i step) for i = first..last-1."""
        return [loss_values.value(self.description, i * step, up=up) for i in range(first, last)]

    def minorant(self, step: Fraction, reach: int) -> list[Fraction]:
        """Values at j step, j = -reach..reach, whose linear interpolant lies below c."""
        edges = range(-reach - 1, reach + 1)
        dips = [loss_values.dip(self.description, j * step, (j + 1) * step) for j in edges]
        at = self.values(step, -reach, reach + 1, up=False)
        return [a - max(dip) for a, dip in zip(at, pairwise(dips), strict=True)]

    def floors(self, step: Fraction, reach: int) -> list[Fraction]:
        """Infima of c over the cells [j step, (j+1) step), j = -reach..reach-1."""
        cells = range(-reach, reach)
        return [loss_values.floor(self.description, j * step, (j + 1) * step) for j in cells]

    @property
    def jumps(self) -> Fraction | None:
        """Where c jumps, if it does."""
        jump = self.description["kind"] == "threshold"
        return Fraction(self.description["at"]) if jump else None

    def described(self, tables: dict[str, Any]) -> dict[str, Any]:
        """The description to store; ``tables`` are for losses that have no formula."""
        del tables
        return {**self.description, "name": self.name}

    def near(self) -> Fraction:
        """A distance beyond which c does not fall outward."""
        return loss_values.grows_from(self.description)


@dataclass(frozen=True)
class CallableLoss(Loss):
    r"""A function of the user, tabulated outward.

    The user promises that c is convex, or that :math:`|c(x) - c(y)| \le L|x - y|`; that c does not
    fall outward beyond ``grows``; that c is accurate to one part in 10**12. Checked are finite
    values, convexity or the Lipschitz bound at the sampled points, and growth out to 900
    sensitivities.
    """

    function: Callable[[float], float] = field(default=abs, hash=False)
    lipschitz: Fraction | None = None
    grows: Fraction = Fraction(0)
    even: bool = False

    @property
    def symmetric(self) -> bool:
        """As promised."""
        return self.even

    @property
    def key(self) -> None:
        """None: a function has no name, and its place in memory is soon another's."""
        return None

    def near(self) -> Fraction:
        """As promised."""
        return self.grows

    def described(self, tables: dict[str, Any]) -> dict[str, Any]:
        """The tables themselves: a certificate then rests on the user's promise."""
        return {"kind": "table", "name": self.name, "symmetric": self.even, **tables}

    def means(self, width: Fraction, first: int, last: int) -> list[Fraction]:
        """Trapezoids lie above a convex function; else L/4 of a sample's width is added."""
        samples, h = self._samples(width, first, last), width / _SAMPLES
        extra = self.lipschitz * h / 4 if self.lipschitz is not None else Fraction(0)
        out = []
        for i in range(last - first):
            part = samples[i * _SAMPLES : (i + 1) * _SAMPLES + 1]
            area = sum(part, Fraction(0)) - (part[0] + part[-1]) / 2
            out.append(_outward(area / _SAMPLES + extra, max(map(abs, part)), 1))
        return out

    def values(self, step: Fraction, first: int, last: int, *, up: bool) -> list[Fraction]:
        """Rounded outward."""
        found = (self._at(i * step) for i in range(first, last))
        return [_outward(c, abs(c), 1 if up else -1) for c in found]

    def minorant(self, step: Fraction, reach: int) -> list[Fraction]:
        """Node values lowered by the depth of a lower envelope of the samples."""
        samples = self._samples(step, -reach - 2, reach + 2)
        if self.even:
            self._check_even(samples)
        dips = []
        for first in range(_SAMPLES, len(samples) - _SAMPLES - 1, _SAMPLES):
            left, right = samples[first], samples[first + _SAMPLES]
            depth = Fraction(0)
            for s in range(_SAMPLES):
                ends = [left + (right - left) * Fraction(t, _SAMPLES) for t in (s, s + 1)]
                depth = max(depth, _depth(ends, self._floor(samples, first + s, step)))
            dips.append(depth)
        at = range(2 * _SAMPLES, len(samples) - 2 * _SAMPLES, _SAMPLES)
        out = []
        for i, dip in zip(at, pairwise(dips), strict=True):
            # a dip is a difference of samples: its error is a share of them, not of the dip
            near = samples[i - _SAMPLES - 1 : i + _SAMPLES + 2]
            out.append(_outward(samples[i] - max(dip), 8 * max(map(abs, near)), -1))
        return out

    def _check_even(self, samples: list[Fraction]) -> None:
        """Samples on both sides of zero agree, each to the accuracy promised."""
        for left, right in zip(samples, reversed(samples), strict=True):
            if abs(left - right) > 4 * _TRUST * max(abs(left), abs(right)):
                fail("`loss` was said to be symmetric and is not.")

    def _floor(self, samples: list[Fraction], i: int, step: Fraction) -> _Floor:
        """Two lines below c between samples i and i + 1."""
        a, b = samples[i], samples[i + 1]
        if self.lipschitz is not None:
            fall = self.lipschitz * step / _SAMPLES
            return a, a - fall, b - fall, b
        # convex: the neighbouring chords, continued, lie below
        return a, 2 * a - samples[i - 1], 2 * b - samples[i + 2], b

    def _samples(self, width: Fraction, first: int, last: int) -> list[Fraction]:
        h = width / _SAMPLES
        out = [self._at(i * h) for i in range(first * _SAMPLES, last * _SAMPLES + 1)]
        # in floats: their rounding, 2**-50 of the largest, is far below a thousandth of the slack
        each = np.array([float(c) for c in out])
        slack = float(4 * _TRUST) * float(np.abs(each).max()) * 0.999
        if self.lipschitz is not None:
            if np.any(np.abs(np.diff(each)) > float(self.lipschitz * h) + slack):
                fail("`loss` must satisfy its Lipschitz bound. Give a larger `lipschitz`.")
        elif np.any(np.diff(each, 2) < -slack):
            fail("`loss` must be convex. For another function give its `lipschitz` bound.")
        return out

    def _at(self, x: Fraction) -> Fraction:
        got = self.function(float(x))
        try:
            number = float(got) if isinstance(got, (int, float)) else math.nan
        except OverflowError:  # an integer that is no double
            number = math.inf
        if not math.isfinite(number):
            fail(f"`loss` must give finite numbers. At {float(x):g} it does not.")
        return Fraction(number)


# --- the losses by name ---------------------------------------------------------------------------


def power(p: object, factor: Number = 1) -> Loss:
    """The loss ``factor * abs(x)**p`` for a rational p > 0 with a denominator up to 16.

    >>> power(3).values(Fraction(1, 2), 0, 3, up=False)
    [Fraction(0, 1), Fraction(1, 8), Fraction(1, 1)]
    """
    exact, scale = exact_fraction("p", p), exact_fraction("factor", factor)
    if not 0 < exact <= 64 or exact.denominator > 16 or not scale > 0:
        fail(f"`p` must be a fraction in (0, 64] with a denominator <= 16. Got {p}.")
    if exact.denominator == 1:
        return sides(right=scale, left=scale, p=int(exact), name=_power_name(int(exact), scale))
    shape = {"kind": "root", "top": exact.numerator, "bottom": exact.denominator}
    return Loss(f"abs(x)**{exact}", {**shape, "factor": str(scale)})


def sides(*, right: object, left: object, p: int = 1, name: str | None = None) -> Loss:
    """The loss ``right * x**p`` for x >= 0 and ``left * abs(x)**p`` for x <= 0."""
    rates = [exact_fraction(which, rate) for which, rate in (("right", right), ("left", left))]
    if not all(rate > 0 for rate in rates):
        fail("`loss` must grow without bound on both sides: its slopes must be > 0.")
    shape = {
        which: ["0"] * p + [str(rate)] for which, rate in zip(("right", "left"), rates, strict=True)
    }
    shown = name or f"asymmetric({float(rates[0]):g}, {float(rates[1]):g})"
    return Loss(shown, {"kind": "sides", **shape}, degree=p)


def asymmetric(*, right: object = 2, left: object = 1) -> Loss:
    """``right * x`` above zero, ``left * abs(x)`` below.

    >>> asymmetric().symmetric
    False
    """
    return sides(right=right, left=left)


def pinball(quantile: object) -> Loss:
    """``quantile * x`` above zero and ``(1 - quantile) * abs(x)`` below, 0 < quantile < 1."""
    share = fraction_within("quantile", quantile, "(0, 1)")
    return sides(right=share, left=1 - share, name=f"pinball({float(share):g})")


def threshold(at: object) -> Loss:
    """P(abs(X) >= at): 1 from the threshold on, 0 nearer to zero.

    >>> threshold(1).values(Fraction(1, 2), 0, 3, up=True)
    [Fraction(0, 1), Fraction(0, 1), Fraction(1, 1)]
    """
    bound = fraction_within("at", at, "(0, inf)")
    return Loss(f"threshold({float(bound):g})", {"kind": "threshold", "at": str(bound)})


def piecewise_linear(knots: Sequence[Any], values: Sequence[Any], slopes: tuple[Any, Any]) -> Loss:
    """Linear between (knot, value) pairs, with slopes (first <= 0, last >= 0) beyond them.

    >>> piecewise_linear([-1, 1], [0, 0], (-1, 1)).values(Fraction(2), -1, 2, up=True)
    [Fraction(1, 1), Fraction(0, 1), Fraction(1, 1)]
    """
    points = [exact_fraction("knots", x) for x in knots]
    heights = [exact_fraction("values", y) for y in values]
    first, last = (exact_fraction("slopes", slope) for slope in slopes)
    if not points or any(x >= y for x, y in pairwise(points)) or len(points) != len(heights):
        fail("`knots` must increase, with one of `values` for each.")
    if not first < 0 < last:
        fail("`loss` must grow without bound on both sides: give slopes (< 0, > 0).")
    return Loss(
        "piecewise-linear",
        {
            "kind": "broken",
            "knots": [str(x) for x in points],
            "values": [str(y) for y in heights],
            "first": str(first),
            "last": str(last),
        },
    )


def from_callable(
    function: Callable[[float], float],
    *,
    lipschitz: Number | None = None,
    grows_from: object = 0,
    symmetric: bool = False,
    name: str = "callable",
) -> Loss:
    """A function of one float; convex, or with a Lipschitz bound.

    Promised by the caller: convexity (without ``lipschitz``), the bound (with it), that the
    function does not fall outward beyond ``grows_from``, symmetry when stated, an accuracy of
    1e-12.
    """
    bound = None if lipschitz is None else fraction_within("lipschitz", lipschitz, _SLOPES)
    loss = CallableLoss(
        name,
        {"kind": "table"},
        function=function,
        lipschitz=bound,
        grows=exact_fraction("grows_from", grows_from),
        even=bool(symmetric),
    )
    return loss


def as_loss(given: object, sensitivity: Fraction = Fraction(1)) -> Loss:
    """A :class:`Loss` from a name, a loss or a convex function."""
    if isinstance(given, str):
        return power(1 if check_choice("loss", given, NAMES) == "l1" else 2)
    loss = from_callable(given) if callable(given) and not isinstance(given, Loss) else given
    if not isinstance(loss, Loss):
        fail(
            f"`loss` must be 'l1', 'l2', a loss or a function of a float. "
            f"Got {type(given).__name__}."
        )
    if isinstance(loss, CallableLoss):
        _check_growth(loss, sensitivity)
    return loss


def _check_growth(loss: CallableLoss, sensitivity: Fraction) -> None:
    """Sampled outward: it must not fall, and it must rise."""
    start = max(loss.grows, sensitivity / 8)
    for sign in (1, -1):
        out = [loss._at(sign * start * Fraction(5, 4) ** i) for i in range(_FAR)]
        slack = _TRUST * max(map(abs, out))
        if any(b < a - slack for a, b in pairwise(out)):
            fail(
                "`loss` must not fall outward: it must be bounded below and grow. "
                "If it first falls, say from where it grows with `grows_from`."
            )
        if not out[-1] > out[0] + slack:
            fail("`loss` must grow outward on both sides. A flat loss asks for infinite noise.")
        if loss.even and any(
            abs(loss._at(-sign * start * i) - loss._at(sign * start * i)) > slack for i in range(4)
        ):
            fail("`loss` was said to be symmetric and is not.")


def _power_name(p: int, scale: Fraction) -> str:
    if scale == 1 and p <= 2:
        return NAMES[p - 1]
    return f"abs(x)**{p}" if scale == 1 else f"{float(scale):g} abs(x)**{p}"


def _depth(chord: list[Fraction], floor: _Floor) -> Fraction:
    """The most by which a chord exceeds the larger of two lines over an interval.

    The excess is concave, so it is largest at an end or where the lines cross.
    """
    a, down, back, b = floor
    worst = max(chord[0] - a, chord[1] - b)
    rise, fall = b - down, a - back
    if rise > 0 and fall > 0:
        t = fall / (rise + fall)
        worst = max(worst, chord[0] + (chord[1] - chord[0]) * t - (a + (down - a) * t))
    return worst


def _outward(x: Fraction, size: Fraction, sign: int) -> Fraction:
    """Moved by the error granted to numbers of a size, and rounded to 2**-80 of its own."""
    moved = x + sign * size * _TRUST
    places = max(80 - (abs(moved).numerator.bit_length() - moved.denominator.bit_length()), 80)
    scaled = moved * (1 << places)
    whole = -(-scaled.numerator // scaled.denominator) if sign > 0 else math.floor(scaled)
    return Fraction(whole, 1 << places)
