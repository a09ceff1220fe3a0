"""Forms of numpy, pandas and Arrow: every type is read by the same rules."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tightdp.data.columns import array_cells
from tightdp.data.one_pass import quantized_matrix
from tightdp.schema import Category, Interval, Schema

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")


NAN, INF = math.nan, math.inf


# --- forms of numpy ------------------------------------------------------------------------------


def test_forms_of_numpy():
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 2], other=1)}, rows=2, bits=1)
    want = [[-1, 0], [1, 1]]
    forms = [
        np.array([[1.0, 1], [3, 2]]),
        np.array([[1, 1], [3, 2]], dtype=np.int8),
        np.array([[1, "1"], [3, "2"]], dtype=object),
        np.array([["1", "1"], ["3.0", "2"]]),
        np.array([(1.0, 1), (3.0, 2)], dtype=[("x", np.float16), ("k", np.uint8)]),
        {"x": np.array([1, 3], dtype=np.longdouble), "k": (True, 2.0)},
        {"x": np.ma.array([1, 3]), "k": np.ma.array([7, 2], mask=[True, False])},
    ]
    for form in forms:
        assert quantized_matrix(form, schema, ["x", "k"]).tolist() == want
    one = Schema({"x": Interval(0, 4)}, rows=2, bits=1)
    masked = np.ma.array([0, 4.0], mask=[True, False])
    assert quantized_matrix(masked, one, ["x"]).tolist() == [[0], [2]]
    assert quantized_matrix(np.array([0, 4.0]), one, ["x"]).tolist() == [[-2], [2]]


def test_integers_of_many_bits():
    schema = Schema(
        {"x": Interval(0, 2.0**128), "k": Category([1, 2**127 - 1], other=1)}, rows=1, bits=16
    )
    number = 2**127 - 1
    frames = [
        {"x": [number], "k": [number]},
        pl.DataFrame({"x": [number], "k": [number]}, schema={"x": pl.Int128, "k": pl.Int128}),
        duckdb.sql(f"SELECT {number}::HUGEINT AS x, {number}::UHUGEINT AS k"),
    ]
    for frame in frames:
        assert quantized_matrix(frame, schema, ["x", "k"]).tolist() == [[0, 1]]
    unsigned = Schema(
        {"x": Interval(0, 2.0**64), "k": Category([0, 2**64 - 1], other=0)}, rows=1, bits=16
    )
    column = np.array([2**64 - 1, 5], dtype=np.uint64)
    want = [[2**16, 1], [-(2**16), 0]]
    for frame in ({"x": column, "k": column}, pl.DataFrame({"x": column, "k": column})):
        assert quantized_matrix(frame, unsigned, ["x", "k"]).tolist() == want


def test_objects_that_are_no_numbers_are_missing():
    odd = [
        object(), b"1", [1], {"a": 1}, datetime.date(2020, 1, 1), np.timedelta64(1, "ns"), 1j,
        np.datetime64("2020"), Decimal("sNaN"), pd.NA, pd.NaT, Decimal("1e999999"), 10**5000,
        Fraction(1, 2), np.float32(0.5), np.True_,
    ]  # fmt: skip
    cells = array_cells(np.fromiter(odd, dtype=object, count=len(odd)))
    numbers = cells.numbers()
    assert np.isnan(numbers[:11]).all()
    assert numbers[11:].tolist() == [INF, INF, 0.5, 0.5, 1.0]
    codes = cells.codes(Category([9, 1, 0.5], other=9))
    assert codes.tolist() == [0] * 13 + [2, 2, 1]
    assert (cells.keys()[:11][[0, 2, 3, 4, 5, 6, 7, 8, 9, 10]] == -1).all()


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
def test_other_arrow_types():
    kinds = [pa.float16(), pa.int8(), pa.uint32(), pa.decimal32(5, 1), pa.decimal64(9, 2)]
    kinds += [pa.decimal256(40, 3), pa.large_string(), pa.string_view()]
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 3], other=1)}, rows=3, bits=1)
    for kind in kinds:
        text = pa.types.is_large_string(kind) or kind == pa.string_view()
        cells = ["1", "3", None] if text else [1, 3, None]
        if pa.types.is_float16(kind):
            cells = [np.float16(1), np.float16(3), None]
        if pa.types.is_decimal(kind):
            cells = [Decimal(1), Decimal(3), None]
        array = pa.array(cells, type=kind)
        table = pa.table({"x": array, "k": array})
        want = [[-1, 0], [1, 1], [0, 0]]
        assert quantized_matrix(table, schema, ["x", "k"]).tolist() == want, kind
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], [1.0, 3.0])
    assert quantized_matrix(pa.table({"x": runs}), schema, ["x"]).tolist() == [[-1], [-1], [1]]
    table = pa.table({"x": [1.0, 3.0]})
    assert quantized_matrix(table.to_batches()[0], schema, ["x"]).tolist() == [[-1], [1]]

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    assert quantized_matrix(Stream(), schema, ["x"]).tolist() == [[-1], [1]]


def test_pandas_types():
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 3], other=1)}, rows=3, bits=1)
    kinds = ["Int8", "UInt64", "Float32", "int64[pyarrow]", "string", "str", "category", object]
    for kind in kinds:
        frame = pd.DataFrame({"x": pd.Series([1, 3, None], dtype="Int64").astype(kind)})
        frame["k"] = frame["x"]
        assert quantized_matrix(frame, schema, ["x", "k"]).tolist() == [[-1, 0], [1, 1], [0, 0]]
    sparse = pd.DataFrame({"x": pd.arrays.SparseArray([1.0, 3.0, NAN])}, index=[7, 7, 7])
    assert quantized_matrix(sparse, schema, ["x"]).tolist() == [[-1], [1], [0]]
