"""The only door to random bits: secure by default, seeded only when asked and then saying so.

Everything random in the package is made from 64-bit words of a :class:`RandomSource`. The default,
:class:`SecureSource`, is a cryptographic stream; :class:`SeededSource` exists for tests, plots and
simulations, is a distinct type, and marks what it touches (``source.seeded``). This module never
falls back from the secure source to a seeded one.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, check_count, fail

Words = NDArray[np.uint64]
Shape = int | tuple[int, ...]

_BUFFER_BYTES = 1 << 13


class RandomSource(ABC):
    """Random 64-bit words and the elementary laws made from them.

    The floating-point laws (:meth:`uniform` and those below it) are for the continuous,
    ``idealized-numerics`` part of the package. Exact samplers use :meth:`words`, :meth:`integers`
    and :meth:`below` only.
    """

    seeded: bool

    @abstractmethod
    def words(self, count: int) -> Words:
        """``count`` independent uniform 64-bit words."""

    # --- exact integers ---------------------------------------------------------------------

    def below(self, bound: int) -> int:
        """A uniform integer in ``0..bound-1`` for a bound of any size, by rejection."""
        check_count("bound", bound)
        bits = (bound - 1).bit_length()
        count = -(-bits // 64)
        while True:
            value = int.from_bytes(self.words(count).tobytes(), "little") & ((1 << bits) - 1)
            if value < bound:
                return value

    def integers(self, bound: int, shape: Shape) -> NDArray[np.int64]:
        """Uniform integers in ``0..bound-1``, ``bound <= 2**63``, by rejection (no modulo bias)."""
        check_count("bound", bound, most=1 << 63)
        mask = np.uint64((1 << (bound - 1).bit_length()) - 1)
        count = int(np.prod(shape))
        out = self.words(count) & mask
        bad = np.flatnonzero(out >= np.uint64(bound))
        while bad.size:
            out[bad] = self.words(bad.size) & mask
            bad = bad[out[bad] >= np.uint64(bound)]
        return out.astype(np.int64).reshape(shape)

    # --- idealized real-valued laws ---------------------------------------------------------

    def uniform(self, shape: Shape) -> FloatArray:
        """Uniform on the open interval (0, 1): odd multiples of 2**-54."""
        words = self.words(int(np.prod(shape)))
        return (((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53).reshape(shape)

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
        """``size`` uniform permutations of ``0..length-1``, one per row (ranks of random words)."""
        return np.argsort(self.words(size * length).reshape(size, length), axis=1, kind="stable")

    def __reduce__(self) -> NoReturn:
        fail("A random source cannot be pickled or copied: equal noise reveals differences.")


class SecureSource(RandomSource):
    """Cryptographic words: AES-256-CTR keyed from the operating system for every block.

    Each block draws a fresh 256-bit key from ``os.urandom``, so no state can be replayed. Without
    the package ``cryptography`` the keystream is SHAKE-256 of the same kind of key, from the
    standard library (slower, equally sound). Small requests are served from a buffer that is
    thrown away after a fork (process id check), so that children never share noise.
    """

    seeded = False

    def __init__(self) -> None:
        self._buffer: Words = np.empty(0, dtype=np.uint64)
        self._pid = os.getpid()

    def words(self, count: int) -> Words:
        if self._pid != os.getpid():
            self._buffer, self._pid = self._buffer[:0], os.getpid()
        if count * 8 >= _BUFFER_BYTES:
            return _keystream(count)
        if count > self._buffer.size:
            self._buffer = _keystream(_BUFFER_BYTES // 8)
        taken, self._buffer = self._buffer[:count].copy(), self._buffer[count:]
        return taken

    def __repr__(self) -> str:
        return "SecureSource()"


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

    def __repr__(self) -> str:
        return "SeededSource(...)"


def source(rng: Any = None) -> RandomSource:
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


def _keystream(count: int) -> Words:
    """``count`` words under a key that is used for this block only."""
    key, size = os.urandom(32), 8 * count
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError:
        stream = hashlib.shake_256(key).digest(size)
    else:
        stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(size))
    return np.frombuffer(bytearray(stream), dtype=np.uint64)
