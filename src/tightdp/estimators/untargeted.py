"""Estimators of a table as a whole: there is no target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tightdp.errors import fail
from tightdp.estimators.base import PrivateEstimator
from tightdp.estimators.inputs import Problem, named_columns, public_rows, stated
from tightdp.schema import Schema


class Untargeted(PrivateEstimator):
    """Base: all columns are alike."""

    def _problem(self, X: Any, y: Any) -> Problem:
        bare = isinstance(X, (np.ndarray, list, tuple))
        named = None if bare or isinstance(X, (str, Path)) else named_columns(X)
        if not isinstance(X, (str, Path)) and named is None and not isinstance(self.bounds, Schema):
            columns, _ = self._bare_columns(X, reset=True)
            X, bare = {f"x{j}": column for j, column in enumerate(columns)}, True
            named = list(X)
        schema = self._facts(X, named)
        names = list(schema)
        self._remember(tuple(names))
        if bare:  # columns of an array have places, not names
            del self.feature_names_in_
        # the last column stands where other problems have their target
        return Problem(X, schema, tuple(names[:-1]), names[-1])

    def _facts(self, X: Any, names: list[str] | None) -> Schema:
        if isinstance(self.bounds, Schema):
            return self.bounds
        rows = public_rows(X)
        if names is None or rows is None:
            fail("A path, a relation or a Spark frame needs a Schema as `bounds`.")
        return stated(self.bounds, names[:-1], names[-1], rows, None)
