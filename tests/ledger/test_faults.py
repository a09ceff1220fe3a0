"""Disks that are full, files that are gone, damaged, locked or linked, and forks: no release."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

from tightdp.errors import BurnedError, LedgerError, ParameterError
from tightdp.ledger import Ledger, charges, files, store
from tightdp.privacy import Guarantee

TENTH = Fraction(1, 10)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def path(tmp_path):
    """A file ledger with one stored release, closed."""
    place = tmp_path / "ledger.db"
    with Ledger(1, path=place) as ledger:
        ledger.store(ledger.spend(TENTH, key="k"), {"value": 1})
    return place


def in_child(task) -> str:
    """What a forked child says."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = str(task())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


# --- disks --------------------------------------------------------------------------------------


def test_a_full_disk_at_a_spend_costs_and_releases_nothing(path):
    ledger = Ledger.open(path)
    connection = ledger._store._connection
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match=r"disk is full.*Nothing may be released"):
        [ledger.spend(Fraction(1, 1000), label="x" * 1000) for _ in range(20)]
    spent = ledger.spent
    ledger.verify()
    connection.execute("PRAGMA max_page_count = 1000000")
    ledger.spend(TENTH)
    assert ledger.spent.epsilon == spent.epsilon + TENTH


def test_a_full_disk_at_the_store_burns_the_budget(path):
    ledger = Ledger.open(path)
    connection = ledger._store._connection
    charge = ledger.charge(Guarantee(epsilon=0.5), key="big").__enter__()
    ((pages,),) = connection.execute("PRAGMA page_count").fetchall()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="disk is full") as failure:
        charge.store({"value": "x" * 100_000})
    charge.__exit__(failure.type, failure.value, None)
    assert ledger.spent.epsilon == Fraction(3, 5)
    with pytest.raises(BurnedError):  # the note of the burn still fits on a page
        ledger.find("big")


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 200 KiB, where one may be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(folder)]
    if not shutil.which("mount") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_small_disk_fills_up_without_a_wrong_release(small_disk, monkeypatch):
    monkeypatch.setattr("tightdp.ledger.files._ROOM", 0)  # no reserve: the disk fills on the way
    ledger = Ledger(1000, path=small_disk / "ledger.db")
    published = []

    def release(i: int) -> None:
        receipt = ledger.spend(1, key=f"k{i}")
        ledger.store(receipt, {"value": i})
        published.append(receipt)

    with pytest.raises(LedgerError, match=r"disk is full|not read or write reliably"):
        [release(i) for i in range(1000)]
    assert len(published) > 3
    ledger.verify(*published)
    assert ledger.spent.epsilon in (len(published), len(published) + 1)
    for i, _ in enumerate(published):
        assert ledger.find(f"k{i}") == {"value": i}
    ledger.close()


def test_a_disk_without_room_for_a_ledger_keeps_no_half_of_it(small_disk):
    (small_disk / "ballast").write_bytes(b"x" * 180 * 1024)
    with pytest.raises(LedgerError):
        Ledger(1, path=small_disk / "ledger.db")
    assert [name.name for name in small_disk.iterdir()] == ["ballast"]


