"""Random bits: secret, unshared by forks, threads and copies, and unbiased below any bound."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import sys
import threading

import numpy as np
import pytest
from scipy.stats import chisquare

import tightdp.randomness as door
from tightdp.errors import ParameterError, TightdpError
from tightdp.randomness import RandomSource, SecureSource, SeededSource, source

LEVEL = 1e-6
may_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
quiet_fork = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def no_cryptography(monkeypatch):
    """As if the package ``cryptography`` were not installed."""
    for name in [name for name in sys.modules if name.startswith("cryptography")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    door._cipher.cache_clear()
    yield
    door._cipher.cache_clear()


# --- forks, threads, copies ----------------------------------------------------------------------


def forked(draw, workers):
    """What ``draw`` gives in each of several forked children."""
    answers = []
    for _ in range(workers):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - runs in the child
            try:
                os.write(writing, draw())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answers.append(pipe.read())
        os.waitpid(child, 0)
    return answers


@may_fork
@quiet_fork
@pytest.mark.parametrize("count", [1, 4, 2000])
def test_forked_workers_share_no_noise(count):
    rng = SecureSource()
    rng.words(3)  # the buffer is filled before the forks
    answers = [*forked(lambda: rng.words(count).tobytes()[:4096], 4), rng.words(count).tobytes()]
    assert all(answers)
    assert len(set(answers)) == 5


@may_fork
@quiet_fork
def test_a_child_of_a_child_starts_anew():
    rng = SecureSource()
    rng.words(1)

    def grandchildren():
        own = rng.words(1).tobytes()
        return own + b"".join(forked(lambda: rng.words(1).tobytes(), 2))

    words = [answer[i : i + 8] for answer in forked(grandchildren, 2) for i in (0, 8, 16)]
    assert len(set(words)) == 6


@may_fork
@quiet_fork
def test_a_lock_held_at_the_fork_does_not_stop_the_child():
    rng = SecureSource()
    rng.words(1)
    with rng._stream._lock:
        (answer,) = forked(lambda: rng.words(1).tobytes(), 1)
    assert len(answer) == 8


@may_fork
@quiet_fork
def test_the_hook_alone_is_enough(monkeypatch):
    """A child that has the process id of its ancestor (ids are used again) is still noticed."""
    rng = SecureSource()
    monkeypatch.setattr(os, "getpid", lambda: 4711)
    rng.words(1)
    answers = [*forked(lambda: rng.words(1).tobytes(), 4), rng.words(1).tobytes()]
    assert len(set(answers)) == 5


def test_the_process_id_alone_is_enough(monkeypatch):
    """A fork that runs no Python hook (from C) is still noticed."""
    rng = SecureSource()
    before = rng.words(1), rng._stream
    monkeypatch.setattr(os, "getpid", lambda: -1)
    rng.words(1)
    assert rng._stream is not before[1]


RNG = SecureSource()


def noise_of_worker(_: int) -> bytes:
    return RNG.words(2).tobytes()


@may_fork
@quiet_fork
def test_multiprocessing_workers_share_no_noise():
    RNG.words(1)
    with multiprocessing.get_context("fork").Pool(4) as pool:
        answers = pool.map(noise_of_worker, range(64), chunksize=1)
    assert len({*answers, RNG.words(2).tobytes()}) == 65


def test_threads_share_no_words():
    rng, gathered, start = SecureSource(), [], threading.Barrier(8)

    def draw():
        start.wait()
        gathered.append(np.concatenate([rng.words(3) for _ in range(3000)]))

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = np.concatenate(gathered)
    assert words.size == 8 * 9000
    assert np.unique(words).size == words.size  # equal by chance: 1e-10
    assert (words != 0).all()  # erased words are not given out


@pytest.mark.parametrize("rng", [SecureSource(), SeededSource(1)], ids=repr)
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps, lambda rng: copy.deepcopy([rng])]
)
def test_a_source_cannot_be_duplicated(rng, duplicate):
    with pytest.raises(TightdpError, match="cannot be pickled or copied"):
        duplicate(rng)


def test_two_sources_differ_and_words_are_erased():
    rng = SecureSource()
    assert (rng.words(4) != SecureSource().words(4)).all()
    buffer = rng._stream._buffer.base
    taken = rng.words(5)
    assert not np.isin(taken, buffer).any()


def test_nothing_secret_is_shown():
    rng = SecureSource()
    rng.words(1)
    assert repr(rng) == str(rng) == "SecureSource()"
    assert repr(SeededSource(12345)) == "SeededSource(...)"
    rest = rng._stream._buffer
    shown = f"{vars(rng)} {rng._stream!r}"
    assert not any(str(word) in shown or f"{word:x}" in shown for word in rest[:50].tolist())


# --- where the bits come from --------------------------------------------------------------------


def bit_balance(words):
    """Largest deviation, in standard errors, of the 64 bit positions and of neighbouring bits."""
    bits = np.unpackbits(words.view(np.uint8)).reshape(-1, 64).astype(np.int64)
    scale = np.sqrt(len(bits)) / 2
    single = np.abs(bits.sum(axis=0) - len(bits) / 2).max()
    pair = np.abs((bits[:, 1:] ^ bits[:, :-1]).sum(axis=0) - len(bits) / 2).max()
    return max(single, pair) / scale


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 1 << 14, (1 << 14) + 1, 50_001])
def test_blocks_of_every_size_are_filled(count):
    words = SecureSource().words(count)
    assert (words.size, words.dtype) == (count, np.uint64)
    assert np.unique(words).size == count
    words[0] = 7  # the caller owns what it gets


def test_bits_are_fair():
    assert bit_balance(SecureSource().words(200_000)) < 7
    rng = SecureSource()
    assert bit_balance(np.concatenate([rng.words(100) for _ in range(1000)])) < 7


def test_the_keystream_is_that_of_the_cipher(monkeypatch):
    """Block by block the same as encrypting zeros in one go."""
    ciphers = pytest.importorskip("cryptography.hazmat.primitives.ciphers")
    monkeypatch.setattr(os, "urandom", lambda size: bytes(range(size)))
    cipher = ciphers.Cipher(ciphers.algorithms.AES(bytes(range(32))), ciphers.modes.CTR(bytes(16)))
    count = 40_003
    assert SecureSource().words(count).tobytes() == cipher.encryptor().update(bytes(8 * count))


def test_every_block_has_a_key_of_its_own(monkeypatch):
    keys, draw = [], os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: keys.append(draw(size)) or keys[-1])
    rng = SecureSource()
    rng.words(5000)
    rng.words(5000)
    for _ in range(1025):
        rng.words(1)
    assert len(keys) == len(set(keys)) == 4
    assert {len(key) for key in keys} == {32}


@pytest.mark.usefixtures("no_cryptography")
def test_the_standard_library_is_the_fallback():
    assert door._cipher() is None
    rng = SecureSource()
    assert not rng.seeded
    assert np.unique(rng.words(5000)).size == 5000
    assert bit_balance(rng.words(100_000)) < 7
    assert chisquare(np.bincount(rng.integers(7, 70_000))).pvalue > LEVEL


def test_a_seed_gives_a_distinct_type_that_says_so():
    assert source().seeded is False
    assert isinstance(source(), SecureSource)
    for rng in (source(3), source(np.random.default_rng(3)), SeededSource(3)):
        assert isinstance(rng, SeededSource)
        assert rng.seeded
        assert not isinstance(rng, SecureSource)
    assert (source(3).words(9) == source(3).words(9)).all()
    assert source(source_ := SecureSource()) is source_


@pytest.mark.parametrize("rng", [True, "7", 1.0, -1, object()])
def test_a_wrong_rng_is_refused(rng):
    with pytest.raises(ParameterError, match="`rng` must"):
        source(rng)


# --- integers below a bound ----------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 2, 3, 6, 7, 10, 100, 129])
@pytest.mark.parametrize("method", ["below", "integers", "integers_below"])
def test_integers_are_uniform(method, bound, seed):
    rng, n = SeededSource(seed), 20_000
    draws = {
        "below": lambda: np.array([rng.below(bound) for _ in range(n)]),
        "integers": lambda: rng.integers(bound, n),
        "integers_below": lambda: rng.integers_below(np.full(n, bound)),
    }[method]()
    assert draws.min() >= 0
    assert draws.max() < bound
    if bound > 1:
        assert chisquare(np.bincount(draws, minlength=bound)).pvalue > LEVEL


def test_a_remainder_would_be_biased_and_ours_is_not(seed):
    """Below 3 * 2**61 a plain remainder meets the lower third twice as often."""
    rng, n, bound = SeededSource(seed), 60_000, 3 << 61
    thirds = [
        np.bincount(draws >> np.uint64(61), minlength=3)
        for draws in (
            rng.integers_below(np.full(n, bound, dtype=np.uint64)).astype(np.uint64),
            rng.integers(bound, n).astype(np.uint64),
            rng.words(n) % np.uint64(bound),
        )
    ]
    p = [chisquare(third).pvalue for third in thirds]
    assert p[0] > LEVEL
    assert p[1] > LEVEL
    assert p[2] < LEVEL


class Planned(RandomSource):
    """Gives planned words, one after the other."""

    seeded = True

    def __init__(self, planned):
        self.planned = list(planned)

    def words(self, count):
        taken, self.planned = self.planned[:count], self.planned[count:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize("bound", [3, 10, 1 << 40, (1 << 63) - 1, 1 << 63])
def test_exactly_the_broken_run_is_rejected(bound):
    runs = (1 << 64) // bound
    last = runs * bound - 1  # the last word of a whole run
    if last == (1 << 64) - 1:
        assert Planned([last]).integers_below([bound])[0] == bound - 1
        return
    rng = Planned([last + 1, (1 << 64) - 1, last])
    assert rng.integers_below(np.array([bound], dtype=np.uint64))[0] == bound - 1
    assert rng.planned == []


def test_every_entry_has_its_own_bound(seed):
    bounds = np.array([[1, 2, 3], [10, 1 << 20, 1 << 62]])
    draws = np.array([SeededSource(seed + i).integers_below(bounds) for i in range(300)])
    assert draws.shape == (300, 2, 3)
    assert (draws >= 0).all()
    assert (draws < bounds).all()
    assert (draws.max(axis=0) >= 0.9 * (bounds - 1)).all()


def test_big_bounds_give_python_integers(seed):
    rng, big = SeededSource(seed), 10**60
    draws = rng.integers_below(np.array([big, 5, 1 << 64], dtype=object))
    assert {type(draw) for draw in draws} == {int}
    assert all(0 <= draw < bound for draw, bound in zip(draws, (big, 5, 1 << 64), strict=True))
    single = [rng.below(big) for _ in range(4000)]
    counts = np.bincount([draw * 10 // big for draw in single], minlength=10)
    assert chisquare(counts).pvalue > LEVEL
    assert chisquare(np.bincount([draw % 10 for draw in single])).pvalue > LEVEL


@pytest.mark.parametrize("bounds", [[0], [-3], [1.5], [True], ["3"], [[2, 0]]])
def test_bad_bounds_are_refused(bounds):
    with pytest.raises(ParameterError, match="`bounds` must be integers >= 1"):
        SeededSource(1).integers_below(bounds)


def test_no_bounds_no_draws():
    assert SeededSource(1).integers_below(np.empty((0, 3), dtype=np.int64)).shape == (0, 3)


def test_wide_integers_in_blocks_are_those_drawn_one_by_one(seed):
    """The same words in the same order, refused ones included, and none is left over."""
    rng = np.random.default_rng(seed)
    for trial in range(40):
        sizes = rng.integers(1, 200, rng.integers(0, 25))
        bounds = [1 + int(rng.integers(1 << 40)) * (1 << int(size)) // 7 for size in sizes]
        one, other = source(trial), source(trial)
        drawn = one.integers_below(np.array(bounds, dtype=object))
        assert drawn.tolist() == [other.below(bound) for bound in bounds]
        assert one.words(2).tolist() == other.words(2).tolist()


def test_bounds_may_be_integers_of_numpy() -> None:
    for bound in (np.int64(5), np.uint8(255), np.uint64((1 << 63) - 1)):
        one, other = SeededSource(1), SeededSource(1)
        assert one.below(bound) == other.below(int(bound))
        assert (one.integers(bound, 3) == other.integers(int(bound), 3)).all()
