"""Arrays that notice when one of their 64-bit integers wraps around.

For the time of a test every module of the package gets a numpy whose arrays are
:class:`WatchedArray`: sums, products and shifts of 64-bit integers are made a second time in
doubles, and so are doubles that become integers. What leaves 63 bits is noted with the line of the
package that did it.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

_EDGE = 2.0**63
_GROWING = {
    np.add, np.subtract, np.multiply, np.matmul, np.negative, np.absolute, np.left_shift,
    np.power, np.square,
}  # fmt: skip
_MAKERS = {
    "arange", "array", "asarray", "ascontiguousarray", "bincount", "column_stack", "concatenate",
    "cumsum", "diff", "empty", "flatnonzero", "frombuffer", "fromiter", "full", "full_like",
    "hstack", "ones", "ones_like", "prod", "ravel", "repeat", "searchsorted", "sort", "stack",
    "unique", "vstack", "where", "zeros", "zeros_like",
}  # fmt: skip


class WatchedArray(np.ndarray[Any, Any]):
    """An array of numpy that notes in ``wraps`` what does not fit."""

    wraps: ClassVar[set[str]] = set()

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        plain = [np.asarray(x) if isinstance(x, WatchedArray) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(
                x.view(np.ndarray) if isinstance(x, WatchedArray) else x for x in out
            )
        far = _leaves(ufunc, method, plain, options)
        found = getattr(ufunc, method)(*plain, **options)
        if far and getattr(found, "dtype", None) == np.int64:
            note(f"{ufunc.__name__} {method}")
        return out[0] if out is not None and len(out) == 1 else _watch(found)

    def astype(self, dtype: Any, *rest: Any, **options: Any) -> Any:
        if self.dtype.kind == "f" and np.dtype(dtype) == np.int64:
            size = np.abs(np.asarray(self))
            if not bool((size < _EDGE).all()):
                note("doubles to integers")
        return super().astype(dtype, *rest, **options)


def _leaves(ufunc: Any, method: str, inputs: list[Any], options: dict[str, Any]) -> bool:
    """Whether the same in doubles is beyond 63 bits."""
    if ufunc not in _GROWING or method == "at":
        return False
    kinds = [np.asarray(x).dtype for x in inputs]
    if not any(kind == np.int64 for kind in kinds) or any(kind.kind in "fOc" for kind in kinds):
        return False
    rest = {name: value for name, value in options.items() if name not in ("out", "dtype")}
    with np.errstate(all="ignore"):
        if ufunc is np.left_shift:
            size = np.asarray(inputs[0], dtype=np.float64) * 2.0 ** np.asarray(inputs[1])
        else:
            places = inputs[1:] if method in ("reduce", "accumulate", "reduceat") else []
            first = inputs[:1] if places or method != "__call__" else inputs
            doubles = [np.asarray(x, dtype=np.float64) for x in first]
            size = getattr(ufunc, method)(*doubles, *places, **rest)
    return bool((np.abs(size) >= _EDGE).any())


def note(what: str) -> None:
    """Remember a wrap with the last line of the package on the way to it."""
    ours = [f for f in traceback.extract_stack() if "/src/tightdp/" in f.filename]
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "outside"
    WatchedArray.wraps.add(f"{where} {what}")


def _watch(found: Any) -> Any:
    if isinstance(found, tuple):
        return tuple(_watch(x) for x in found)
    if type(found) is np.ndarray and found.dtype.kind in "iuf":
        return found.view(WatchedArray)
    return found


class WatchingNumpy:
    """Numpy, except that the arrays it makes are watched."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        if name not in _MAKERS:
            return value

        def made(*args: Any, **options: Any) -> Any:
            return _watch(value(*args, **options))

        return made


@contextmanager
def watched() -> Iterator[set[str]]:
    """Watch all arrays of the package; gives the set of wraps, which grows."""
    proxy, changed = WatchingNumpy(), []
    for name, module in list(sys.modules.items()):
        if name.startswith("tightdp.") and getattr(module, "np", None) is np:
            module.np = proxy  # type: ignore[attr-defined]
            changed.append(module)
    WatchedArray.wraps = wraps = set()
    try:
        yield wraps
    finally:
        for module in changed:
            module.np = np  # type: ignore[attr-defined]