@pytest.mark.parametrize("step", ["use_log", "build"])
def test_a_failed_creation_leaves_nothing(tmp_path, monkeypatch, step):
    def break_down(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(store, step, break_down)
    with pytest.raises(LedgerError, match="disk I/O error"):
        Ledger(1, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_a_ledger_made_at_the_same_time_is_not_overwritten(tmp_path, monkeypatch):
    place, made = tmp_path / "ledger.db", store.make_file

    def overtaken(*given):
        monkeypatch.setattr(store, "make_file", made)
        with Ledger(2, path=place) as winner:
            winner.spend(1)
        made(*given)

    monkeypatch.setattr(store, "make_file", overtaken)
    with pytest.raises(LedgerError, match="made with epsilon = 2"):
        Ledger(1, path=place)
    with Ledger.open(place) as ledger:
        assert ledger.spent.epsilon == 1
    assert [name.name for name in tmp_path.iterdir()] == ["ledger.db"]


# --- permissions and places -----------------------------------------------------------------------


def as_nobody(path: Path) -> str:
    """What a user without rights gets."""

    def child() -> str:
        if os.getuid() == 0:
            os.setuid(65534)
        with Ledger(1, path=path) as ledger:
            ledger.spend(0.25)
        return "spent"

    return in_child(child)


@pytest.fixture
def open_folder():
    """A folder that everybody may enter."""
    folder = Path("/tmp") / f"tightdp-{os.getpid()}-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_read_only_file_or_folder_is_refused(open_folder):
    path = open_folder / "ledger.db"
    Ledger(1, path=path).close()
    path.chmod(0o444)
    open_folder.chmod(0o555)
    says = as_nobody(path)
    assert says.startswith("LedgerError")
    assert "cannot be" in says
    assert "Nothing may be released" in says
    assert "could not be made: Permission denied" in as_nobody(open_folder / "new.db")
    assert [name.name for name in open_folder.iterdir()] == ["ledger.db"]
    open_folder.chmod(0o777)
    assert "cannot be" in as_nobody(path)
    path.chmod(0o666)
    assert as_nobody(path) == "spent"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_network_mounts_are_refused(tmp_path, monkeypatch, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / {tmp_path} rw shared:1 - {kind} b rw")
    monkeypatch.setattr(files, "_MOUNTS", mounts)
    with pytest.raises(LedgerError, match=f"local file system. Got .* on '{kind}'"):
        Ledger(1, path=tmp_path / "ledger.db")
    mounts.write_text(mounts.read_text().replace(kind, "ext4"))
    Ledger(1, path=tmp_path / "ledger.db").close()


def test_a_file_system_without_the_log_is_refused(tmp_path, monkeypatch):
    class Stubborn(sqlite3.Connection):
        def execute(self, sql, *given):  # type: ignore[no-untyped-def]
            return super().execute("SELECT 'delete'" if "= WAL" in sql else sql, *given)

    connect = sqlite3.connect
    monkeypatch.setattr(
        store.sqlite3, "connect", lambda *a, **k: connect(*a, factory=Stubborn, **k)
    )
    with pytest.raises(LedgerError, match="gives journal mode 'delete'"):
        Ledger(1, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_every_commit_is_synchronised(path):
    with Ledger.open(path) as ledger:
        connection = ledger._store._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_bad_path_is_refused(tmp_path):
    for place, named in (
        (tmp_path / "no" / "ledger.db", "existing folder"),
        (tmp_path, "must name a file"),
        (7, "must be a path"),
    ):
        with pytest.raises(ParameterError, match=named):
            Ledger(1, path=place)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="which is not there"):
        Ledger.open(tmp_path / "ledger.db")


# --- damaged, moved and linked files --------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"not a database, but long enough" * 100, b"SQLite format 3"]
)
def test_another_file_is_not_a_ledger_and_is_left_alone(tmp_path, content):
    place = tmp_path / "ledger.db"
    place.write_bytes(content)
    for make in (lambda: Ledger(1, path=place), lambda: Ledger.open(place)):
        with pytest.raises(LedgerError):
            make()
    assert place.read_bytes() == content


def test_another_database_is_not_a_ledger(tmp_path):
    place = tmp_path / "other.db"
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE entries (number INTEGER)")
    connection.close()
    with pytest.raises(LedgerError, match="is not a ledger"):
        Ledger(1, path=place)


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_refused(path, keep):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(LedgerError), Ledger.open(path) as ledger:
        ledger.verify()


def test_no_flipped_bit_goes_unseen(path, seed):
    import random

    draw, whole, quiet = random.Random(seed), path.read_bytes(), 0
    with Ledger.open(path) as ledger:
        told = (ledger.head, ledger.spent, ledger.find("k"), ledger.caps)
    for _ in range(60):
        spoilt = bytearray(whole)
        spoilt[draw.randrange(100, len(spoilt))] ^= 1 << draw.randrange(8)
        path.write_bytes(spoilt)
        try:
            with Ledger.open(path) as ledger:
                ledger.verify()
                assert (ledger.head, ledger.spent, ledger.find("k"), ledger.caps) == told
                quiet += 1  # a bit of an unused part of a page
        except LedgerError:
            pass
    assert quiet < 60


def copy_while_open(path: Path, target: Path) -> Path:
    """The files of a ledger that a killed process leaves: with a log that was not merged."""
    for name in path.parent.glob("ledger.db*"):
        shutil.copy(name, target / name.name)
    return target / path.name


def test_a_truncated_log_loses_spends_and_the_receipts_show_it(path, tmp_path):
    left = tmp_path / "left"
    left.mkdir()
    with Ledger.open(path) as ledger:
        receipts = [ledger.spend(TENTH) for _ in range(3)]
        copied = copy_while_open(path, left)
    log = copied.with_name("ledger.db-wal")
    with Ledger.open(copied) as whole:
        whole.verify(*receipts)
        whole_log = log.read_bytes()
        half = tmp_path / "half"
        half.mkdir()
        cut = copy_while_open(copied, half)
    cut.with_name("ledger.db-wal").write_bytes(whole_log[: len(whole_log) // 2])
    cut.with_name("ledger.db-shm").unlink()
    with Ledger.open(cut) as ledger:
        ledger.verify()
        with pytest.raises(LedgerError, match="of a receipt is missing"):
            ledger.verify(*receipts)


def test_a_deleted_index_is_rebuilt_when_nobody_uses_it(path, tmp_path):
    left = tmp_path / "left"
    left.mkdir()
    with Ledger.open(path) as ledger:
        receipt = ledger.spend(TENTH)
        copied = copy_while_open(path, left)
    copied.with_name("ledger.db-shm").unlink()
    with Ledger.open(copied) as again:
        again.verify(receipt)


@pytest.mark.parametrize("ending", ["-shm", "-wal", ""])
def test_a_file_deleted_while_open_stops_everything(path, ending):
    ledger = Ledger.open(path)
    path.with_name(path.name + ending).unlink()
    with pytest.raises(LedgerError, match="deleted"):
        ledger.spend(TENTH)
    with pytest.raises(LedgerError, match="deleted"):
        ledger.find("k")


def test_a_new_ledger_is_not_mixed_with_the_log_of_a_lost_one(path):
    ledger = Ledger.open(path)
    ledger.spend(TENTH)
    path.unlink()
    with pytest.raises(LedgerError, match=r"is gone, its log ledger.db-wal is still there"):
        Ledger(1, path=path)
    assert not path.exists()


def test_other_programs_cannot_write_spends(path):
    other = sqlite3.connect(path, isolation_level=None)
    head = other.execute("SELECT hash FROM entries ORDER BY number DESC LIMIT 1").fetchone()[0]
    amounts = ", ".join(["'0/1'"] * 8)
    values = f"4, 'spend', '', 'x', NULL, NULL, NULL, {amounts}, '{{}}', '{head}', '{head}'"
    with pytest.raises(sqlite3.OperationalError, match="no such function"):
        other.execute(f"INSERT INTO entries VALUES ({values})")
    other.close()


def test_a_file_replaced_while_open_stops_everything(path, tmp_path):
    old = tmp_path / "old"
    shutil.copy(path, old)
    ledger = Ledger.open(path)
    ledger.spend(TENTH)
    os.replace(old, path)
    with pytest.raises(LedgerError, match="deleted or replaced"):
        ledger.spend(TENTH)


def test_entries_undone_while_open_are_noticed(path):
    ledger = Ledger.open(path)
    ledger.spend(TENTH)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("DROP TRIGGER entries_are_not_deleted")
    other.execute("DELETE FROM entries WHERE number = 4")
    other.close()
    with pytest.raises(LedgerError, match="went back in time"):
        ledger.spend(TENTH)


def test_a_second_name_is_refused_and_a_draft_of_a_killed_maker_is_removed(path):
    draft = path.with_name(".ledger.db.0123.new")
    os.link(path, draft)
    Ledger.open(path).close()
    assert not draft.exists()
    os.link(path, path.with_name("alias.db"))
    for name in ("ledger.db", "alias.db"):
        with pytest.raises(LedgerError, match="more than one name"):
            Ledger.open(path.with_name(name))
    path.with_name("alias.db").unlink()
    path.with_name("soft.db").symlink_to(path)
    with Ledger.open(path.with_name("soft.db")) as ledger:
        assert ledger.path == path


def test_a_locked_ledger_is_a_clean_refusal(path):
    ledger = Ledger.open(path, timeout=0.1)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="another process keeps it locked"):
        ledger.spend(TENTH)
    assert ledger.find("k") == {"value": 1}  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    ledger.spend(TENTH)


# --- forks and owners -----------------------------------------------------------------------------


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("kind", "named"), [("memory", "belongs to one process"), ("file", "Ledger.open('")]
)
def test_a_fork_cannot_spend_the_same_budget_again(path, kind, named):
    ledger = Ledger(1) if kind == "memory" else Ledger.open(path)
    receipt = ledger.spend(TENTH)
    for task in (
        lambda: ledger.spend(TENTH),
        lambda: ledger.store(receipt, {}),
        lambda: ledger.find("k"),
        lambda: ledger.spent,
        lambda: ledger.verify(),
    ):
        said = in_child(task)
        assert said.startswith("LedgerError: This ledger was opened by another process")
        assert named in said
    ledger.store(receipt, {})
    ledger.verify(receipt)


@needs_fork
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_may_open_the_file_itself_and_leaves_the_parent_alone(path):
    ledger = Ledger.open(path)

    def child() -> str:
        ledger.close()  # does not touch the parent's connection
        with Ledger.open(path) as own:
            return str(own.spend(TENTH).entry.counter)

    assert in_child(child) == "4"
    assert ledger.spend(TENTH).entry.counter == 5
    ledger.verify()


def test_the_dead_are_told_from_the_living():
    assert charges.is_alive(charges.this_process())
    node, pid, start = charges.this_process().rsplit("/", 2)
    assert charges.is_alive(f"elsewhere/{pid}/{start}")
    assert not charges.is_alive("nonsense")
    gone = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = f"{node}/{gone.pid}/{charges._facts(gone.pid)[1]}"
    assert charges.is_alive(name)
    gone.send_signal(signal.SIGKILL)
    gone.communicate()
    assert not charges.is_alive(name)
    if start:
        assert not charges.is_alive(f"{node}/{pid}/{int(start) + 1}")
