"""The law of an object is the same when eight threads draw from it for the first time.

Given its random words, a draw is a function of the object alone. So eight threads, each with words
of its own, must get what a twin gives to one thread after the other, integer by integer; and so
must a ninth draw afterwards, when what the threads have filled together is used again. Python is
told to change threads as often as it can. Where words are not given, they must not come twice.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from caches import forget
from draws import BODIES, LAWS
from enrolled import MECHANISMS, every, mapping, mechanisms, plain_rows

import tightdp as tdp
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.log_concave import LogConcaveLaw
from tightdp.noise.knorm import KNormNoise
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.law import NoiseLaw
from tightdp.noise.line_laws import Laplace
from tightdp.randomness import SecureSource, _keystream, _Stream
from tightdp.shaping import reach

THREADS = 8
PAUSES, OFTEN = 300, 0.05
Work = Callable[[Any, int], Any]  # from the shared object and the number of a thread

RATES = [Fraction(1, 50), Fraction(1), Fraction(3)]  # levels by sums, and by tables


# --- the law --------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def eager_threads() -> Iterator[None]:
    """Change threads after every microsecond."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def hesitate(number: int) -> Callable[..., Any]:
    """A tracer that stops its thread at random lines, so that the others get ahead."""
    rng, left = random.Random(number), [PAUSES]

    def trace(frame: Any, event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if not left[0] or not ("tightdp" in Path(file).parts or file == __file__):
            return None
        if event == "line" and rng.random() < OFTEN:
            left[0] -= 1
            time.sleep(1e-5)
        return trace

    return trace


def at_once(work: Callable[[int], Any]) -> list[Any]:
    """What eight threads get, in their order; an error of one of them is raised here."""
    start, found, errors = threading.Barrier(THREADS), [None] * THREADS, []

    def run(number: int) -> None:
        start.wait()
        sys.settrace(hesitate(number))
        try:
            found[number] = work(number)
        except BaseException as error:
            errors.append(error)
        finally:
            sys.settrace(None)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def same_law(make: Callable[[], Any], work: Work) -> bool:
    """Whether eight threads, and one more draw behind them, get what a twin gives in turn."""
    forget()
    shared = make()
    together = at_once(lambda number: work(shared, number))
    after = work(shared, THREADS)
    forget()
    twin = make()
    return [*together, after] == [work(twin, number) for number in range(THREADS + 1)]


# --- what is drawn --------------------------------------------------------------------------------


def draw_law(law: Any, number: int) -> Any:
    """On two grids in turn: a law keeps what it made for the last one, for whoever comes next."""
    grids = [1] if hasattr(law, "log_pmf") else [number % 2 + 1, 2 - number % 2] * 3
    return [law.sample_lattice(9, grid=grid, rng=number).tolist() for grid in grids]


def draw_noise(noise: Any, number: int) -> Any:
    return noise.sample(9, rng=number).tolist()


def draw_body(body: LatticeBody, number: int) -> Any:
    return [draw_noise(LatticeNoise(body, rate * 4, 4), number) for rate in RATES]


def draw_staircase(body: LatticeBody, number: int) -> Any:
    """From a table of levels, whatever else the body has for a K-norm noise."""
    return draw_noise(LatticeNoise(body, 4, 4, staircase=Fraction(1, 2)), number)


def release(mechanism: Any, number: int) -> Any:
    """A release, which states its errors, and a preview."""
    rows = mapping(plain_rows(np.random.default_rng(1)))
    found = mechanism.release(rows, rng=number)
    stated = np.nan_to_num(np.asarray(found.half_width), nan=-1.0)
    return found.integers, stated.tolist(), mechanism.law


def second(make: Callable[[], Any]) -> Any:
    """The second of two: caches know its public facts from the first, it has drawn nothing yet."""
    make()
    return make()


def test_everything_that_draws_is_enrolled():
    def built(base: type) -> set[type]:
        return {kind for kind in every(base) if not inspect.isabstract(kind)}

    assert built(NoiseLaw) == set(LAWS)
    assert built(LatticeBody) == set(BODIES)
    assert mechanisms() == set(MECHANISMS)


@pytest.mark.slow_for("AnalyticGaussian")
@pytest.mark.parametrize("kind", LAWS, ids=lambda kind: kind.__name__)
def test_threads_share_a_law(kind):
    assert same_law(lambda: LAWS[kind](Fraction(1, 2), 6), draw_law)


@pytest.mark.slow_for("SumBody", "RecordBody", "RoundBody", "SquareBody", "PolytopeBody", "BoxBody")
@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
def test_threads_share_a_body(kind):
    assert same_law(BODIES[kind], draw_body)


def test_threads_share_a_ball():
    ball = tdp.Polytope.from_vertices([[2, 0], [1, 1], [-1, 1], [-2, 0], [-1, -1], [1, -1]])
    for make in (lambda: KNormNoise(ball, 1.0), lambda: KNormNoise(tdp.MomentBody(2), 1.0)):
        assert same_law(make, draw_noise)


QUICK = {str(cases[0]) for cases in MECHANISMS.values()} | {"table, hull", "counts, l1"}
CASES = [
    pytest.param(case, id=str(case), marks=[] if str(case) in QUICK else [pytest.mark.slow])
    for cases in MECHANISMS.values()
    for case in cases
    if case.relations
]


@pytest.mark.slow_for(
    "tuned",
    "squared loss",
    "together",
    "split",
    "row gradient",
    "joint sample",
    "test of means",
    "correlation",
    "rank test",
    "kolmogorov test",
)
@pytest.mark.parametrize("case", CASES)
def test_threads_share_a_mechanism(case):
    assert same_law(lambda: second(lambda: case.build_anew(case.relations[0])), release)


def words_of_threads() -> Any:
    bits = SecureSource()
    return np.concatenate(at_once(lambda _: np.concatenate([bits.words(7) for _ in range(500)])))


def test_threads_never_get_the_same_secure_words():
    words = words_of_threads()
    assert len(np.unique(words)) == len(words)
    ones = np.unpackbits(words.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 5 * 0.5 / math.sqrt(64 * len(words))


def ask(_: Any, number: int) -> Any:
    """Eight questions, each thread in an order of its own, to a cache of one place."""
    asked = [(number + i) % THREADS for i in range(24)]
    return [reach.remembered((n,), np.eye(2), lambda n=n: np.full(2, n)).tolist() for n in asked]


def test_half_widths_survive_that_others_are_forgotten(monkeypatch):
    monkeypatch.setattr(reach, "_REMEMBERED", 1)
    for _ in range(3):
        assert same_law(object, ask)


# --- planted faults -------------------------------------------------------------------------------


PROPOSE = LogConcaveLaw._propose


class AppendedCounts(HistogramBody):
    """As it was: two lists that every thread appends to."""

    def __init__(self, cells: int) -> None:
        super().__init__(cells)
        self._shells, self._balls = [1], [1]

    def _counted(self, level: int) -> Any:
        shells, n = self._shells, self.rank
        for s in range(len(shells) - 1, level):
            before = (s - 1) ** 2 * shells[s - 1] if s else 0
            shells.append(((2 * s * s + n * (n + 1)) * shells[s] - before) // (s + 1) ** 2)
            time.sleep(1e-4)  # another thread may come at any place: here it does
            self._balls.append(self._balls[-1] + shells[-1])
        return shells, self._balls


def appended_ends(law: Any, count: int, rng: Any) -> Any:
    """Totals of histograms from a list of cells that every thread appends to."""
    ends = vars(law).setdefault("appended", [])
    for weight in law._weights[len(ends) :]:
        last = ends[-1] if ends else 0
        time.sleep(1e-5)
        ends.append(last + weight)
    law._ends = np.array(ends)
    return PROPOSE(law, count, rng)


def differs(make: Callable[[], Any], work: Work) -> bool:
    """Whether one of ten trials shows that threads disturb each other, or stops a thread."""
    with contextlib.suppress(LookupError, ArithmeticError, ValueError):
        return not all(same_law(make, work) for _ in range(10))
    return True


def test_a_table_that_threads_append_to_is_caught():
    assert same_law(lambda: HistogramBody(20), draw_staircase)
    assert differs(lambda: AppendedCounts(20), draw_staircase)


def test_a_table_in_a_product_is_caught():
    assert differs(lambda: ProductBody([AppendedCounts(9), BoxBody([1, 2])]), draw_body)


def test_a_table_in_a_mechanism_is_caught(monkeypatch):
    schema = tdp.Schema({"k": tdp.Category([*range(60)])}, rows=120)
    rows = {"k": [*range(60)] * 2}

    def count(mechanism: Any, number: int) -> Any:
        return mechanism.release(rows, rng=number).integers

    def make() -> Any:
        return tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=1)

    assert same_law(lambda: second(make), count)
    monkeypatch.setattr(LogConcaveLaw, "_propose", appended_ends)
    assert differs(lambda: second(make), count)


def test_a_law_that_is_looked_up_twice_is_caught(monkeypatch):
    def sample_lattice(self, size=None, *, grid, rng=None):
        step = Fraction(grid)
        if self._made is None or self._made[0] != step:
            self._made = step, self.lattice(step)
            time.sleep(1e-4)
        return self._made[1].sample(size, rng=rng)

    monkeypatch.setattr(NoiseLaw, "sample_lattice", sample_lattice)
    assert differs(lambda: Laplace(epsilon=Fraction(1, 2), sensitivity=6), draw_law)


def test_a_source_without_its_lock_is_caught(monkeypatch):
    """Words that are given out twice are equal noise, which reveals differences."""

    def take(self, count):
        if count > self._buffer.size:
            self._buffer = _keystream(1024)
        taken = self._buffer[:count].copy()
        self._buffer = self._buffer[count:]
        return taken

    monkeypatch.setattr(_Stream, "take", take)
    words = words_of_threads()
    assert len(np.unique(words)) < len(words)
