"""Exact audits of tables of probabilities: every comparison is one of integers.

The laws of a mechanism on two neighbouring inputs are given outcome by outcome, as rationals. The
verdict is a proof; nothing here draws random numbers or rounds a probability.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from tightdp.accepted import Number
from tightdp.audit.audit_report import AuditReport, Finding
from tightdp.audit.rationals import check_delta, check_exponent, exceeds, exp_between, log_down
from tightdp.errors import DimensionError, exact_fraction, fail
from tightdp.parameters import tells_arguments
from tightdp.privacy import float_up

Weights = Mapping[Any, Any] | Iterable[Any]


@tells_arguments
def audit_pmf(p: Weights, q: Weights, *, epsilon: Number, delta: Number = 0) -> AuditReport:
    r"""Decide exactly whether two laws satisfy (epsilon, delta)-privacy in both directions.

    The claim holds when :math:`\sum_o \max(p(o) - e^\epsilon q(o), 0) \le \delta`, and the same
    with p and q exchanged; for delta = 0, when no outcome has a ratio of probabilities above
    :math:`e^\epsilon`.

    Proof: :math:`e^\epsilon` is replaced by rational bounds. For a rational epsilon > 0 it is
    irrational, so every comparison is settled as soon as the bounds are sharp enough, and they are
    sharpened until it is. For epsilon = 0 it is 1.

    Parameters
    ----------
    p, q : sequences of equal length, or mappings from outcomes to weights
        The laws on the two inputs: integers, Fractions, Decimals or floats >= 0, each taken exactly
        and divided by the total of its law.
    epsilon : int, float, Fraction or Decimal
        The claim, in [0, 2**10].
    delta : int, float, Fraction or Decimal
        The claim, in [0, 1).

    Returns
    -------
    AuditReport
        With ``epsilon_lower``, the least epsilon for this delta (rounded down), and
        ``delta_needed``, the least delta for this epsilon (rounded up).

    Examples
    --------
    >>> from fractions import Fraction
    >>> report = audit_pmf([3, 1], [1, 3], epsilon=Fraction("1.0986"), delta=Fraction(1, 10**6))
    >>> report.verdict, report.event
    ('violated', 'outcome = 0')
    >>> audit_pmf([3, 1], [1, 3], epsilon=Fraction("1.0987")).verdict
    'holds'
    """
    budget, slack = check_exponent("epsilon", epsilon), check_delta(delta)
    laws = _laws(p, q)
    forward, backward = laws, laws.exchanged()
    violated = any(_excess(pair, budget).above(slack) for pair in (forward, backward))
    findings = [_worst_event(forward, slack, "x"), _worst_event(backward, slack, "x_neighbor")]
    findings.sort(key=lambda found: -found.epsilon_lower)
    most = max(_excess(pair, budget).bounds()[1] for pair in (forward, backward))
    return AuditReport(
        kind="probabilities",
        epsilon=float(budget),
        delta=float(slack),
        violated=violated,
        epsilon_lower=findings[0].epsilon_lower,
        confidence=1.0,
        checked=len(laws.outcomes),
        findings=tuple(findings),
        delta_needed=float_up(most),
        notes=("Decided in integers; numbers are rounded for print only.",),
    )


@tells_arguments
def hockey_stick(p: Weights, q: Weights, epsilon: Number) -> tuple[Fraction, Fraction]:
    r"""Rational bounds, less than 2**-100 apart, of :math:`\sum_o \max(p(o) - e^\epsilon q(o), 0)`.

    This is the least delta for which the law p is (epsilon, delta)-close to the law q. The set of
    outcomes that counts is decided exactly; both bounds are equal where the sum is rational.

    Parameters
    ----------
    p, q, epsilon
        As in :func:`audit_pmf`.

    Examples
    --------
    >>> hockey_stick([3, 1], [1, 3], epsilon=0)
    (Fraction(1, 2), Fraction(1, 2))
    >>> low, high = hockey_stick([3, 1], [1, 3], epsilon=1)
    >>> float(low)  # 3/4 - e/4
    0.07042954288523869
    """
    return _excess(_laws(p, q), check_exponent("epsilon", epsilon)).bounds()


# --- laws as integers ---------------------------------------------------------------------------


class _Laws(NamedTuple):
    """Two laws on the same outcomes: weights ``a`` of total ``A``, weights ``b`` of total ``B``."""

    outcomes: list[Hashable]
    a: list[int]
    A: int
    b: list[int]
    B: int

    def exchanged(self) -> _Laws:
        return _Laws(self.outcomes, self.b, self.B, self.a, self.A)


class _Excess(NamedTuple):
    """The number ``p - e**x q`` for rationals p and q, with e**x irrational or x = 0."""

    p: Fraction
    q: Fraction
    x: Fraction

    def above(self, bound: Fraction) -> bool:
        """Whether it is larger than a rational."""
        rest, q = self.p - bound, self.q
        return exceeds(rest.numerator * q.denominator, q.numerator * rest.denominator, self.x)

    def bounds(self) -> tuple[Fraction, Fraction]:
        """Rationals around it, less than 2**-100 apart as long as q <= 1."""
        low, high = exp_between(self.x, Fraction(1, 1 << 100))
        least, most = self.p - self.q * high, self.p - self.q * low
        return max(least, Fraction(0)), max(most, Fraction(0))


def _excess(laws: _Laws, x: Fraction) -> _Excess:
    """P(S) - e**x Q(S) for the set S of the outcomes with p > e**x q."""
    inside = [exceeds(a * laws.B, b * laws.A, x) for a, b in zip(laws.a, laws.b, strict=True)]
    p = Fraction(sum(a for a, within in zip(laws.a, inside, strict=True) if within), laws.A)
    q = Fraction(sum(b for b, within in zip(laws.b, inside, strict=True) if within), laws.B)
    return _Excess(p, q, x)


def _worst_event(laws: _Laws, delta: Fraction, over: str) -> Finding:
    """The event S with the largest ln((P(S) - delta) / Q(S)).

    By the lemma of Neyman and Pearson it is among the sets of the outcomes with the largest ratios:
    one that maximises P(S) - c Q(S) for some c.
    """
    order = sorted(range(len(laws.a)), key=lambda i: _ratio(laws.a[i], laws.b[i]), reverse=True)
    a = b = 0
    best = (-math.inf, 0, 0, 0)
    for size, i in enumerate(order, start=1):
        a, b = a + laws.a[i], b + laws.b[i]
        # (P - delta) / Q = (a/A - d/D) / (b/B) = top / bottom
        top = (a * delta.denominator - delta.numerator * laws.A) * laws.B
        bottom = b * laws.A * delta.denominator
        if top <= 0:
            continue
        shown = math.log(top) - math.log(bottom) if bottom else math.inf
        if shown > best[0]:
            best = (shown, size, top, bottom)
    shown, size, top, bottom = best
    lower = log_down(top, bottom) if top > bottom else 0.0
    return Finding(
        event=_event([laws.outcomes[i] for i in order[:size]]),
        family="outcomes",
        over=over,
        epsilon_lower=lower,
        epsilon_seen=lower,
    )


def _ratio(a: int, b: int) -> tuple[int, Fraction]:
    """Sort key of a/b, with the outcomes that b never gives first."""
    return (1, Fraction(a)) if b == 0 else (0, Fraction(a, b))


def _event(outcomes: list[Hashable]) -> str:
    if not outcomes:
        return "none"
    if len(outcomes) == 1:
        return f"outcome = {outcomes[0]}"
    named = ", ".join(map(str, outcomes[:4]))
    more = f", ... {len(outcomes) - 4} more" if len(outcomes) > 4 else ""
    return f"outcome in {{{named}{more}}}"


# --- what is given ------------------------------------------------------------------------------


def _laws(p: Weights, q: Weights) -> _Laws:
    """Both laws as integer weights on the outcomes that either of them can give."""
    if isinstance(p, Mapping) != isinstance(q, Mapping):
        fail("`p` and `q` must both be mappings or both be sequences.")
    if isinstance(p, Mapping) and isinstance(q, Mapping):
        outcomes = list(dict.fromkeys([*p, *q]))
        first, second = ([law.get(o, 0) for o in outcomes] for law in (p, q))
    else:
        first, second = (_listed(name, law) for name, law in (("p", p), ("q", q)))
        if len(first) != len(second):
            fail(
                f"`p` and `q` must have the same length. Got {len(first)} and {len(second)}.",
                DimensionError,
            )
        outcomes = list(range(len(first)))
    a, A = _weights("p", first)
    b, B = _weights("q", second)
    return _Laws(outcomes, a, A, b, B)


def _listed(name: str, law: object) -> list[Any]:
    if isinstance(law, (str, bytes)) or not isinstance(law, Iterable):
        fail(f"`{name}` must be a sequence or a mapping. Got {type(law).__name__}.")
    if isinstance(law, np.ndarray) and law.ndim != 1:
        fail(f"`{name}` must have 1 axis. Got an array with {law.ndim}.", DimensionError)
    return list(law)


def _weights(name: str, values: list[Any]) -> tuple[list[int], int]:
    """Integers in the proportions of the given numbers, and their total."""
    given = [exact_fraction(name, value) for value in values]
    if any(value < 0 for value in given) or not any(given):
        fail(f"`{name}` must hold numbers >= 0 that are not all 0.")
    common = lcm(*(value.denominator for value in given))
    weights = [int(value * common) for value in given]
    return weights, sum(weights)
