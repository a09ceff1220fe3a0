"""Seeds for the whole suite: one by default, a sweep on request.

``TIGHTDP_SEED=7`` runs every statistical test with seed 7, ``TIGHTDP_SEED=0-99`` with each of the
seeds 0 to 99. Without the variable the suite is deterministic.

``@pytest.mark.slow_for("*-400", "hull")`` leaves the named cases of a test to ``make slow``.

One local session of Spark serves the whole run. Tests that need it are skipped without Java.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import warnings
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

DEFAULT_SEED = 1729
# files whose tests share what takes long to make
TOGETHER = ("house/test_site.py", "noise/test_ranking.py")
# folders whose helpers the workers of Spark import
HELPERS = [str(Path(__file__).parent / folder) for folder in ("data", "laws")]


def requested_seeds(text: str | None) -> list[int]:
    """The seeds named by ``"7"`` or ``"0-99"``; the default one for None or an empty text."""
    if not text:
        return [DEFAULT_SEED]
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


SEEDS = requested_seeds(os.environ.get("TIGHTDP_SEED"))

settings.register_profile("one-seed", deadline=None, derandomize=True)
settings.register_profile("sweep", deadline=None)
settings.load_profile("sweep" if "TIGHTDP_SEED" in os.environ else "one-seed")


@pytest.fixture(scope="session", params=SEEDS, ids=lambda seed: f"seed={seed}")
def seed(request: pytest.FixtureRequest) -> int:
    """Seed of a statistical test."""
    return int(request.param)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Tests go one by one to whoever is free; those in a class ``TestSpark`` to one process, and
    those of a file in ``TOGETHER`` to one.

    One session of Spark is enough, and one site. The mark ``xdist_group`` would say the same, but
    pytest 9.2 has taken away the way in which pytest-xdist 3.8 passes it on, without a word.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class OneSpark(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if "::TestSpark::" in nodeid:
                return "spark"
            file = nodeid.partition("::")[0]
            return file if file.endswith(TOGETHER) else nodeid

        def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
            """What is done is forgotten: otherwise all of it is counted again after every test."""
            super().mark_test_complete(node, item_index, duration)
            work = self.assigned_work[node]
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(work[scope].values()):
                del work[scope]

    return OneSpark(config, log)


def pytest_collection_finish() -> None:
    """The tests are here to stay: the collector of garbage need not look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before the expression of -m is asked
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The cases that a test is slow for are marked; what needs Spark is in a class ``TestSpark``.

    A case is named as between the brackets of its test, without the seed; ``*`` and ``?`` stand
    for anything. A name without a case is an error, for the case may have been renamed.
    """
    names: dict[tuple[str, str], bool] = {}
    for item in items:
        case = item.name.partition("[")[2].removesuffix("]")
        case = re.sub("^seed=[0-9]+-", "", case)
        for mark in item.iter_markers("slow_for"):
            for name in mark.args:
                key = (item.nodeid.partition("[")[0], name)
                names[key] = names.get(key, False) or fnmatchcase(case, name)
            if any(fnmatchcase(case, name) for name in mark.args):
                item.add_marker(pytest.mark.slow)
    if not any("::" in word for word in config.args):  # all cases of the tests are here
        lost = [f"{test}: {name}" for (test, name), found in names.items() if not found]
        if lost:
            raise pytest.UsageError(f"slow_for names no case: {'; '.join(lost)}")
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
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [*HELPERS, os.environ.get("PYTHONPATH")])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Spark's own
        session = (
            sql.SparkSession.builder.master("local[2]")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            # one compiler and one collector: the session is short, and the tests need the cores
            .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "3")
            .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
            .getOrCreate()
        )
        yield session
        session.stop()
