"""Noise by optimisation, in one call."""

from __future__ import annotations

import copy
import hashlib
import math
import os
import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from tightdp.accepted import Number
from tightdp.design.bounds import statement
from tightdp.design.certificate import Certificate, DesignedNoise
from tightdp.design.cutting_planes import CutProgram
from tightdp.design.problem import NoiseProblem
from tightdp.design.programs import ShiftProgram
from tightdp.design.search import Search, Searched
from tightdp.errors import (
    TightdpError,
    check_choice,
    check_count,
    check_flag,
    check_list,
    check_positive,
    check_within,
    exact_amount,
    fail,
)
from tightdp.parameters import tells_arguments
from tightdp.paths import check_path, read_file, write_whole
from tightdp.printed import html_facts, text_facts
from tightdp.privacy import float_up, text_down, text_up

METHODS = ("extended", "cutting-planes")
_KEPT = 256
_MOST_PARTS = 1000
_solved: OrderedDict[str, Searched] = OrderedDict()
_lock = threading.Lock()


class Design:
    """A noise found by optimisation, with the proof of what it is worth.

    Attributes
    ----------
    noise : PiecewiseNoise, TableNoise, Staircase, DiscreteStaircase or TruncatedLaplace
        The law; its :meth:`lattice` or its own draws are exact. The last three are for delta = 0,
        for a large epsilon, and for noise too wide for a list of cells.
    upper, lower : float
        The expected loss of the noise (rounded up), and what no noise can beat (rounded down).
    gap : float
        (upper - lower) / lower, rounded up.
    certificate : Certificate
    reached : bool
        Whether the gap that was asked for is met.
    seconds : float
        What the search took.

    Examples
    --------
    >>> design = design_noise(epsilon=1.0, delta=0.2)
    >>> design.gap <= 0.01, round(design.upper, 2), design.certificate.verify()
    (True, 0.56, True)
    >>> design.noise.guarantee().delta <= 0.2
    True
    """

    def __init__(self, certificate: Certificate, *, reached: bool, seconds: float = 0.0) -> None:
        self.certificate, self.reached, self.seconds = certificate, reached, seconds
        self.problem: NoiseProblem = certificate.problem()
        self.noise: DesignedNoise = certificate.noise()
        self.upper = float_up(certificate.upper)
        self.lower = 0.0 - float_up(-certificate.lower)  # never -0
        self.gap = certificate.gap

    def request_text(self) -> str:
        """What defines the noise, for fingerprints: the certificate, not how long it took."""
        return f"Design {hashlib.sha256(self.certificate.to_json().encode()).hexdigest()}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the certificate; :func:`load_design` and the verifier read it."""
        write_whole("path", path, self.certificate.to_json())

    def privacy_loss(self, *, discretization: float = 1e-3) -> Any:
        """For an accountant: see :func:`tightdp.design.privacy_loss.privacy_loss`."""
        from tightdp.design.privacy_loss import privacy_loss

        return privacy_loss(self.noise, discretization=discretization)

    def __str__(self) -> str:
        return "\n".join(text_facts(self._rows()))

    def __repr__(self) -> str:
        return (
            f"Design(lower={text_down(self.lower)}, upper={text_up(self.upper)}, gap={self._gap()})"
        )

    def _gap(self) -> str:
        return f"{text_up(100 * self.gap, 3)}%"

    def _repr_html_(self) -> str:
        return html_facts(self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        problem = self.problem
        sides = [name for name in ("integer", "monotone", "symmetric") if getattr(problem, name)]
        if problem.support is not None:
            sides.append(f"support +-{float(problem.support):g}")
        if problem.second is not None:
            sides.append(f"E {problem.second[0].name} <= {float(problem.second[1]):g}")
        spent = f"epsilon {text_up(problem.epsilon)}, delta {text_up(problem.delta)}"
        rows = [
            ("guarantee", f"{spent}, sensitivity {float(problem.sensitivity):g}"),
            ("loss", problem.loss.name),
            ("noise", repr(self.noise)),
            ("expected", text_up(self.upper)),
            ("at least", f"{text_down(self.lower)} for any noise"),
            ("gap", self._gap() + ("" if self.reached else " (more than asked for)")),
        ]
        return [*rows, ("within", ", ".join(sides))] if sides else rows


@tells_arguments
def design_noise(
    *,
    epsilon: Number,
    delta: Number,
    sensitivity: Number = 1.0,
    loss: object = "l1",
    gap: float = 0.01,
    cells: int | None = None,
    partition: Sequence[Any] | None = None,
    support: object = None,
    monotone: bool = False,
    symmetric: bool | None = None,
    second_loss: tuple[Any, Any] | None = None,
    integer: bool = False,
    method: str = "extended",
    time_limit: float | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> Design:
    r"""The additive noise with the least expected loss for a guarantee, and the proof.

    Among all X with :math:`P(X \in A) \le e^\epsilon P(X + s \in A) + \delta` for
    :math:`|s| \le \Delta`, look for the least :math:`E\,c(X)`. The noise found is a mixture of
    uniform laws on cells and an atom at zero; its distance to the optimum over *all* noise is
    certified by a dual solution.

    **Privacy.**
    Statement: adding ``design.noise`` to a statistic that moves by at most the sensitivity is
    (epsilon, delta)-DP.
    Needs: a sensitivity from public facts; exact draws by ``noise.lattice(grid)``.
    Proof: :class:`~tightdp.design.certificate.Certificate`.
    Erratum: Selvi and others (2025)'s lower bounds are not used: D(pi, beta) (Corollary 1) is
    false, and bounds without padding say nothing about wider noise; the monotone bound 0.1830 at
    (3, 0.3) is beaten by 0.1644 (E42).
    References: Selvi and others (2025), problems P and D.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 20]; a float means its shortest decimal.
    delta : float
        In [0, 1); 0 or at least 1e-12.
    sensitivity : float
    loss : {"l1", "l2"}, Loss or function
        ``tightdp.design.losses`` has powers, asymmetric, pinball, threshold and piecewise linear
        losses; a function of a float must be convex (or see ``losses.from_callable``).
    gap : float
        The certified relative gap to reach; integers reach 1e-6 by default.
    cells : int, optional
        Number of cells of the noise; then the gap is what it is.
    partition : sequence of floats, optional
        Edges, from -L to L and in sensitivities, between which the noise is uniform: the problem
        P(pi, beta) of Selvi and others (2025). The lower bound stays that of all noise.
    support : float, optional
        Only noise within [-support, support].
    monotone : bool
        Only noise whose density does not rise away from zero.
    symmetric : bool, optional
        Only symmetric noise; for symmetric losses nothing is lost by it.
    second_loss : pair, optional
        Only noise whose second expected loss is at most the bound.
    integer : bool
        The statistic is an integer: the noise is one too, with no discretisation error.
    method : {"extended", "cutting-planes"}
        The program of this package, or the formulation of Selvi and others (2025), for comparison.
    time_limit : float, optional
        Seconds; what is proved by then is returned, with ``reached`` False and a warning. Noise
        that is known and a bound that needs no program are there from the start, so that the
        limit is kept at every epsilon and delta; side constraints that no known noise meets end
        in an error instead.
    cache : path, optional
        A directory in which solved designs are kept, for all sensitivities where the loss is a
        power; one read from it is verified, and must answer the question asked. Designs for
        functions are not kept.
    progress : bool
        Print each bound as it is found.

    Returns
    -------
    Design

    Examples
    --------
    >>> from fractions import Fraction
    >>> design = design_noise(epsilon=2.0, delta=0.1, loss="l1")
    >>> design.lower <= 0.3630 <= design.upper * 1.01, design.reached
    (True, True)
    >>> fine = design.noise.cells_per_sensitivity() * 1000  # points to a sensitivity
    >>> draws = design.noise.lattice(Fraction(1, fine)).sample(5, rng=1)  # exact integers
    >>> draws.dtype
    dtype('int64')
    """
    check_flag("progress", progress)
    problem = NoiseProblem.of(
        epsilon=epsilon,
        delta=delta,
        sensitivity=sensitivity,
        loss=loss,
        integer=check_flag("integer", integer),
        monotone=check_flag("monotone", monotone),
        symmetric=None if symmetric is None else check_flag("symmetric", symmetric),
        support=support,
        second_loss=second_loss,
    )
    check_choice("method", method, METHODS)
    limit = None if time_limit is None else check_positive("time_limit", time_limit)
    count = None if cells is None else check_count("cells", cells, least=2, most=20_000)
    check_within("gap", gap, "[1e-7, 1]")
    target = min(gap, 1e-6) if integer else gap
    edges = None if partition is None else _edges(partition, problem, count)
    unit, factor = problem.unit()  # a power scales with the sensitivity
    store = _Store(unit, (target, count, edges, method), cache)
    begun = time.monotonic()
    found = store.get(target)
    if found is None:
        search = Search(
            unit,
            gap=target,
            cells=count,
            deadline=None if limit is None else begun + limit,
            progress=progress,
            solver=ShiftProgram if method == "extended" else CutProgram,
            partition=edges,
        )
        found = search.run()
    store.put(found)
    certificate = found.certificate
    if unit is not problem:
        certificate = certificate.rescaled(problem.sensitivity, factor)
    given = count is not None or edges is not None  # then the gap is what it is
    if not found.met and (limit is not None or not given):
        warnings.warn(
            f"The gap {target:g} was not reached; the design is certified to "
            f"{certificate.gap:.3%}. Give more time or more cells.",
            RuntimeWarning,
            stacklevel=2,
        )
    return Design(certificate, reached=found.met, seconds=time.monotonic() - begun)


@tells_arguments
def load_design(path: str | os.PathLike[str]) -> Design:
    """A design from its file, once its proof is checked.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     design_noise(epsilon=1.0, delta=0.25).save(f"{folder}/noise.json")
    ...     load_design(f"{folder}/noise.json").upper < 0.52
    True
    """
    return Design(Certificate.from_json(read_file("path", path)), reached=True)


def _edges(given: Sequence[Any], problem: NoiseProblem, cells: int | None) -> tuple[Fraction, ...]:
    """The edges of a partition, in sensitivities; they must lie on a common grid."""
    edges = tuple(exact_amount("partition", e) for e in check_list("partition", given, "edges"))
    if len(edges) < 2 or any(a >= b for a, b in pairwise(edges)) or edges[0] != -edges[-1]:
        fail("`partition` must be increasing edges from -L to L.")
    if math.lcm(*(edge.denominator for edge in edges)) > _MOST_PARTS:
        fail(f"`partition` must lie on a grid of at most {_MOST_PARTS} cells a sensitivity.")
    if problem.folded and tuple(-edge for edge in reversed(edges)) != edges:
        fail("`partition` must be its own mirror image, like the problem.")
    if problem.integer or problem.delta == 0 or cells is not None or problem.support is not None:
        fail("`partition` excludes `integer`, `cells`, `support` and delta = 0.")
    return edges


# --- the cache ------------------------------------------------------------------------------------


class _Store:
    """Where the answer to one question is kept: in memory, and in a file if there is a directory.

    A file is input like any other: it must prove what it states, and state the question asked. A
    proof for a larger epsilon is a proof, and would be a leak here.
    """

    def __init__(
        self, problem: NoiseProblem, options: tuple[Any, ...], cache: str | os.PathLike[str] | None
    ) -> None:
        self.problem = problem
        self.key = None if problem.key is None else repr((problem.key, *options))
        self.path: Path | None = None
        if cache is not None and self.key is not None:
            name = hashlib.sha256(self.key.encode()).hexdigest()[:32]
            self.path = _directory(cache) / f"{name}.json"

    def get(self, gap: float) -> Searched | None:
        """The answer, if it is known."""
        with _lock:
            if self.key is not None and self.key in _solved:
                _solved.move_to_end(self.key)
                return copy.deepcopy(_solved[self.key])  # what a caller changes is the caller's
        if self.path is None or not self.path.exists():
            return None
        try:
            certificate = load_design(self.path).certificate
        except TightdpError as reason:
            fail(f"`cache` holds a file that cannot be trusted, {self.path}. {reason} Delete it.")
        if not self._answers(certificate) or certificate.gap > gap:
            fail(f"`cache` holds a file that answers another question, {self.path}. Delete it.")
        return Searched(certificate, True)

    def _answers(self, certificate: Certificate) -> bool:
        asked = statement(self.problem, {}, {})
        names = ("integer", "epsilon", "delta", "sensitivity", "loss", "constraints")
        return all(certificate.document[name] == asked[name] for name in names)

    def put(self, found: Searched) -> None:
        """Keep an answer that meets its gap; another time limit may do better than the others."""
        if self.key is None or not found.met:
            return
        with _lock:
            _solved[self.key] = copy.deepcopy(found)
            while len(_solved) > _KEPT:
                _solved.popitem(last=False)
        if self.path is not None and not self.path.exists():
            Design(found.certificate, reached=True).save(self.path)


def _directory(cache: str | os.PathLike[str]) -> Path:
    path = check_path("cache", cache)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        fail(f"`cache` must be a directory that can be made and written. Got {cache}.")
    if not os.access(path, os.W_OK | os.X_OK):
        fail(f"`cache` must be a directory that can be written. Got {cache}.")
    return path
