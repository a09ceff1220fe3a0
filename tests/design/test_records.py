"""Records of designs with rubbish in any place: one kind of error, one verdict of all readers."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

import tightdp as tdp
from tightdp.design import proofs
from tightdp.design.exact_numbers import Refuted
from tightdp.errors import TightdpError

_RUBBISH = (None, -1, True, "x", "", "1/0", "1_0", " 1", "1e5", "٣", 10**400, 2**62, [], {}, [1])
_PLACES = 3  # of every list: the first, the last, and one between

MADE = {
    "composed": lambda: tdp.design_composed_noise(
        epsilon=2.0, delta=0.3, resolution=1, support=2, lower_resolution=1
    ),
    "disc": lambda: tdp.design_composed_noise(
        epsilon=2.0, delta=0.3, resolution=1, support=2, ball="l2", lower_resolution=1
    ),
    "plane": lambda: tdp.design_vector_noise(
        dim=2, epsilon=2.0, delta=0.3, ball="linf", resolution=1, lower_resolution=1
    ),
    "cube": lambda: tdp.design_vector_noise(
        dim=3, epsilon=3.0, delta=0.3, ball="linf", resolution=1
    ),
    "range": lambda: tdp.design_data_dependent_noise(
        epsilon=1.0, delta=0.2, sensitivity=2.0, query_range=(0.0, 4.0), resolution=1
    ),
    "radial": lambda: tdp.bound_radial_noise(4, epsilon=1, delta=1e-2, rounds=1),
}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a record; of long lists, some."""
    keys: list[Any] = list(value) if isinstance(value, dict) else []
    if isinstance(value, list):
        step = max(1, (len(value) - 1) // (_PLACES - 1))
        keys = sorted({*range(0, len(value), step), len(value) - 1} & {*range(len(value))})
    for key in keys:
        yield (*path, key)
        yield from places(value[key], (*path, key))


def changed(record: Any, path: tuple[Any, ...], rubbish: Any) -> Any:
    out = copy.deepcopy(record)
    at = out
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = rubbish
    return out


@pytest.mark.parametrize("kind", MADE)
def test_all_readers_agree_about_rubbish(kind):
    design = MADE[kind]()
    record = json.loads(design.to_json())
    assert proofs.prove(json.dumps(record)).lower == design.lower
    for path in places(record):
        for rubbish in _RUBBISH:
            if (path[-1], rubbish) != ("lower", -1):  # a bound that says less is true
                text = json.dumps(changed(record, path, rubbish))
                verdicts = [_proved(proofs.prove, text), _proved(type(design).from_json, text)]
                assert verdicts[0] == verdicts[1], (path, rubbish)


def _proved(read: Any, text: str) -> bool:
    """Whether a reader takes a record; whatever else it raises is a fault."""
    try:
        read(text)
    except (Refuted, TightdpError):
        return False
    return True


@pytest.mark.parametrize("path", [("low",), ("monotone",), ("edges", 1), ("bound", "limits", 0)])
def test_what_is_no_exact_number_is_refused(path):
    record = json.loads(MADE["range"]().to_json())
    for rubbish in ("x", "1_0", " 1", "٣", [1], 1.0):
        with pytest.raises(TightdpError):
            tdp.DataDependentDesign.from_dict(changed(record, path, rubbish))
        if rubbish != 1.0:
            with pytest.raises(Refuted):
                proofs.prove(json.dumps(changed(record, path, rubbish)))


def test_a_proof_that_would_fill_the_memory_is_refused():
    record = json.loads(MADE["range"]().to_json())
    empty = {"pairs": [], "multipliers": [], "row_multipliers": []}
    bound = {**record["bound"], **empty, "half": 1 << 40, "padding": 1 << 40}
    with pytest.raises(Refuted, match="too many nodes"):
        proofs.prove(json.dumps({**record, "bound": bound, "lower": "0"}))


def test_a_certificate_that_is_not_needed_is_read_all_the_same():
    record = json.loads(MADE["disc"]().to_json())
    assert record["single"] is None  # both losses count the same
    with pytest.raises(Refuted):
        proofs.prove(json.dumps({**record, "single": {"lower": "7"}}))
