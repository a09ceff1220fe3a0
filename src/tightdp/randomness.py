"""The only door to random bits: secure by default, seeded only when asked and then saying so.

Everything random in the package is made from 64-bit words of a :class:`RandomSource`. The default,
:class:`SecureSource`, is a cryptographic stream; :class:`SeededSource` exists for tests, plots and
simulations, is a distinct type, and marks what it touches (``source.seeded``). This module never
falls back from the secure source to a seeded one.
"""

from __future__ import annotations

import hashlib
import os
import threading
from abc import ABC, abstractmethod
from functools import cache
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import FloatArray, check_count, fail

Words = NDArray[np.uint64]
Shape = int | tuple[int, ...]

_BUFFER_WORDS = 1 << 10
_FIRST_WORDS = 1 << 6  # a release of a few numbers needs no more
_BLOCK_WORDS = 1 << 14
_ZEROS = memoryview(bytes(1 << 17))  # what the cipher encrypts: its output is the bare keystream


class RandomSource(ABC):
    """Random 64-bit words and the elementary laws made from them.

    The floating-point laws (:meth:`uniform` and those below it) are for the continuous,
    ``idealized-numerics`` part of the package. Exact samplers use :meth:`words`, :meth:`below`,
    :meth:`integers`, :meth:`integers_below` and :meth:`integers_within` only.
    """

    seeded: bool

    @abstractmethod
    def words(self, count: int) -> Words:
        """``count`` independent uniform 64-bit words."""

    # --- exact integers ---------------------------------------------------------------------

    def below(self, bound: int) -> int:
        """A uniform integer in ``0..bound-1`` for a bound of any size, by rejection."""
        if type(bound) is not int or bound < 1:
            bound = check_count("bound", bound)
        bits = (bound - 1).bit_length()
        if not 0 < bits <= 64:
            return self._below_each([bound])[0]
        mask = (1 << bits) - 1
        while (value := int(self.words(1)[0]) & mask) >= bound:
            pass
        return value

    def integers(self, bound: int, shape: Shape) -> NDArray[np.int64]:
        """Uniform integers in ``0..bound-1``, ``bound <= 2**63``, by rejection (no modulo bias)."""
        bound = check_count("bound", bound, most=1 << 63)
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        count = int(np.prod(shape))
        out = self.words(count) & mask
        bad = np.flatnonzero(out >= np.uint64(bound))
        while bad.size:
            out[bad] = self.words(bad.size) & mask
            bad = bad[out[bad] >= np.uint64(bound)]
        return out.astype(np.int64).reshape(shape)

    def integers_below(self, bounds: ArrayLike) -> NDArray[Any]:
        """Independent uniform integers in ``0..b-1``, one for every ``b`` of an array of bounds.

        Proof: write the word as ``w = c*b + v`` with ``0 <= v < b``. All b words of a run
        ``c*b .. c*b + b - 1`` are equally likely, so v is uniform given that the whole run lies
        below 2**64, that is ``w - v <= 2**64 - b``; a word of the one broken run is drawn again.

        Parameters
        ----------
        bounds : array of integers >= 1
            64-bit integers, or an object array of Python integers of any size.

        Returns
        -------
        array
            Of the same shape: int64, or Python integers when a bound exceeds 2**63.

        Examples
        --------
        >>> source(1).integers_below([1, 10, 10**6]).dtype
        dtype('int64')
        """
        given = np.asarray(bounds)
        if given.size and (given.dtype.kind not in "iuO" or bool((given < 1).any())):
            fail("`bounds` must be integers >= 1.")
        if given.dtype == object or bool((given > np.uint64(1 << 63)).any()):
            flat = self._below_each([int(bound) for bound in given.ravel()])
            return np.array(flat, dtype=object).reshape(given.shape)
        limit = given.astype(np.uint64).ravel()
        words = self.words(limit.size)
        out = words % limit
        bad = np.flatnonzero(words - out > -limit)  # -b is 2**64 - b in these integers
        while bad.size:
            words = self.words(bad.size)
            out[bad] = words % limit[bad]
            bad = bad[words - out[bad] > -limit[bad]]
        return out.view(np.int64).reshape(given.shape)

    def _below_each(self, bounds: list[int]) -> list[int]:
        """What :meth:`below` gives for one bound after the other, from the same words.

        Words are taken for all that is left to draw, if nothing is refused; so none is left over.
        """
        bits = [(bound - 1).bit_length() for bound in bounds]
        sizes = [8 * (-(-each // 64)) for each in bits]
        taken, place, left = b"", 0, sum(sizes)  # bytes, the next of them, and how many are needed
        out = []
        for bound, each, size in zip(bounds, bits, sizes, strict=True):
            mask = (1 << each) - 1
            while True:
                if len(taken) - place < size:
                    rest = taken[place:]
                    taken, place = rest + self.words((left - len(rest)) // 8).tobytes(), 0
                value = int.from_bytes(taken[place : place + size], "little") & mask
                place += size
                if value < bound:
                    break
            left -= size
            out.append(value)
        return out

    def integers_within(self, bounds: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Rows of ``width`` uniform integers in ``0..b-1``, one row for every b up to 2**32.

        Proof (D. Lemire, 2019): of all 64-bit words u, floor(2**64 / b) or one more have
        ``floor(u * b / 2**64) = v``; without those that have ``u * b mod 2**64 < 2**64 mod b`` they
        are floor(2**64 / b) for every v. A word that is left out is drawn again. With
        ``u = 2**32 h + l`` the product is found in halves, each below 2**64 as b <= 2**32.

        >>> source(1).integers_within(np.array([1, 10]), 3).shape
        (2, 3)
        """
        limit = np.asarray(bounds).astype(np.uint64)[:, None]
        if limit.size and not (int(limit.min()) >= 1 and int(limit.max()) <= 1 << 32):
            fail("`bounds` must be integers between 1 and 2**32.")
        least, half, low = -limit % limit, np.uint64(32), np.uint64((1 << 32) - 1)
        out = np.empty((len(limit), width), dtype=np.uint64)
        step = max(1, _BLOCK_WORDS // max(width, 1))  # buffers that stay in the cache
        for start in range(0, len(limit), step):
            rows = slice(start, start + step)
            part, found = limit[rows], out[rows]
            words = self.words(found.size).reshape(found.shape)
            np.multiply(words & low, part, out=found)
            found >>= half
            found += (words >> half) * part
            found >>= half
            words *= part  # modulo 2**64
            bad = words < least[rows]
            if bad.any():
                i, j = np.nonzero(bad)
                found[i, j] = self.integers_below(part[i, 0])
        return out.view(np.int64)

    # --- idealized real-valued laws ---------------------------------------------------------

    def uniform(self, shape: Shape) -> FloatArray:
        """Uniform on the open interval (0, 1): odd multiples of 2**-53, none of them rounded."""
        words = self.words(int(np.prod(shape)))
        return (((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52).reshape(shape)

    def exponential(self, shape: Shape) -> FloatArray:
        """Standard exponential, by inversion."""
        return -np.log(self.uniform(shape))

    def normal(self, shape: Shape) -> FloatArray:
        """Standard normal, by inversion."""
        from scipy.special import ndtri

        return np.asarray(ndtri(self.uniform(shape)), dtype=np.float64)

    def gamma(self, alpha: float, shape: Shape) -> FloatArray:
        """Gamma(shape=alpha, rate=1), by inversion from the nearer tail."""
        from scipy.special import gammainccinv, gammaincinv

        u = self.uniform(shape)
        low, high = np.minimum(u, 0.5), np.minimum(1.0 - u, 0.5)
        return np.asarray(
            np.where(u < 0.5, gammaincinv(alpha, low), gammainccinv(alpha, high)), dtype=np.float64
        )

    def signs(self, shape: Shape) -> FloatArray:
        """Independent fair signs -1.0, +1.0."""
        count = int(np.prod(shape))
        bits = np.unpackbits(self.words(-(-count // 64)).view(np.uint8), count=count)
        return (1.0 - 2.0 * bits.astype(np.float64)).reshape(shape)

    def categorical(self, weights: FloatArray, size: int) -> NDArray[np.int64]:
        """Indices drawn with probabilities proportional to ``weights``."""
        edges = np.cumsum(weights)
        index = np.searchsorted(edges, self.uniform(size) * edges[-1], side="right")
        return np.minimum(index, len(edges) - 1).astype(np.int64)

    def permutations(self, size: int, length: int) -> NDArray[np.int64]:
        """``size`` uniform permutations of ``0..length-1``, one per row, exactly.

        They are the ranks of random words; a row with two equal words is drawn again.
        """
        words = self.words(size * length).reshape(size, length)
        while True:
            ranked = np.sort(words, axis=1)
            tied = np.flatnonzero((ranked[:, 1:] == ranked[:, :-1]).any(axis=1))
            if tied.size == 0:
                return np.argsort(words, axis=1)
            words[tied] = self.words(tied.size * length).reshape(tied.size, length)

    def __reduce__(self) -> NoReturn:
        fail("A random source cannot be pickled or copied: equal noise reveals differences.")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__reduce__()


class SecureSource(RandomSource):
    """Cryptographic words: AES-256-CTR keyed from the operating system for every block.

    Each block draws a fresh 256-bit key from ``os.urandom``, so no state can be replayed: a block
    is one large request, or the buffer (512 bytes, then 8 KiB) from which small requests are
    served. Without the package ``cryptography`` the keystream is SHAKE-256 of the same kind of key,
    from the standard library (slower, equally sound); there is no other fallback.

    No two callers get the same words: threads take turns at the buffer, words are erased from it
    when handed out, a child process starts with an empty buffer (a hook after ``fork`` and a check
    of the process id), and a source can be neither pickled nor copied. A virtual machine that is
    resumed twice from one snapshot repeats at most the rest of one buffer: make a new source there.

    Examples
    --------
    >>> bits = SecureSource()
    >>> bits.words(3).dtype, 0 <= bits.below(10**30) < 10**30, bits.seeded
    (dtype('uint64'), True, False)
    """

    seeded = False

    def __init__(self) -> None:
        self._stream = _Stream()

    def words(self, count: int) -> Words:
        if count >= _BUFFER_WORDS:
            return _keystream(count)
        stream = self._stream
        if stream.owner != _owner():
            # Two threads may both come here; each then has a stream under a key of its own.
            stream = self._stream = _Stream()
        return stream.take(count)

    def __repr__(self) -> str:
        return "SecureSource()"


class _Stream:
    """A buffer of words that belongs to one process; threads take turns."""

    __slots__ = ("_buffer", "_lock", "_next", "owner")

    def __init__(self) -> None:
        self.owner = _owner()
        self._lock = threading.Lock()
        self._buffer: Words = np.empty(0, dtype=np.uint64)
        self._next = _FIRST_WORDS

    def take(self, count: int) -> Words:
        with self._lock:
            if count > self._buffer.size:
                self._buffer = _keystream(max(self._next, count))
                self._next = _BUFFER_WORDS
            taken = self._buffer[:count].copy()
            self._buffer[:count] = 0  # what was given out cannot be read back
            self._buffer = self._buffer[count:]
        return taken


# Counts the forks above this process. With the process id it tells whose buffer a buffer is, even
# where an id is used again; a child never waits for a lock that another thread held at the fork.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_count_fork)


def _owner() -> tuple[int, int]:
    return os.getpid(), _forks


class SeededSource(RandomSource):
    """Reproducible words for tests and simulations; whatever it touches is **not private**."""

    seeded = True

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._bits = np.random.default_rng(seed).bit_generator

    def words(self, count: int) -> Words:
        # MT19937 yields 32-bit raw words; two of them make one of ours.
        if isinstance(self._bits, np.random.MT19937):
            return np.asarray(self._bits.random_raw(2 * count)).astype(np.uint32).view(np.uint64)
        return np.asarray(self._bits.random_raw(count), dtype=np.uint64)

    def binomial(self, trials: NDArray[np.int64], chance: FloatArray, shape: Shape) -> FloatArray:
        """Binomial counts of simulated rows; what is released never comes from here."""
        drawn = np.random.Generator(self._bits).binomial(trials, chance, shape)
        return np.asarray(drawn, dtype=np.float64)

    def multinomial(self, trials: int, shares: FloatArray, size: int) -> FloatArray:
        """Counts of simulated rows in cells with these shares, shape (size, cells)."""
        drawn = np.random.Generator(self._bits).multinomial(trials, shares, size)
        return np.asarray(drawn, dtype=np.float64)

    def __repr__(self) -> str:
        return "SeededSource(...)"


def seeded_generator(seed: int) -> np.random.Generator:
    """A numpy Generator for simulations of public models; what is released never comes from it.

    >>> bool(seeded_generator(7).random() == seeded_generator(7).random())
    True
    """
    return np.random.default_rng(seed)


# what an argument `rng` or `random_state` may be
RandomLike: TypeAlias = RandomSource | np.random.Generator | int | np.integer[Any] | None


def source(rng: RandomLike = None) -> RandomSource:
    """The source behind an ``rng`` argument.

    ``None`` gives a fresh :class:`SecureSource`; an integer or a ``numpy.random.Generator`` gives a
    :class:`SeededSource`; a :class:`RandomSource` is returned as it is.

    >>> source().seeded, source(7).seeded
    (False, True)
    """
    if rng is None:
        return SecureSource()
    if isinstance(rng, RandomSource):
        return rng
    if isinstance(rng, np.random.Generator):
        return SeededSource(rng)
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, (bool, np.bool_)):
        return SeededSource(check_count("rng", rng, least=0))
    fail(
        "`rng` must be None (secure), an integer seed, a numpy Generator or a RandomSource. "
        f"Got {type(rng).__name__}."
    )


@cache
def _cipher() -> Any:
    """A function from a key to an AES-CTR encryptor, or None without ``cryptography``."""
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        return None
    return lambda key: Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def _keystream(count: int) -> Words:
    """``count`` words under a key that is used for this block only."""
    key, size, cipher = os.urandom(32), 8 * count, _cipher()
    if cipher is None:
        return np.frombuffer(bytearray(hashlib.shake_256(key).digest(size)), dtype=np.uint64)
    out = np.empty(count + 2, dtype=np.uint64)  # the cipher wants room for one block more
    room, encryptor = out.data.cast("B"), cipher(key)
    for start in range(0, size, len(_ZEROS)):
        encryptor.update_into(_ZEROS[: size - start], room[start:])
    return out[:count]
