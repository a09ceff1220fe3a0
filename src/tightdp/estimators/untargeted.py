"""Estimators of a table as a whole: there is no target."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.errors import DimensionError, fail
from tightdp.estimators.inputs import Problem, named_columns, public_rows, stated
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.privacy import Neighbors
from tightdp.schema import Schema


class Untargeted(PrivateEstimator):
    """Base: all columns are alike."""

    def _problem(self, X: TableLike, y: object) -> Problem:
        bare = isinstance(X, (np.ndarray, list, tuple))
        named = None if bare or isinstance(X, (str, Path)) else named_columns(X)
        if isinstance(X, (list, tuple)) and isinstance(self.bounds, Schema):
            X = self._listed(X, self.bounds)
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

    def _listed(self, X: TableLike, schema: Schema) -> dict[str, Any]:
        """The columns of a list of rows, in the order of the schema."""
        names = list(schema)
        none = not X and schema.neighbors is not Neighbors.REPLACE_ONE
        columns, _ = self._bare_columns(np.empty((0, len(names))) if none else X, reset=True)
        if len(columns) != len(names):
            fail(
                f"`X` must have the {len(names)} columns of the schema, in its order. Got "
                f"{len(columns)}.",
                DimensionError,
            )
        return dict(zip(names, columns, strict=True))

    def _facts(self, X: TableLike, names: list[str] | None) -> Schema:
        if isinstance(self.bounds, Schema):
            return self.bounds
        rows = public_rows(X)
        if names is None or rows is None:
            fail("A path, a relation or a Spark frame needs a Schema as `bounds`.")
        return stated(self.bounds, names[:-1], names[-1], rows, None)
