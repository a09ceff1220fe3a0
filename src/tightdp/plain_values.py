"""Values as JSON has them, which has no infinite numbers, arrays or fractions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np


def plain(value: object) -> Any:
    """Plain values for JSON; numbers that are not finite become texts.

    >>> plain({"ends": np.array([-np.inf, 0.5])})
    {'ends': ['-inf', 0.5]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Fraction):
        return str(value)
    return value if isinstance(value, (int, str, bool)) or value is None else str(value)
