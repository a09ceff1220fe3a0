"""What all private estimators share: public bounds, one payment, one release, no shared noise."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from tightdp.accepted import TableLike
from tightdp.data.columns import open_column
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.one_pass import blocks
from tightdp.errors import DimensionError, FloatArray, check_flag, fail
from tightdp.estimators.inputs import (
    Column,
    Problem,
    bare_columns,
    named_columns,
    public_rows,
    read_arrays,
    read_columns,
    target_cells,
)
from tightdp.estimators.lost_ledgers import check_not_lost, left_behind
from tightdp.estimators.pipelines import warn_of_learned_steps
from tightdp.exact.rates import check_epsilon
from tightdp.privacy import Guarantee, Neighbors
from tightdp.randomness import RandomSource, source
from tightdp.release import Release
from tightdp.schema import Schema

_FLAGS = {"average", "fit_intercept", "progress"}
_WEIGHT_REASON = (
    "`sample_weight` is not supported: a weight multiplies what one row can change, and weights "
    "are data that would need public bounds and noise of their own. Fit without weights."
)
_COLUMN_VECTOR = "A column-vector y was passed when a 1d array was expected: pass y.ravel()."


class PrivateEstimator(BaseEstimator):  # type: ignore[misc]
    """Base of the private estimators.

    A subclass defines ``__init__`` with (at least) the parameters below, ``_fit(problem, key,
    rng)``, which makes exactly one payment and returns the :class:`~tightdp.Release`, and
    ``_check_parameters``, which raises on bad parameters before anything is paid or read.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
        Public facts; see :data:`~tightdp.estimators.inputs.BOUNDS_HELP`.
    noise : shape of the noise
    ledger : Ledger, optional
        Every ``fit`` is charged to it; clones share it.
    random_state : None, int, Generator or RandomState
        None is a fresh cryptographic source for every fit. Anything else marks the release as
        seeded: **not private**.

    Notes
    -----
    The number of rows is public (``replace-one``): it is the length of ``X``, or what a schema
    states, and then a table of another length is refused. For folds of a table, which are shorter,
    state ``bounds=list(schema.columns.values())``. Whatever is computed from private rows outside
    ``fit``, such as ``score`` or a cross-validated score, is not covered by the guarantee; nor is
    what the steps of a pipeline learn before it, of which a
    :class:`~tightdp.errors.PrivacyWarning` tells.
    """

    epsilon: Any
    bounds: Any
    noise: Any
    ledger: Any
    random_state: Any
    release_: Release
    schema_: Schema

    # --- fitting ------------------------------------------------------------------------------

    def fit(
        self, X: TableLike, y: object = None, *, key: str | None = None, **unsupported: object
    ) -> Self:
        """Check everything, pay, read the data once, release, estimate.

        Parameters
        ----------
        X : table
            An array or frame of features; or, if ``y`` is the name of a column, any table that
            holds features and target: a frame, a DuckDB relation, a Spark frame, or a path.
        y : array, or str
        key : str, optional
            A key that the ledger already holds gives the stored release again and costs nothing.
        """
        _refuse(unsupported)
        check_not_lost(self.ledger)
        check_epsilon(self.epsilon)
        for name in set(self.get_params(deep=False)) & _FLAGS:
            check_flag(name, getattr(self, name))
        self._check_parameters()
        warn_of_learned_steps(self)
        problem = self._problem(X, y)
        if key is not None and self.ledger is None:
            fail("`key` needs a `ledger` that remembers it.")
        problem.check()
        self.schema_ = problem.schema
        self.release_ = self._fit(problem, key, self._source())
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise on bad parameters; neither data nor budget have been touched."""

    @abstractmethod
    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        """Pay, release and set the fitted attributes."""

    def _public_bounds(self) -> Any:
        """The bounds as :mod:`~tightdp.estimators.inputs` reads them."""
        return self.bounds

    def _target_column(self, y: object) -> Column | None:
        """Public facts about the target that the estimator knows itself (classes), else None."""
        return None

    @property
    def guarantee_(self) -> Guarantee:
        """What the last fit promises."""
        check_is_fitted(self, "release_")
        return self.release_.guarantee

    # --- input --------------------------------------------------------------------------------

    def _problem(self, X: Any, y: object) -> Problem:
        """Table, schema and roles; sets ``n_features_in_`` and ``feature_names_in_``."""
        column = self._target_column(y)
        if isinstance(y, str):
            problem = read_columns(X, y, self._public_bounds(), column)
            self._remember(problem.features)
            return problem
        if isinstance(X, (str, Path)) or (X is not None and _out_of_memory(X)):
            fail("`y` must be the name of the target column when `X` is not in memory.")
        names = _text_names(X)
        if y is None:  # scikit-learn has the words for it
            validate_data(self, np.zeros((2, 1 if names is None else len(names))), y)
        if names is not None:
            features: dict[str, Any] = {name: X[name] for name in names}
            self._remember(tuple(names))
            rows = public_rows(X)
            assert rows is not None
        else:
            columns, rows = self._bare_columns(self._with_columns(X, column), reset=True)
            features = {f"x{j}": column for j, column in enumerate(columns)}
        target = target_cells(y)
        if len(getattr(y, "shape", ())) == 2:
            warnings.warn(_COLUMN_VECTOR, DataConversionWarning, stacklevel=3)
        if len(open_column(target)) != rows:
            fail("`y` must have one entry for each row of `X`.", DimensionError)
        return read_arrays(
            features, target, self._public_bounds(), rows, column, named=names is not None
        )

    def _with_columns(self, X: TableLike, target: Column | None) -> Any:
        """A list of no rows, where that may be, with the columns that a row would have."""
        if not (isinstance(X, (list, tuple)) and not X and _private_rows(self.bounds)):
            return X
        last, of_its_own = self.bounds[list(self.bounds)[-1]], getattr(target, "levels", None)
        ends_in_target = of_its_own is None or getattr(last, "levels", ()) == of_its_own
        return np.empty((0, len(list(self.bounds)) - ends_in_target))

    def _bare_columns(self, X: TableLike, *, reset: bool) -> tuple[list[Any], int]:
        """Columns of a table without names, and its rows; scikit-learn checks the shape only."""
        if hasattr(X, "tocsr"):
            validate_data(self, X)  # says that it is sparse
        columns, rows = bare_columns(X)
        shape = np.broadcast_to(0.0, (rows, len(columns)))
        # an error would tell that nobody is there
        least = 0 if reset and _private_rows(self.bounds) else 1
        try:
            validate_data(
                self, shape, reset=reset, ensure_all_finite=False, ensure_min_samples=least
            )
        except ValueError as error:
            fail(str(error), DimensionError)  # in its words, and of our family
        return columns, rows

    def _remember(self, names: tuple[str, ...]) -> None:
        self.n_features_in_ = len(names)
        self.feature_names_in_ = np.array(names, dtype=object)

    def _source(self) -> RandomSource:
        """A fresh secure source, or a seeded one that says so."""
        state = self.random_state
        if state is not None and hasattr(state, "randint"):  # a RandomState moves on
            return source(int(check_random_state(state).randint(0, 2**31 - 1)))
        return source(state)

    def _scaled_rows(self, X: Any) -> FloatArray:
        """Feature rows as the fit saw them: clamped, missing cells replaced, scaled to [-1, 1].

        Codes stand for the levels of categories. Shape (n, features).
        """
        check_is_fitted(self, "release_")
        *names, target = self.schema_
        table = _text_names(X)
        if table is not None:
            missing = [name for name in names if name not in table]
            if isinstance(X, Mapping) and missing:
                fail(f"The table has no column {missing[0]!r}.")
            if {*table} - {target} != {*names}:  # the target may ride along, unread
                validate_data(self, X, reset=False, skip_check_array=True)
            frame: Any = {name: X[name] for name in names}
        else:
            columns, _ = self._bare_columns(X, reset=False)
            frame = dict(zip(names, columns, strict=True))
        rows = max(1, len(next(iter(frame.values()))))
        facts = Schema(self.schema_.select(names), rows=rows, bits=24)
        parts = [block.matrix(names) for block in blocks(frame, facts, names)]
        cells = np.concatenate([np.empty((0, len(names)), dtype=np.int64), *parts])
        scale = [1.0 if hasattr(facts[name], "levels") else 2.0**facts.bits for name in names]
        return cells / np.array(scale)

    def _design_rows(self, X: TableLike) -> FloatArray:
        """Rows in user units, clamped as in the fit; categories as indicators but for the first."""
        cells = self._scaled_rows(X)
        *names, target = self.schema_
        return DesignMatrix(self.schema_, names, target).user_rows(cells)

    # --- the scikit-learn contract ------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # missing cells follow the public rule of the schema
        tags.non_deterministic = self.random_state is None
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """What a file or a deep copy holds: all of a fitted model but its ledger."""
        state: dict[str, Any] = dict(super().__getstate__())
        state["ledger"] = left_behind(self.ledger, fitted=hasattr(self, "release_"))
        return state

    def __copy__(self) -> Self:
        shell = type(self).__new__(type(self))
        shell.__dict__.update(self.__dict__)
        return shell

    def __sklearn_clone__(self) -> Self:
        # A clone pays from the same ledger, which refuses to be copied, and draws its own noise.
        shell = copy.copy(self)
        shell.ledger = None
        clone: Self = super(PrivateEstimator, shell).__sklearn_clone__()
        clone.ledger = self.ledger
        return clone


def _refuse(unsupported: Mapping[str, Any]) -> None:
    if unsupported.get("sample_weight") is not None:
        fail(_WEIGHT_REASON)
    unknown = [name for name in unsupported if name != "sample_weight"]
    if unknown:
        fail(f"`fit` has no parameter {unknown[0]!r}. It has X, y and key.")


def _out_of_memory(X: TableLike) -> bool:
    sparse = hasattr(X, "tocsr")  # scikit-learn has the words for those
    return not sparse and public_rows(X) is None and named_columns(X) is not None


def _text_names(X: TableLike) -> list[str] | None:
    """Names of a frame in memory, or None for arrays."""
    if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "tocsr"):
        return None
    return named_columns(X)


def _private_rows(bounds: object) -> bool:
    """Whether the number of rows is private: tables with and without a row are neighbours."""
    return isinstance(bounds, Schema) and bounds.neighbors is not Neighbors.REPLACE_ONE
