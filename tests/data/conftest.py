"""Every engine for the tests that ask for one, and one local Spark session for the whole run.

The helpers of this folder are importable, here and in the workers of Spark. Tests that need Spark
are skipped without Java.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with ``to_engine`` runs on all of them."""
    if "to_engine" in metafunc.fixturenames:
        from engine_tables import ENGINES  # by those who use it: it needs all engines

        metafunc.parametrize("to_engine", ENGINES, indirect=True)


@pytest.fixture
def to_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function from an Arrow table to the same table on an engine."""
    from engine_tables import ENGINES

    build = ENGINES[request.param]

    def make(table: Any) -> Any:
        return build(table, tmp_path)

    make.kind = request.param  # type: ignore[attr-defined]
    return make


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs Spark is in a class ``TestSpark``, and so in one process of the run."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) and "::TestSpark::" not in item.nodeid:
            raise pytest.UsageError(f"{item.nodeid} needs Spark: put it into a class TestSpark.")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session on two cores of this machine, with no network but the loopback."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Java is not installed")
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [HERE, os.environ.get("PYTHONPATH")]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        yield session
        session.stop()
