"""Sizes that no memory holds, and empty things, are refused in time and unpaid."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError

X = np.linspace(0, 10, 100)
SCHEMA = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=100)
PRIVATE_ROWS = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=10**12, neighbors="add-remove")
LEVELS = [str(i) for i in range(200)]
WIDE = tdp.Schema({c: tdp.Category(LEVELS, other="0") for c in "abc"}, rows=100)


def column(values: np.ndarray) -> np.ndarray:
    return values[:, None]


CASES = {
    "a sample of 10**10": lambda o: tdp.SyntheticSample(1, (0, 10), size=10**10, **o).fit(
        column(X)
    ),
    "a sample as large as a bound on the rows": lambda o: tdp.SyntheticSample(
        1, PRIVATE_ROWS, **o
    ).fit({"x": X}),
    "points of a path": lambda o: tdp.SyntheticSample(
        1, (0, 10), method="kolmogorov", size=10**10, **o
    ).fit(column(X)),
    "bins": lambda o: tdp.histogram({"x": X}, "x", schema=SCHEMA, epsilon=1, bins=10**9, **o),
    "edges": lambda o: tdp.histogram(
        {"x": X}, "x", schema=SCHEMA, epsilon=1, bins=np.linspace(0, 10, 2 * 10**6), **o
    ),
    "entries": lambda o: tdp.histogram(
        {"x": X}, "x", schema=SCHEMA, epsilon=1, bins=10**4, noise="l2", **o
    ),
    "cells of a path": lambda o: tdp.KolmogorovSample(SCHEMA, "x", 10**9, epsilon=1),
    "cells of a density": lambda o: tdp.Density(1, (0, 10), bins=10**9, **o).fit(column(X)),
    "cells of a table": lambda o: tdp.Counts(WIDE, ["a:b"]),
    "cells of a large table": lambda o: tdp.Products(WIDE, ["a:b:c"]),
    "levels without end": lambda o: tdp.Category(map(str, itertools.count())),
    "no column": lambda o: tdp.LinearRegression(1, (0, 10), **o).fit({}),
    "no column, a target": lambda o: tdp.LinearRegression(1, (0, 10), **o).fit({}, "y"),
    "no column of a density": lambda o: tdp.Density(1, (0, 10), **o).fit({}),
    "a number for terms": lambda o: tdp.Products(SCHEMA, 5),
    "half a pair as a level": lambda o: tdp.Category(["a", "\udc80"]),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_in_time_and_unpaid(name):
    ledger = tdp.Ledger(9)
    start = time.process_time()
    with pytest.raises(ParameterError):
        CASES[name]({"ledger": ledger})
    assert time.process_time() - start < 15
    assert ledger.spent.epsilon == 0


def test_without_scikit_learn_estimators_are_lacking_attributes():
    """Before: ``hasattr`` raised an ImportError."""
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import tightdp as tdp\n"
        "assert not hasattr(tdp, 'LinearRegression')\n"
        "assert hasattr(tdp, 'Plan') and hasattr(tdp, 'mean')\n"
        "try: tdp.LinearRegression\n"
        "except AttributeError as error: assert '[learn]' in str(error)\n"
        "else: raise SystemExit('no error')\n"
        "try: from tightdp import LinearRegression\n"
        "except ImportError: pass\n"
        "else: raise SystemExit('no error')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
