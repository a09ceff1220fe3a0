"""What the user gives to ``fit``, made into a table, a schema and the roles of its columns.

Nothing here reads a cell of a table to be fitted: only names, lengths and the bounds that are
stated. Cells are read where a fitted model is asked about rows (:func:`fitted_cells`).
"""

from __future__ import annotations

import difflib
import numbers
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.validation import validate_data

from tightdp.accepted import TableLike
from tightdp.data.columns import as_objects, libraries, open_column
from tightdp.data.one_pass import blocks
from tightdp.errors import DimensionError, FloatArray, fail
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema

Column: TypeAlias = Interval | Category
Bounds: TypeAlias = Schema | Column | Sequence[Any] | int | None  # an int counts levels

BOUNDS_HELP = (
    "`bounds` must be public facts: one pair (low, high) for all columns, a list of pairs for the "
    "features and then the target, or a Schema. Bounds are never read off the data, because the "
    "smallest and the largest value of a column belong to somebody."
)
_COLUMN_VECTOR = "A column-vector y was passed when a 1d array was expected: pass y.ravel()."
_FINE = 24  # bits of the grid on which rows are looked up


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A table with its public facts, and which columns play which role.

    Attributes
    ----------
    frame : table
        Anything that :func:`~tightdp.data.one_pass.blocks` reads.
    schema : Schema
        Facts about the features and the target, in this order; ``schema.rows`` is the public n.
    features : tuple of str
    target : str
    """

    frame: TableLike
    schema: Schema
    features: tuple[str, ...]
    target: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)


# --- tables with a target, and without ------------------------------------------------------------


def read_problem(
    estimator: BaseEstimator, X: Any, y: Any, bounds: object, target: Column | None
) -> Problem:
    """Table, schema and roles; the estimator remembers how many features it saw, and their names.

    ``target`` are public facts about the target that the estimator knows itself (classes).
    """
    if isinstance(y, str):
        problem = of_one_table(X, y, bounds, target)
        _remember(estimator, problem.features)
        return problem
    if isinstance(X, (str, Path)) or (X is not None and _out_of_memory(X)):
        fail("`y` must be the name of the target column when `X` is not in memory.")
    names = _text_names(X)
    if y is None:  # scikit-learn has the words for it
        validate_data(estimator, np.zeros((2, 1 if names is None else len(names))), y)
    if names is not None:
        features: dict[str, Any] = {name: X[name] for name in names}
        _remember(estimator, names)
        rows = public_rows(X)
        assert rows is not None
    else:
        columns, rows = _bare_table(estimator, _with_columns(X, bounds, target), bounds)
        features = {f"x{j}": column for j, column in enumerate(columns)}
    cells = target_cells(y)
    if len(getattr(y, "shape", ())) == 2:
        warnings.warn(_COLUMN_VECTOR, DataConversionWarning, stacklevel=4)
    if len(open_column(cells)) != rows:
        fail("`y` must have one entry for each row of `X`.", DimensionError)
    return of_arrays(features, cells, bounds, rows, target, named=names is not None)


def read_whole(estimator: BaseEstimator, X: Any, bounds: object) -> Problem:
    """The same for a table of which all columns are alike: the last stands for the target."""
    path, bare = isinstance(X, (str, Path)), isinstance(X, (np.ndarray, list, tuple))
    named = None if bare or path else named_columns(X)
    if isinstance(bounds, Schema):
        schema = bounds
        if isinstance(X, (list, tuple)):
            X = _listed(estimator, X, schema)
    else:
        if not path and named is None:
            columns, _ = _bare_table(estimator, X, bounds)
            X, bare = {f"x{j}": column for j, column in enumerate(columns)}, True
            named = list(X)
        rows = public_rows(X)
        if named is None or rows is None:
            fail("A path, a relation or a Spark frame needs a Schema as `bounds`.")
        schema = _stated(bounds, named[:-1], named[-1], rows, None)
    *features, last = schema
    _remember(estimator, [*features, last], named=not bare)  # an array has places, not names
    return Problem(X, schema, tuple(features), last)


def _listed(estimator: BaseEstimator, X: Sequence[Any], schema: Schema) -> dict[str, Any]:
    """The columns of a list of rows, in the order of the schema."""
    names = list(schema)
    table = np.empty((0, len(names))) if not X and _private_rows(schema) else X
    columns, _ = _bare_table(estimator, table, schema)
    if len(columns) != len(names):
        fail(
            f"`X` must have the {len(names)} columns of the schema, in its order. Got "
            f"{len(columns)}.",
            DimensionError,
        )
    return dict(zip(names, columns, strict=True))


def fitted_cells(
    estimator: BaseEstimator, X: Any, columns: Mapping[str, Column], *, unread: str | None = None
) -> FloatArray:
    """Rows for a fitted model, clamped and scaled to [-1, 1], codes for levels: (n, columns).

    A column ``unread`` may ride along; other columns may only where none is named so.
    """
    names, table = list(columns), _text_names(X)
    if table is None:
        bare, _ = _bare_table(estimator, X, None, reset=False)
        frame: Any = dict(zip(names, bare, strict=True))
    else:
        missing = [name for name in names if name not in table]
        if missing and (unread is None or isinstance(X, Mapping)):
            fail(f"The table has no column {missing[0]!r}.")
        if unread is not None and {*table} - {unread} != {*names}:
            validate_data(estimator, X, reset=False, skip_check_array=True)
        frame = X if public_rows(X) is None else {name: X[name] for name in names}
    # the bound on the rows plays no part: nothing is summed
    facts = Schema(columns, rows=2**30, neighbors=Neighbors.ADD_REMOVE, bits=_FINE)
    parts = [block.matrix(names) for block in blocks(frame, facts, names)]
    cells = np.concatenate([np.empty((0, len(names)), dtype=np.int64), *parts])
    return cells / [1.0 if isinstance(facts[name], Category) else 2.0**_FINE for name in names]


# --- what holds the rows --------------------------------------------------------------------------


def _remember(estimator: BaseEstimator, names: Sequence[str], *, named: bool = True) -> None:
    estimator.n_features_in_ = len(names)
    if named:
        estimator.feature_names_in_ = np.array(names, dtype=object)
    else:
        estimator.__dict__.pop("feature_names_in_", None)


def _private_rows(bounds: object) -> bool:
    """Whether the number of rows is private: tables with and without a row are neighbours."""
    return isinstance(bounds, Schema) and bounds.neighbors is not Neighbors.REPLACE_ONE


def _with_columns(X: Any, bounds: object, target: Column | None) -> Any:
    """A list of no rows, where that may be, with the columns that a row would have."""
    if not (isinstance(X, (list, tuple)) and not X and _private_rows(bounds)):
        return X
    assert isinstance(bounds, Schema)
    last, of_its_own = bounds[list(bounds)[-1]], getattr(target, "levels", None)
    ends_in_target = of_its_own is None or getattr(last, "levels", ()) == of_its_own
    return np.empty((0, len(list(bounds)) - ends_in_target))


def _bare_table(
    estimator: BaseEstimator, X: Any, bounds: object, *, reset: bool = True
) -> tuple[list[Any], int]:
    """Columns of a table without names, and its rows; scikit-learn checks the shape only."""
    if hasattr(X, "tocsr"):
        validate_data(estimator, X)  # says that it is sparse
    columns, rows = bare_columns(X)
    shape = np.broadcast_to(0.0, (rows, len(columns)))
    least = 0 if _private_rows(bounds) else 1  # an error would tell that nobody is there
    try:
        validate_data(
            estimator, shape, reset=reset, ensure_all_finite=False, ensure_min_samples=least
        )
    except ValueError as error:
        fail(str(error), DimensionError)  # in its words, and of our family
    return columns, rows


def _out_of_memory(X: Any) -> bool:
    sparse = hasattr(X, "tocsr")  # scikit-learn has the words for those
    return not sparse and public_rows(X) is None and named_columns(X) is not None


def _text_names(X: Any) -> list[str] | None:
    """Names of a frame in memory, or None for arrays."""
    if isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "tocsr"):
        return None
    return named_columns(X)


def named_columns(X: Any) -> list[str] | None:
    """The column names of a table whose names are all text, or None."""
    if isinstance(X, Mapping):
        names: Any = _columns_of(X)
    elif isinstance(X, np.ndarray):
        names = list(X.dtype.names or ())
    elif hasattr(X, "collect_schema"):  # polars, without reading a lazy frame
        names = list(X.collect_schema().names())
    else:
        names = getattr(X, "column_names", None)  # pyarrow
        if names is None:
            names = getattr(X, "columns", None)
        if names is None or callable(names):
            schema = getattr(X, "schema", None)  # a pyarrow dataset or reader
            names = getattr(schema, "names", None) or ()
        names = list(names)
    return names if names and all(isinstance(name, str) for name in names) else None


def _columns_of(X: Mapping[Any, Any]) -> list[Any]:
    names = list(X)  # a sparse array may be a mapping too, without a truth value
    if not names:
        fail("`X` must have at least one column. Got an empty mapping.")
    return names


def public_rows(X: Any) -> int | None:
    """The number of rows of a table in memory, or None if the engine would have to count them."""
    if isinstance(X, (str, Path)):
        return None
    if isinstance(X, Mapping):
        _columns_of(X)
        return len(next(iter(X.values())))
    if isinstance(X, np.ndarray) and X.ndim == 0:
        return None
    engine = type(X).__module__.split(".")[0].lstrip("_")
    if engine in ("duckdb", "pyspark") or not hasattr(X, "__len__"):
        return None
    return len(X)


def bare_columns(X: Any) -> tuple[list[Any], int]:
    """The columns of a table without names, and how many rows it has; no cell is converted.

    >>> columns, rows = bare_columns([[2**53 + 1, 0.5], [None, "a"]])
    >>> columns[0].tolist(), rows
    ([9007199254740993, None], 2)
    """
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        fail("Complex data not supported: `X` must be real.")
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(X.shape[1])], len(X)
    if isinstance(X, (list, tuple)):
        return _listed_columns(X), len(X)
    matrix = X if isinstance(X, np.ndarray) else as_objects(X)
    if matrix.ndim < 2:
        _refuse_axes(matrix.ndim)
    if matrix.ndim > 2:
        fail(f"Found array with dim {matrix.ndim}: `X` must have two axes.", DimensionError)
    return [matrix[:, j] for j in range(matrix.shape[1])], len(matrix)


def _listed_columns(rows: Sequence[Any]) -> list[Any]:
    """The columns of a list of rows; a cell that is a list itself is one cell."""
    listed = [_row(row) for row in rows]
    if not listed:
        _refuse_axes(1)
    if len({len(row) for row in listed}) > 1:
        fail("All rows of `X` must have the same length.", DimensionError)
    columns = zip(*listed, strict=True)
    return [np.fromiter(column, dtype=object, count=len(listed)) for column in columns]


def _row(row: object) -> Sequence[Any]:
    if isinstance(row, np.ndarray) and row.ndim == 1:
        return row.tolist()
    if not isinstance(row, Sequence) or isinstance(row, (str, bytes)):
        _refuse_axes(1)
    return row


def _refuse_axes(axes: int) -> NoReturn:
    fail(
        f"Expected 2D array, got {axes}D array instead. Reshape your data: "
        "X.reshape(-1, 1) is one column, X.reshape(1, -1) is one row.",
        DimensionError,
    )


def _only(cell: Any) -> Any:
    """A target that is a list of one is that one, whatever the other targets are."""
    return cell[0] if type(cell) in (list, tuple) and len(cell) == 1 else cell


def target_cells(y: Any) -> Any:
    """The column of targets; of a table of one column, as scikit-learn allows it, that column."""
    if getattr(getattr(y, "dtype", None), "kind", "") == "c":
        fail("Complex data not supported: `y` must be real.")
    axes: tuple[int, ...] = getattr(y, "shape", (0,))
    if isinstance(y, (list, tuple)):
        return [*map(_only, y)]
    if len(axes) == 1:
        return y
    if len(axes) != 2 or axes[1] != 1:
        fail("`y` should be a 1d array: one column.", DimensionError)
    if {package for package, _ in libraries(y)} & {"narwhals", "polars", "pyarrow"}:
        return y[named_columns(y)[0]]  # type: ignore[index]  # their arrays have one type for all
    return bare_columns(y)[0][0]


# --- public facts and roles -----------------------------------------------------------------------


def of_one_table(X: Any, target: str, bounds: object, target_column: Column | None) -> Problem:
    """The problem of one table that holds the features and the named target."""
    present = named_columns(X)
    if isinstance(bounds, Schema):
        names = [name for name in bounds if name != target]
        if target not in bounds.columns and target_column is None:
            fail(f"The schema has no column {target!r}, the target: add it.")
        _check_features(names, present)
        schema = _with_target(bounds, names, target, target_column)
    else:
        rows = public_rows(X)
        if present is None or rows is None:
            fail(
                "A path, a relation or a Spark frame needs a Schema as `bounds`: it names the "
                "columns and states the public number of rows."
            )
        names = [name for name in present if name != target]
        if target not in present:
            fail(f"`y` names the column {target!r}, which the table does not have.")
        schema = _stated(bounds, names, target, rows, target_column)
    return Problem(X, schema, tuple(names), target)


def _check_features(names: Sequence[str], present: Sequence[str] | None) -> None:
    """Say how to leave a column out, unless the name of one looks misspelt."""
    for name in names:
        if present and name not in present and not difflib.get_close_matches(name, present, n=1):
            fail(
                f"The table has no column {name!r}, which the schema makes a feature: with "
                "`bounds=schema.only([...])` a model has some of the columns."
            )


def of_arrays(
    columns: Mapping[str, Any],
    y: object,
    bounds: object,
    rows: int,
    target_column: Column | None,
    *,
    named: bool,
) -> Problem:
    """The problem of features by name and a target of its own."""
    names = list(columns)
    if isinstance(bounds, Schema):
        target, names_in = _roles(bounds, names, _name_of(y), target_column, named=named)
        columns = dict(zip(names_in, columns.values(), strict=True))
        names = names_in
        schema = _with_target(bounds, names, target, target_column)
    else:
        target = _free_name(_name_of(y) or "y", names)
        schema = _stated(bounds, names, target, rows, target_column)
    return Problem({**columns, target: y}, schema, tuple(names), target)


def _stated(
    bounds: Any, names: Sequence[str], target: str, rows: int, target_column: Column | None
) -> Schema:
    """A schema from a pair, or from a list of pairs for the features and then the target."""
    wanted = len(names) + (target_column is None)
    if bounds is None:
        fail("`bounds` are needed. " + BOUNDS_HELP)
    if _is_pair(bounds) or isinstance(bounds, (Interval, Category)):
        pairs = [bounds] * wanted
    else:
        try:
            pairs = list(bounds)
        except TypeError:
            fail(BOUNDS_HELP + f" Got {type(bounds).__name__}.")
        if len(pairs) != wanted:
            then = ", then the target" if target_column is None else ""
            fail(
                f"`bounds` must hold {wanted} pairs: the {len(names)} features{then}. "
                f"Got {len(pairs)}.",
                DimensionError,
            )
    labels = [*names, target][:wanted]
    columns: dict[str, Column] = {
        label: _interval(label, pair) for label, pair in zip(labels, pairs, strict=True)
    }
    if target_column is not None:
        columns[target] = target_column
    return Schema(columns, rows=rows)


def _is_pair(bounds: Any) -> bool:
    if isinstance(bounds, (str, bytes)) or not hasattr(bounds, "__len__") or len(bounds) != 2:
        return False
    return all(isinstance(end, numbers.Real) for end in bounds)


def _interval(name: str, pair: Any) -> Column:
    if isinstance(pair, (Interval, Category)):
        return pair
    if not _is_pair(pair):
        fail(f"The bounds of column {name!r} must be a pair (low, high). {BOUNDS_HELP}")
    low, high = (float(end) for end in pair)
    if not low < high:
        fail(f"The bounds of column {name!r} must satisfy low < high. Got ({low:g}, {high:g}).")
    return Interval(low, high)


def _with_target(
    schema: Schema, names: Sequence[str], target: str, target_column: Column | None
) -> Schema:
    """The same facts for these columns."""
    columns = schema.select(names)
    if not columns:
        fail("There is no feature: the schema names the target only.")
    columns[target] = schema[target] if target_column is None else target_column
    return Schema(
        columns,
        rows=schema.rows,
        neighbors=schema.neighbors,
        bits=schema.bits,
        person=schema.person,
        rows_per_person=schema.rows_per_person,
    )


def _roles(
    schema: Schema,
    names: list[str],
    label: str | None,
    target_column: Column | None,
    *,
    named: bool,
) -> tuple[str, list[str]]:
    """Target and features: by name where the table has names, else in the schema's order."""
    known = list(schema)
    if named:
        for name in names:
            if name not in schema.columns:
                fail(f"The schema has no column {name!r}: select the columns that it describes.")
        rest = [name for name in known if name not in names]
        if label in rest or (target_column is not None and label is not None):
            return str(label), names
        if target_column is not None:
            return _free_name("y", names), names
        if len(rest) != 1:
            fail(
                "The target must be the one column of the schema that `X` does not have, or `y` "
                f"must carry its name. Left over: {', '.join(rest) or 'none'}."
            )
        return rest[0], names
    features = known if target_column is not None and len(known) == len(names) else known[:-1]
    if len(features) != len(names):
        fail(
            f"The schema must describe the {len(names)} columns of `X` and then the target. "
            f"Got {len(known)} columns.",
            DimensionError,
        )
    return (known[-1] if len(features) < len(known) else _free_name("y", features)), features


def _name_of(y: object) -> str | None:
    name = getattr(y, "name", None)
    return name if isinstance(name, str) and name else None


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
