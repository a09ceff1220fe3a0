"""Public parameters as text: what was asked for, to the last digit, for fingerprints of requests.

The text of an object is made of all parameters that its constructor was given, found by their
signature and never by a list that somebody keeps: a parameter that is added is part of the text.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial, wraps
from types import CodeType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import F, exact_amount, fail
from tightdp.named_arguments import refuse_arguments

_NUMBERS = (int, float, Fraction, Decimal, np.integer, np.floating)
_LONG = 1000  # entries of an array that are written out
_KEPT = 16
_TEXTS: dict[int, tuple[Any, str]] = {}  # of so many schemas
_lock = threading.Lock()


class Recorded:
    """An object that remembers with which parameters it was made, as one text.

    >>> class Noise(Recorded):
    ...     def __init__(self, scale, *, bits=16):
    ...         self.scale = scale
    >>> Noise(0.5).parameters, Noise(scale=0.5, bits=8).parameters
    ('Noise(scale=1/2, bits=16)', 'Noise(scale=1/2, bits=8)')
    """

    parameters: str = ""
    later: Collection[str] = ()
    """Parameters that were added: with None for them the text is that of before."""
    _given: Mapping[str, Any]

    def rebuilt(self, **changes: object) -> Self:
        """The same object with other parameters.

        >>> class Noise(Recorded):
        ...     def __init__(self, scale, *, bits=16):
        ...         self.scale = scale
        >>> Noise(0.5).rebuilt(scale=2).parameters
        'Noise(scale=2, bits=16)'
        """
        given = dict(self._given)
        for name in changes:
            if name not in given:
                fail(f"{type(self).__name__} has no parameter `{name}`: {', '.join(given)}.")
        return type(self)(**(given | changes))

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _recording(cls.__dict__["__init__"])  # type: ignore[method-assign]


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    form = inspect.signature(init)
    own = form.replace(parameters=list(form.parameters.values())[1:])

    @wraps(init)
    def __init__(self: Any, *given: object, **named: object) -> None:  # noqa: N807
        if type(self).__init__ is not __init__:  # called by the constructor of a derived class
            init(self, *given, **named)
            return
        try:
            bound = own.bind(*given, **named)
        except TypeError:
            refuse_arguments(type(self).__name__, own, given, named)
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, (Iterator, Set)):  # it has one order, and is read in it twice
                bound.arguments[name] = tuple(value)
        init(self, *bound.args, **bound.kwargs)
        self._given = dict(bound.arguments)
        told = [(k, v) for k, v in self._given.items() if v is not None or k not in self.later]
        self.parameters = _call(type(self).__name__, told)

    return __init__


def tells_arguments(called: F) -> F:
    """A function or a class that says which arguments there are, where a call does not fit.

    Calls that fit take no longer: whether one does is asked when Python has refused it.

    >>> @tells_arguments
    ... def count(frame, *, epsilon=1): ...
    >>> count(None, columns="x")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: `columns` is no argument of count(). It takes: frame, epsilon.
    """
    if isinstance(called, type):
        made = inspect.unwrap(called.__init__)  # type: ignore[misc]  # of the base, if it has none
        made = _nothing if made is object.__init__ else made  # which says that it takes anything
        called.__init__ = _telling(made, called.__name__)  # type: ignore[misc]
        return called
    return _telling(called, called.__name__)  # type: ignore[return-value]


def _telling(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @wraps(function)
    def call(*places: object, **named: object) -> object:
        try:
            return function(*places, **named)
        except TypeError:
            taken = list(inspect.signature(function).parameters.values())
            own = 1 if taken and taken[0].name == "self" else 0
            form, given = inspect.Signature(taken[own:]), places[own:]
            if not _fits(form, given, named):
                refuse_arguments(name, form, given, named)
            raise  # it came from inside

    return call


def _nothing(self: object) -> None: ...


def _fits(form: inspect.Signature, places: Sequence[object], named: Mapping[str, object]) -> bool:
    try:
        form.bind(*places, **named)
    except TypeError:
        return False
    return True


def parameter_text(value: object) -> str:
    """A parameter as text: equal texts mean the same parameter, however it was written.

    Numbers are exact, and floats stand for their shortest decimal; functions are their code.

    >>> parameter_text(0.5), parameter_text(Fraction(1, 2)), parameter_text(("a", None, True))
    ('1/2', '1/2', "['a', None, True]")
    """
    if isinstance(value, Enum):  # a word stands for it
        return parameter_text(value.value)
    if value is None or isinstance(value, (bool, str, bytes)):
        return repr(value)
    if isinstance(value, np.bool_):
        return repr(bool(value))
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, _NUMBERS):
        return str(exact_amount("parameter", value)) if math.isfinite(value) else str(float(value))
    if isinstance(value, np.ndarray):
        return parameter_text(value.tolist()) if value.size < _LONG else _array_digest(value)
    if isinstance(value, Mapping):
        items = [f"{parameter_text(k)}: {parameter_text(v)}" for k, v in value.items()]
        return f"{{{', '.join(items)}}}"
    if isinstance(value, Set):
        return f"{{{', '.join(sorted(map(parameter_text, value)))}}}"
    return _object_text(value)


def _array_digest(array: NDArray[Any]) -> str:
    """A long array in few letters."""
    if array.dtype.hasobject:
        return hashlib.sha256(parameter_text(array.tolist()).encode()).hexdigest()
    whole = np.ascontiguousarray(array)
    return f"{whole.dtype} {whole.shape} {hashlib.sha256(whole.tobytes()).hexdigest()}"


def _object_text(value: Any) -> str:
    if isinstance(value, Recorded):
        return value.parameters
    if hasattr(type(value), "request_text"):  # it knows better which of its facts define it
        return str(value.request_text())
    if is_dataclass(value) and not isinstance(value, type):
        if getattr(type(value), "text_is_kept", False):
            return _kept_text(value)
        return _dataclass_text(value)
    if isinstance(value, type):
        return value.__qualname__
    if callable(value):
        return f"{function_name(value)} {function_code(value)}"
    if isinstance(value, Iterable):
        return f"[{', '.join(map(parameter_text, value))}]"
    silent = getattr(type(value), "__repr__", None) is object.__repr__  # an address says nothing
    plain = "" if silent else f" {value!r}"
    return _call(type(value).__name__, _kept(value)) + plain


def _dataclass_text(value: Any) -> str:
    told = [part for part in fields(value) if not part.metadata.get("printed only")]
    return _call(type(value).__name__, [(part.name, getattr(value, part.name)) for part in told])


def _kept_text(value: Any) -> str:
    """The text of an object that cannot change and is asked for with every release: a schema.

    It is known by its identity, and kept with its text, so that no other one has that identity.
    """
    known = _TEXTS.get(id(value))
    if known is not None:
        return known[1]
    text = _dataclass_text(value)
    with _lock:
        _TEXTS[id(value)] = value, text
        while len(_TEXTS) > _KEPT:
            _TEXTS.pop(next(iter(_TEXTS)))
    return text


def _kept(value: object) -> list[tuple[str, Any]]:
    """The attributes of an object that carry the names of its constructor's parameters."""
    own, found = getattr(value, "__dict__", {}), []
    for name in inspect.signature(type(value).__init__).parameters:
        places = [place for place in (f"_given_{name}", f"_{name}", name) if place in own]
        found += [(name, own[places[0]])] if places else []
    return found


