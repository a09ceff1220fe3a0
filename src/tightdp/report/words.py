"""The sentences of a report: the guarantee, what it means, how to check and to cite it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import exp

from tightdp.accounting.conversions import zcdp_epsilon
from tightdp.errors import exact_amount
from tightdp.ledger.amounts import Budget, cost
from tightdp.privacy import Guarantee, Neighbors, Numerics, float_up, marks, text_up
from tightdp.release import Release

NEIGHBOURS = {
    Neighbors.REPLACE_ONE: "two tables that differ in one row, which may say anything in either "
    "(the number of rows is public)",
    Neighbors.ADD_REMOVE: "two tables of which one has a row more (the number of rows is private)",
}

NUMERICS = {
    Numerics.EXACT: "The proof covers the program: integers from the table to the release, with "
    "random bits from a cryptographic source.",
    Numerics.IDEALIZED: "The proof is about real numbers; part of the computation is done in "
    "floating point.",
    Numerics.APPROXIMATE: "The law of a release is approached by a Markov chain, not drawn "
    "exactly: how far it is from the law that the proof is about is not known.",
}


def warnings(total: Guarantee) -> list[tuple[str, str]]:
    """What a reader must see before any number: a headline and its reason."""
    found = []
    if total.seeded:
        found.append(
            ("Not private.", "The noise came from a seed, and can be computed again by anybody.")
        )
    if total.approximate:
        found.append(
            (
                "Not proved.",
                "A Markov chain only approached the law of a release; its epsilon is that of the "
                "law it approaches, and what was released may reveal more.",
            )
        )
    return found


def given(releases: Sequence[Release]) -> str:
    """Between which tables alone the promises hold; nothing where they do for all neighbours."""
    said = (release.guarantee.given for release in releases)
    return "; and ".join(dict.fromkeys(filter(None, said)))


def guarantee_words(total: Guarantee, count: int, only: str = "") -> str:
    """The guarantee of all releases together, in one paragraph."""
    what = "This release is" if count == 1 else f"The {count} releases together are"
    epsilon, delta = text_up(total.epsilon), text_up(total.delta)
    loss = f"epsilon = {epsilon}" + (f" and delta = {delta}" if total.delta else "")
    slack = f", plus {delta}" if total.delta else ""
    held = f", {only} and no others" if only else ""
    return (
        f"{what} differentially private with {loss}{total.per_person}{held}. Take "
        f"{_apart(total)}{_alike(only)}: "
        f"whatever could be published is at most e^{epsilon} = {_factor(total.epsilon)} "
        f"times as probable under one as under the other{slack}. {_unit_words(total)}"
    )


def _apart(total: Guarantee) -> str:
    """Two neighbouring tables."""
    if total.rows_per_person is None:
        return NEIGHBOURS[total.neighbors]
    return (
        "two tables of which one has a person more, with all of that person's rows (the numbers "
        "of persons and rows are private)"
    )


def _alike(only: str) -> str:
    return ", both of them with the same public tables" if only else ""


def _unit_words(total: Guarantee) -> str:
    """Whom the guarantee protects, and whom it does not."""
    most = total.rows_per_person
    if most is None:
        return "What is protected is one row: a person only if nobody has more than one."
    rows = "row of anybody is" if most == 1 else "rows of anybody are"
    return f"What is protected is a person: at most {most} {rows} used, however many there are."


def _factor(epsilon: float) -> str:
    return text_up(exp(epsilon), 3) if epsilon < 50 else "a very large number of"


def formula(total: Guarantee) -> str:
    """The same in symbols, as text."""
    slack = f" + {text_up(total.delta)}" if total.delta else ""
    return f"P(M(X) in A) <= exp({text_up(total.epsilon)}) P(M(X') in A){slack}"


def payments(releases: Sequence[Release]) -> list[Guarantee]:
    """What was promised, once for each payment: readings of one release have one receipt."""
    paid = {
        str(each.receipt.get("hash")) if each.receipt else i: each.guarantee
        for i, each in enumerate(releases)
    }
    return list(paid.values())


def together(parts: list[Guarantee]) -> Guarantee:
    """Basic composition: parameters add up; the weakest numerics counts.

    Where all promise a rho, these add, and epsilon is what their sum implies at the sum of deltas.
    Promises about one row more count as those about a replaced row where there are such too.
    """
    order = [Numerics.EXACT, Numerics.IDEALIZED, Numerics.APPROXIMATE]
    kept = _common([part.neighbors for part in parts])
    costs = [
        cost(Budget(_exactly(part.epsilon), _exactly(part.delta)), part.neighbors, kept)
        for part in parts
    ]
    epsilon = sum((each.epsilon for each in costs), Fraction(0))
    delta = sum((each.delta for each in costs), Fraction(0))
    # two steps, one row out and one in, cost four times the rho
    rho = [
        _exactly(part.rho) * (1 if part.neighbors is kept else 4)
        for part in parts
        if part.rho is not None
    ]
    if len(rho) == len(parts) and 0 < delta < 1:
        epsilon = min(epsilon, zcdp_epsilon(sum(rho, Fraction(0)), delta))
    most = [part.rows_per_person for part in parts]
    return Guarantee(
        epsilon=float_up(epsilon),
        delta=float_up(delta),
        rho=float_up(sum(rho, Fraction(0))) if len(rho) == len(parts) else None,
        neighbors=kept,
        numerics=max((part.numerics for part in parts), key=order.index),
        seeded=any(part.seeded for part in parts),
        rows_per_person=max(filter(None, most), default=None) if all(most) else None,
    )


def _exactly(amount: float) -> Fraction:
    return exact_amount("amount", amount)


def _common(found: Sequence[Neighbors]) -> Neighbors:
    """What all of them say something about: replaced rows, unless all are about one row more."""
    same = len(set(found)) == 1
    return found[0] if same else Neighbors.REPLACE_ONE


CITE = (
    "Statistics released with tightdp {version} under differential privacy ({guarantee}). Noise: "
    "K-norm mechanisms, after J. Awan and A. Slavković, Structure and Sensitivity in Differential "
    "Privacy: Comparing K-Norm Mechanisms, Journal of the American Statistical Association 116 "
    "(2021)."
)


def cite(version: str, total: Guarantee, only: str = "") -> str:
    """A sentence to print with the numbers."""
    said = [total.amount, f"{total.neighbors} neighbours", *([only] if only else [])]
    said += marks(total.seeded, total.approximate)
    return CITE.format(version=version, guarantee=", ".join(said))
