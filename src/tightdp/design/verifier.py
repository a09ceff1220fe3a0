r"""A stand-alone verifier of designed noise: standard library only, no solver, no float.

    python -m tightdp.design design.json
    python verifier.py design.json          # without the package

This file, ``exact_numbers.py`` and ``loss_values.py`` beside it are all that is needed.

The file states a noise, a guarantee and two numbers, and this program proves or refutes, in
rational arithmetic, that

* the noise is (epsilon, delta)-private for every shift of the statistic up to the sensitivity,
* its expected loss is ``upper``,
* **no** noise with that guarantee (and the stated side constraints) has an expected loss below
  ``lower``.

**The upper bound.** Cells :math:`[ib, (i+1)b)`, b = sensitivity/k, of weights :math:`w_i` and an
atom at zero. Between whole shifts the shortfall is affine, so shifts by m = 1..k cells are enough;
:math:`e^\epsilon` is replaced by a rational below it, which can only raise the shortfall.

**The lower bound.** For any private X put :math:`p_j = E\,\mathrm{tent}(X/b - j)`. Averages of
private laws are private, so :math:`\sum_i (p_i - e^\epsilon p_{i-m})_+ \le \delta`. Let
:math:`0 \le y_{m,i} \le \lambda_m`; let :math:`a_j` be values whose linear interpolant lies below
the loss. Then :math:`E c(X) \ge \sum a_j p_j \ge \min_j [a_j + \sum_m (y_{m,j} -
e^\epsilon y_{m,j+m})] - \delta \sum_m \lambda_m`, whatever the numbers y are; a rational above
:math:`e^\epsilon` can only lower the right-hand side. Side constraints add multipliers in the same
way. Beyond the last j the values continue at the constant :math:`a_J`, below a loss that grows.
For a symmetric loss p may be taken symmetric, and the brackets at j and -j are averaged.
A proof with ``edges`` takes :math:`p_j = P(jb \le X < (j+1)b)` and the infimum of the loss over
each cell instead of tents: sharper where the loss jumps.
A proof for a ``group`` of n moves has a step of n sensitivities and one shift, by a step. A move by
n sensitivities is n moves by one, and :math:`P(X \in A) \le e^\epsilon P(X + s \in A) + \delta`, n
times over, gives :math:`P(X \in A) \le e^{n\epsilon} P(X + ns \in A) + \delta
(e^{n\epsilon} - 1)/(e^\epsilon - 1)`: the inequality above with other numbers. It bounds noise that
is thousands of sensitivities wide by a few hundred nodes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import ModuleType

if __name__ == "__main__" and not __package__:  # without the package: the files beside this one
    for _name in ("tightdp", "tightdp.design"):
        sys.modules[_name] = ModuleType(_name)
        sys.modules[_name].__path__ = [str(Path(__file__).parent)]

from tightdp.design.exact_numbers import (
    MOST_POWER,
    Document,
    Refuted,
    damage_refutes,
    demand,
    demand_stated,
    exp_bounds,
    rational,
    read,
)
from tightdp.design.loss_values import dip, floor, grows_from, mean, symmetric, value

FORMAT = "tightdp-design/1"
KINDS = ("cells", "staircase", "truncated-laplace")
MOST_BITS, MOST_NODES = 4096, 1 << 22  # larger ones would only waste time
MOST_GROUP = 1 << 50


def check_exponential(document: Document) -> tuple[Fraction, Fraction]:
    """The stated bounds of e**epsilon, once they are proved to lie on their sides of it."""
    epsilon = rational(document["epsilon"])
    demand(0 < epsilon <= 1 << 10, "epsilon is out of range")
    low, high = rational(document["exp_low"]), rational(document["exp_high"])
    below, above = exp_bounds(epsilon)
    demand(0 < low <= below, "exp_low is not below e**epsilon")
    demand(above <= high, "exp_high is not above e**epsilon")
    return low, high


# --- the noise ------------------------------------------------------------------------------------


def shortfall(weights: list[int], shift: int, factor: Fraction) -> Fraction:
    """The larger of the sums of (w_i - factor w_{i-shift})_+ and of the same, mirrored."""
    n, num, den = len(weights), factor.numerator, factor.denominator
    if shift >= n:
        return Fraction(sum(weights))
    right, left = sum(weights[:shift]) * den, sum(weights[n - shift :]) * den
    for here, there in zip(weights[shift:], weights, strict=False):
        right += max(here * den - there * num, 0)
        left += max(there * den - here * num, 0)
    return Fraction(max(right, left), den)


def check_noise(document: Document, factor: Fraction) -> Fraction:
    """The expected loss, once the noise is proved private and within its side constraints."""
    if document["kind"] == "staircase":
        demand(document["integer"] == ("core" in document["noise"]), "not integers")
        return _check_staircase(document)
    if document["kind"] == "truncated-laplace":
        return _check_truncated_laplace(document)
    noise, delta = document["noise"], rational(document["delta"])
    weights, atom, total = noise["weights"], noise["atom"], noise["total"]
    demand(len(weights) >= 1 and type(noise["start"]) is int, "no cells")
    natural = all(type(w) is int and w >= 0 for w in [*weights, atom, total])
    demand(natural, "a weight is not natural")
    demand(total == sum(weights) + atom > 0, "the weights do not sum to the total")
    demand(type(noise["cells"]) is int and noise["cells"] >= 1, "no cells")
    if document["integer"]:
        demand(atom == 0 and noise["cells"] == rational(document["sensitivity"]), "not integers")
    for shift in range(1, min(noise["cells"], len(weights)) + 1):
        lost = (shortfall(weights, shift, factor) + atom) / total
        demand(lost <= delta, f"a shift by {shift} cells loses more than delta")
    _check_shape(document)
    return _expected(document, document["loss"])


def _expected(document: Document, loss: Document) -> Fraction:
    noise = document["noise"]
    if loss["kind"] == "table":
        costs: Iterable[Fraction] = [rational(c) for c in loss["cells"]]
        at_zero = rational(loss["at_zero"])
        demand(len(loss["cells"]) == len(noise["weights"]), "costs and weights do not match")
    else:
        costs, at_zero = _costs(document, loss), value(loss, Fraction(0), up=True)
    spent = sum((w * c for w, c in zip(noise["weights"], costs, strict=True)), Fraction(0))
    return (spent + noise["atom"] * at_zero) / noise["total"]


def _costs(document: Document, loss: Document) -> Iterable[Fraction]:
    noise = document["noise"]
    first, last = noise["start"], noise["start"] + len(noise["weights"])
    if document["integer"]:
        return (value(loss, Fraction(i), up=True) for i in range(first, last))
    width = rational(document["sensitivity"]) / noise["cells"]
    return (mean(loss, i * width, (i + 1) * width) for i in range(first, last))


def _check_shape(document: Document) -> None:
    sides, noise = document["constraints"], document["noise"]
    weights, start = noise["weights"], noise["start"]
    whole = document["integer"]
    if sides["monotone"]:
        demand(start <= 0 <= start + len(weights) - (1 if whole else 0), "away from zero")
        left = weights[: max(-start, 0) + (1 if whole else 0)]
        right = weights[max(-start, 0) :]
        demand(left == sorted(left), "not monotone below zero")
        demand(right == sorted(right, reverse=True), "not monotone above zero")
    if sides["symmetric"]:
        demand(weights == weights[::-1], "the weights are not symmetric")
        demand(2 * start + len(weights) == (1 if whole else 0), "the cells are not symmetric")
    if sides["support"] is not None:
        bound = rational(sides["support"])
        width = Fraction(1) if whole else rational(document["sensitivity"]) / noise["cells"]
        last = start + len(weights) - (1 if whole else 0)
        demand(-bound <= start * width and last * width <= bound, "wider than the support")
    if sides["second_loss"] is not None:
        second = sides["second_loss"]
        demand(_expected(document, second["loss"]) <= rational(second["bound"]), "second loss")


def _check_staircase(document: Document) -> Fraction:
    """E c of a density ~ q**level, q = e**-epsilon; for shifts up to the sensitivity the level
    floor(abs(x)/sensitivity + 1 - core) moves by at most 1, so the noise is epsilon-private.
    """
    sides, loss = document["constraints"], document["loss"]
    demand(sides["support"] is None and sides["second_loss"] is None, "not for a staircase")
    demand(loss["kind"] == "sides", "the loss of a staircase must be a polynomial")
    unit = rational(document["sensitivity"])
    below, above = exp_bounds(rational(document["epsilon"]))
    least, most = 1 / above, 1 / below  # around q
    costs = (loss["right"], loss["left"])
    if "core" in document["noise"]:  # integers: level floor((abs(z) + L - core)/L)
        core, width = document["noise"]["core"], int(unit)
        demand(width == unit and type(core) is int and 1 <= core <= width, "core is out of range")
        mass = 2 * core - 1 + 2 * width * least / (1 - least)
        spent = sum(
            (
                rational(c) * _steps_sum(core, width, most, j)
                for side in costs
                for j, c in enumerate(side)
                if j > 0
            ),
            Fraction(0),
        )
        return spent / mass + rational(costs[0][0])
    share = rational(document["noise"]["core_share"])
    demand(0 <= share <= 1, "core_share must lie in [0, 1]")
    spent = sum(
        (
            rational(c) * unit**j * _steps_integral(share, most, j)
            for side in costs
            for j, c in enumerate(side)
        ),
        Fraction(0),
    )
    return spent / (2 * (share + least / (1 - least)))


def _check_truncated_laplace(document: Document) -> Fraction:
    """E c, rounded up, of a density ~ e**-u, u = epsilon abs(x)/sensitivity <= a, where
    T = e**a = 1 + (e**epsilon - 1)/(2 delta), for delta <= 1/2 and so a >= epsilon.

    Where the moved density is positive the ratio is at most e**epsilon. Beyond lies the mass of
    a - epsilon < u <= a on one side, (e**epsilon - 1)/(2 (T - 1)) = delta. And E u**j =
    j! (1 - (1 + a + .. + a**j/j!)/T)/(1 - 1/T), which falls as a grows while T is held.
    """
    sides, loss, delta = document["constraints"], document["loss"], rational(document["delta"])
    demand(sides["support"] is None and sides["second_loss"] is None, "not for this law")
    demand(not document["integer"] and loss["kind"] == "sides", "not for this law")
    demand(0 < 2 * delta <= 1, "delta must lie in (0, 1/2] for this law")
    epsilon, log = rational(document["epsilon"]), rational(document["noise"]["log"])
    least, most = (1 + (e - 1) / (2 * delta) for e in exp_bounds(epsilon))  # around T
    demand(0 <= log <= MOST_POWER and exp_bounds(log)[1] <= least, "`log` is not below log T")
    scale, whole = rational(document["sensitivity"]) / epsilon, Fraction(0)
    for side in (loss["right"], loss["left"]):
        term, part, factor = Fraction(1), Fraction(0), Fraction(1)  # a**j/j!, its sum, j! scale**j
        for j, c in enumerate(side):
            term, factor = (term * log / j, factor * j * scale) if j else (term, factor)
            part += term
            whole += rational(c) * factor * (1 - part / most)
    return whole / (1 - 1 / least) / 2


def _power_sums(q: Fraction, power: int) -> list[Fraction]:
    """Sums of n**i q**n over n >= 0, i = 0..power: s_i = q/(1-q) sum of C(i,j) s_j over j < i."""
    sums = [1 / (1 - q)]
    for i in range(1, power + 1):
        sums.append(q / (1 - q) * sum((_choose(i, j) * sums[j] for j in range(i)), Fraction(0)))
    return sums


def _steps_sum(core: int, width: int, q: Fraction, power: int) -> Fraction:
    """The sum of z**power q**level over the integers z >= 1; it rises with q."""
    sums = _power_sums(q, power)
    whole = Fraction(sum(z**power for z in range(1, core)))
    for j in range(power + 1):  # z = core + u + n width, at level n + 1
        part = sum((core + u) ** (power - j) for u in range(width)) * width**j
        whole += q * _choose(power, j) * sums[j] * part
    return whole


def _steps_integral(core: Fraction, q: Fraction, power: int) -> Fraction:
    """The integral of x**power q**level over x >= 0, sensitivity 1; it rises with q."""
    sums = _power_sums(q, power)
    whole = core ** (power + 1) / (power + 1)
    for j in range(power + 1):  # x = core + n + u, 0 <= u < 1, at level n + 1
        part = ((core + 1) ** (power - j + 1) - core ** (power - j + 1)) / (power - j + 1)
        whole += q * _choose(power, j) * sums[j] * part
    return whole


def _choose(n: int, k: int) -> int:
    out = 1
    for i in range(k):
        out = out * (n - i) // (i + 1)
    return out


# --- the lower bound ------------------------------------------------------------------------------


def nodes(document: Document, loss: Document) -> list[Fraction]:
    """a_j for j = -J..J: values whose interpolant lies below the loss.

    With ``edges``, for j = -J..J-1, values below the loss on the cell from j to j + 1.
    """
    proof, reach = document["proof"], document["proof"]["reach"]
    count = range(-reach, reach + (0 if proof["edges"] else 1))
    if loss["kind"] == "table":
        demand(len(loss["nodes"]) == len(count) and not proof["edges"], "nodes do not match")
        return [rational(a) for a in loss["nodes"]]
    if document["integer"] and _group(proof) == 1:
        demand(not proof["edges"], "integers have no edges")
        step = Fraction(1)
        values = [value(loss, Fraction(j)) for j in count]
    else:
        step = _group(proof) * rational(document["sensitivity"]) / proof["cells"]
        values = _floors(loss, step, count) if proof["edges"] else below(loss, step, count)
    outer = grows_from(loss)
    if document["constraints"]["support"] is None:
        last = reach - (1 if proof["edges"] else 0)
        demand(last * step >= outer, "the loss may fall beyond the last node")
    return values


def _floors(loss: Document, step: Fraction, count: range) -> list[Fraction]:
    return [floor(loss, j * step, (j + 1) * step) for j in count]


def below(loss: Document, step: Fraction, count: range) -> list[Fraction]:
    """Values at the nodes, lowered by the larger dip of the two intervals next to them."""
    around = range(count.start - 1, count.stop)
    dips = [dip(loss, j * step, (j + 1) * step) for j in around]
    return [
        value(loss, j * step) - max(Fraction(0), left, right)
        for j, (left, right) in zip(count, pairwise(dips), strict=True)
    ]


def check_bound(document: Document, factor: Fraction) -> Fraction:
    """The lower bound that the multipliers of the proof imply."""
    proof, sides = document["proof"], document["constraints"]
    reach, bits = proof["reach"], proof["bits"]
    unit, delta = rational(proof["unit"]), rational(document["delta"])
    whole = all(type(n) is int and n >= 1 for n in (reach, proof["cells"], bits))
    demand(whole and reach <= MOST_NODES and bits <= MOST_BITS and unit > 0, "no proof")
    one = 1 << bits
    if _group(proof) > 1:
        demand(proof["cells"] == 1 and sides["support"] is None, "no proof for a group")
        demand(proof["steps"] is None, "no proof for a group")
        factor, delta = group_privacy(document)
    elif document["integer"]:
        demand(proof["cells"] == rational(document["sensitivity"]), "not integers")
    gain, cover, prices = _tally(proof, reach, closed=sides["support"] is not None)
    values = nodes(document, document["loss"])
    tails = [values[0], values[-1]]
    offset = -delta * Fraction(prices, one) * unit
    if sides["second_loss"] is not None:
        price = rational(proof["second_price"])
        demand(price >= 0, "a negative multiplier")
        others = nodes(document, sides["second_loss"]["loss"])
        values = [a + price * c for a, c in zip(values, others, strict=True)]
        tails, offset = (
            [values[0], values[-1]],
            offset - price * rational(sides["second_loss"]["bound"]),
        )
    if sides["monotone"] and proof["steps"]:
        demand(not proof["edges"], "monotone laws are bounded at nodes")
        _tally_steps(proof["steps"], reach, gain, joined=not document["integer"])
    brackets = [
        a + unit * (g - factor * c) / one for a, g, c in zip(values, gain, cover, strict=True)
    ]
    if proof["mirrored"]:
        second = sides["second_loss"]
        fair = symmetric(document["loss"]) and (second is None or symmetric(second["loss"]))
        even = sides["symmetric"] and not proof["edges"]  # cells are half open, nodes are not
        demand(fair or even, "only symmetric problems may be mirrored")
        brackets = [(a + b) / 2 for a, b in zip(brackets, brackets[::-1], strict=True)]
        tails = [sum(tails, Fraction(0)) / 2]
    least = min(brackets)
    if sides["support"] is None:
        least = min([least, *tails])
    else:
        step = 1 if document["integer"] else rational(document["sensitivity"])
        cells = 1 if document["integer"] else proof["cells"]
        room = reach * step - cells * rational(sides["support"])
        demand(room > 0 or (room == 0 and not proof["edges"]), "the proof is too narrow")
    return least + offset


def _group(proof: Document) -> int:
    """How many moves a step of the proof stands for; one where nothing is said."""
    count = proof.get("group", 1)
    demand(type(count) is int and 1 <= count <= MOST_GROUP, "no group")
    return int(count)


def group_privacy(document: Document) -> tuple[Fraction, Fraction]:
    """Rationals above e**(n epsilon) and above delta (1 + e**epsilon + .. + e**((n-1) epsilon))."""
    epsilon, count = rational(document["epsilon"]), _group(document["proof"])
    demand(0 < count * epsilon <= MOST_POWER, "the group is too large")
    factor, one = exp_bounds(count * epsilon)[1], exp_bounds(epsilon)[0]
    return factor, rational(document["delta"]) * (factor - 1) / (one - 1)


def _tally(proof: Document, reach: int, closed: bool) -> tuple[list[int], list[int], int]:
    """Sums over m of y_{m,j} and of y_{m,j+m}, for j = -J..J, and the sum of the prices.

    ``closed`` says that no mass lies outside -J..J, so that nothing is covered from there.
    """
    size = 2 * reach + (0 if proof["edges"] else 1)
    gain, cover, prices = [0] * size, [0] * size, 0
    seen = set()
    for entry in proof["shifts"]:
        shift, price, start = entry["shift"], entry["price"], entry["start"]
        demand(type(shift) is int and 1 <= abs(shift) <= proof["cells"], "a shift is too large")
        demand(shift not in seen, "a shift is counted twice")
        demand(type(price) is int and price >= 0, "a price is not natural")
        seen.add(shift)
        prices += price
        for i, y in enumerate(entry["multipliers"], start):
            demand(type(y) is int and 0 <= y <= price, "a multiplier exceeds its price")
            if y:
                inside = 0 <= i - shift + reach < size
                demand(0 <= i + reach < size, "a multiplier lies outside")
                demand(inside or closed, "a multiplier reaches outside")
                gain[i + reach] += y
                if inside:
                    cover[i - shift + reach] += y
    return gain, cover, prices


def _tally_steps(steps: Document, reach: int, gain: list[int], joined: bool) -> None:
    """Multipliers of p_{j+1} <= p_j (j >= 1) and their mirror; in the middle of the integers too.

    On the line (``joined``) the tents of a monotone law only give p_1 + p_{-1} <= 2 p_0.
    """
    demand(len(steps["right"]) == len(steps["left"]) == reach, "steps do not match")
    demand(not joined or steps["right"][0] == steps["left"][0], "the middle is one constraint")
    for name, sign in (("right", 1), ("left", -1)):
        for j, g in enumerate(steps[name]):
            demand(type(g) is int and g >= 0, "a negative multiplier")
            gain[reach + sign * (j + 1)] += g
            gain[reach + sign * j] -= g


# --- the whole ------------------------------------------------------------------------------------


def digest(document: Document) -> str:
    """A checksum of everything but itself, against accidents; the proof is what counts."""
    body = {name: part for name, part in document.items() if name != "sha256"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_form(document: Document) -> None:
    """Flags are flags, losses are losses: before anything is computed from them."""
    sides, proof = document["constraints"], document["proof"]
    flags = [document["integer"], sides["monotone"], sides["symmetric"]]
    flags += [proof["edges"], proof["mirrored"]]
    demand(all(type(flag) is bool for flag in flags), "a flag is neither true nor false")
    for loss in stated_losses(document):
        if loss["kind"] != "table":
            grows_from(loss)


def stated_losses(document: Document) -> list[Document]:
    """The loss and, if there is one, the second loss."""
    second = document["constraints"]["second_loss"]
    return [document["loss"]] if second is None else [document["loss"], second["loss"]]


def rests_on(document: Document) -> str:
    """What a proof takes from the file without a check, in words; empty when that is nothing."""
    if any(loss["kind"] == "table" for loss in stated_losses(document)):
        return "The loss was a function: its tables in the file are taken as they are."
    return ""


def verify(document: Document) -> tuple[Fraction, Fraction]:
    """The proved (lower, upper); raises :class:`Refuted` with the reason otherwise."""
    with damage_refutes():
        demand(document["format"] == FORMAT, "an unknown format")
        demand(document["sha256"] == digest(document), "the checksum does not match")
        demand(document["kind"] in KINDS, "an unknown kind")
        check_form(document)
        demand(0 <= rational(document["delta"]) < 1, "delta must lie in [0, 1)")
        demand(rational(document["sensitivity"]) > 0, "the sensitivity must be > 0")
        below, above = check_exponential(document)
        upper, lower = check_noise(document, below), check_bound(document, above)
        demand_stated(document, lower, upper)
    return lower, upper


def six_digits(number: Fraction, rounding: str = ROUND_CEILING) -> str:
    """A number for people: rounded up, or down where it bounds from below."""
    context = Context(prec=6, rounding=rounding)
    return f"{context.divide(Decimal(number.numerator), Decimal(number.denominator)):g}"


def main(arguments: list[str]) -> int:
    """Verify files; 0 when all are proved."""
    failed = 0
    for path in arguments:
        try:
            with open(path, encoding="utf-8") as file:
                document = read(file.read())
            lower, upper = verify(document)
        except (OSError, ValueError, Refuted) as reason:
            failed += 1
            print(f"{path}: REFUTED: {reason}")
            continue
        epsilon, delta = (six_digits(rational(document[name])) for name in ("epsilon", "delta"))
        between = f"[{six_digits(lower, ROUND_FLOOR)}, {six_digits(upper)}]"
        print(f"{path}: proved. epsilon {epsilon}, delta {delta}; least loss in {between}")
        if rests_on(document):
            print(f"  {rests_on(document)}")
    return 1 if failed or not arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