def _call(name: str, values: list[tuple[str, Any]]) -> str:
    return f"{name}({', '.join(f'{key}={parameter_text(value)}' for key, value in values)})"


# --- functions of the user -----------------------------------------------------------------------


def function_name(function: object) -> str:
    """The name of a function, or the type of another callable.

    >>> function_name(abs), function_name(lambda x: x)
    ('abs', '<lambda>')
    """
    return str(getattr(function, "__qualname__", type(function).__name__))


def function_code(function: object) -> str:
    """The compiled code of a function as text, with the constants that it was given: other code or
    another constant is another request.

    Constants are texts, numbers and tuples of them, as defaults or by ``functools.partial``. Other
    values, and what a function or an object has captured, are not looked at: they may be private.

    >>> function_code(lambda x: x + 1) == function_code(lambda x: x + 2)
    False
    >>> function_code(partial(pow, 2)) == function_code(partial(pow, 3))
    False
    """
    if isinstance(function, partial):
        inner = f"{function_name(function.func)} {function_code(function.func)}"
        return f"partial {inner} {_constants(function.args, function.keywords)}"
    code = getattr(function, "__code__", None)
    if code is None and not isinstance(function, type):  # an object that can be called
        code = getattr(inspect.getattr_static(type(function), "__call__", None), "__code__", None)
    if not isinstance(code, CodeType):
        return function_name(function)
    given = _constants(
        getattr(function, "__defaults__", None) or (),
        getattr(function, "__kwdefaults__", None) or {},
    )
    return f"{_written(code)} {given}"


def _constants(values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """What was given as a constant, by place and name."""
    found = {str(place): value for place, value in enumerate(values)} | dict(named)
    return parameter_text({name: v if _is_constant(v) else "..." for name, v in found.items()})


def _is_constant(value: object) -> bool:
    if type(value) is tuple:
        return all(map(_is_constant, value))
    return value is None or type(value) in (bool, int, float, str, bytes, Fraction, Decimal)


def _written(constant: object) -> str:
    if isinstance(constant, CodeType):
        inside = map(_written, constant.co_consts)
        names = (*constant.co_names, *constant.co_varnames)
        return " ".join([constant.co_code.hex(), *names, *inside])
    if isinstance(constant, frozenset):  # its order changes from process to process
        return " ".join(sorted(map(repr, constant)))
    return repr(constant)
