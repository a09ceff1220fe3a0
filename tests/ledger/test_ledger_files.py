"""What a ledger shows and what a file of it keeps: terms, rows, damage and receipts."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
from fractions import Fraction

import pytest

from tightdp.cli import main
from tightdp.errors import LedgerError
from tightdp.ledger import Budget, Ledger

TENTH = Fraction(1, 10)


# --- looking and life -----------------------------------------------------------------------------


def test_tables_show_the_latest_and_escape_html(place):
    ledger = Ledger(10, path=place)
    for i in range(12):
        receipt = ledger.spend(TENTH, key=f"<k{i}>", label="<b>\nbold")
        ledger.store(receipt, {"value": i})
    text, page = str(ledger), ledger._repr_html_()
    assert "remaining  epsilon = 8.8" in text
    assert "... and 2 earlier" in text
    assert "<k11>" in text
    assert "<k1>" not in text
    assert "<b>" not in page
    assert "&lt;k11&gt;" in page
    assert repr(ledger).startswith("<Ledger")
    assert len(ledger.history()) == 12


def test_a_file_remembers_and_its_terms_cannot_change(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger(1, 1e-6, path=path) as ledger:
        receipt = ledger.store(ledger.spend(TENTH, key="k"), {"value": 1})
        head, identity = ledger.head, ledger.identity
    with Ledger(1.0, Fraction(1, 10**6), path=str(path)) as again:
        assert (again.head, again.identity, again.find("k")) == (head, identity, receipt)
    for other in (
        {"epsilon": 2, "delta": 1e-6},
        {"epsilon": 1},
        {"epsilon": 1, "delta": 1e-6, "neighbors": "add-remove"},
        {"epsilon": 1, "delta": 1e-6, "allow_seeded": True},
    ):
        with pytest.raises(LedgerError, match=r"made with epsilon = 1,.*asked for were epsilon ="):
            Ledger(path=path, **other)
    with Ledger.open(path) as opened:
        assert opened.caps.epsilon == 1


def test_a_ledger_is_not_copied_and_ends():
    ledger = Ledger(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match=r"in memory cannot be pickled.*n_jobs.*`path=`"):
            copied(ledger)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.spend(TENTH)


def test_a_copy_of_a_ledger_in_a_file_spends_the_same_budget(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = Ledger(1, path=path)
    sent = pickle.dumps(ledger)
    for other in (copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(sent)):
        other.spend(Fraction(1, 4))
        other.close()
    assert ledger.spent.epsilon == Fraction(3, 4)
    looking = copy.copy(Ledger.open(path, read_only=True))
    with pytest.raises(LedgerError, match="read only"):
        looking.spend(TENTH)
    looking.close()
    ledger.close()
    for name in tmp_path.iterdir():
        name.unlink()
    Ledger(1, path=path).close()  # another ledger in its place would pay a second time
    with pytest.raises(LedgerError, match="holds another ledger"):
        pickle.loads(sent)


def test_a_ledger_that_was_put_back_does_not_come_out_of_a_pickle(tmp_path):
    """The old copy has the same identity: what was spent since would be spent again."""
    path, kept = tmp_path / "ledger.db", tmp_path / "old.db"
    Ledger(1, path=path).close()
    kept.write_bytes(path.read_bytes())
    with Ledger.open(path) as ledger:
        ledger.spend(TENTH)
        sent = pickle.dumps(ledger)
    path.write_bytes(kept.read_bytes())
    with pytest.raises(LedgerError, match="went back in time: entry 2"):
        pickle.loads(sent)


def test_rows_cannot_be_changed_deleted_or_replaced(place):
    ledger = Ledger(1, path=place)
    ledger.store(ledger.spend(TENTH, key="k"), {})
    connection = ledger._store._connection
    columns = "number, kind, time, key, ends, partition, cell, epsilon, delta, cell_epsilon, "
    columns += "cell_delta, partition_epsilon, partition_delta, total_epsilon, total_delta, body, "
    row = f"SELECT {{}}, {columns.split(', ', 1)[1]} {{}}, hash FROM entries WHERE number = {{}}"
    last = f"'{ledger.head.hash}'"
    for statement in (
        "UPDATE entries SET epsilon = '0/1' WHERE number = 2",
        "DELETE FROM entries WHERE number = 2",
        f"INSERT OR REPLACE INTO entries {row.format(2, 'previous', 2)}",
        f"INSERT OR REPLACE INTO entries {row.format(4, last, 2)}",
        f"INSERT OR REPLACE INTO entries {row.format(4, last, 3)}",
        f"INSERT INTO entries {row.format(9, last, 3)}",
        f"INSERT INTO entries {row.format(4, 'previous', 3)}",
    ):
        with pytest.raises(sqlite3.IntegrityError, match=r"never|nothing is|follow"):
            connection.execute(statement)
    ledger.verify()


def test_a_total_above_the_cap_cannot_be_written(place):
    ledger = Ledger(1, path=place)
    with pytest.raises(LedgerError, match="an entry was refused"), ledger._store.write() as change:
        change.append("spend", "", {}, amounts={"total": Budget(Fraction(11, 10))})
    assert ledger.head.counter == 1


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        ("UPDATE entries SET epsilon = '1/20' WHERE number = 2", "entry 2: its hash"),
        ("UPDATE entries SET body = '{}' WHERE number = 3", "entry 3: its hash"),
        ("DELETE FROM entries WHERE number = 3", "entry 4: it does not follow"),
    ],
)
def test_verify_names_a_changed_row(tmp_path, damage, named):
    ledger = spoilt(tmp_path, damage, read_only=True)
    with pytest.raises(LedgerError, match=f"does not verify: {named}"):
        ledger.verify()


@pytest.mark.parametrize("damage", ["total_epsilon = '1/10'", "body = '{}'", "cell_delta = x'00'"])
def test_nothing_is_decided_by_a_damaged_entry(tmp_path, damage):
    with pytest.raises(LedgerError, match=r"Entry 4 .* was changed|failed"):
        spoilt(tmp_path, f"UPDATE entries SET {damage} WHERE number = 4")


def test_a_damaged_release_is_not_given_out(tmp_path):
    forged = """{"record":{"value":2}}"""
    ledger = spoilt(tmp_path, f"UPDATE entries SET body = '{forged}' WHERE number = 3")
    with pytest.raises(LedgerError, match="Entry 3 of the ledger was changed"):
        ledger.find("k")


def test_verify_finds_wrong_sums_in_an_unbroken_chain(tmp_path):
    """Whoever forges a row and all hashes after it still has to get the sums right."""
    ledger = Ledger(1, path=tmp_path / "ledger.db")
    ledger.spend(TENTH)
    with ledger._store.write() as change:
        body = change.last().facts()
        amounts = {"": Budget(TENTH), "total": Budget(TENTH)}
        change.append("spend", "", body, amounts=amounts)
    with pytest.raises(LedgerError, match="entry 3: its totals are wrong"):
        ledger.verify()


def test_verify_finds_a_missing_trigger(tmp_path):
    ledger = Ledger(1, path=tmp_path / "ledger.db")
    ledger._store._connection.execute("DROP TRIGGER entries_are_not_changed")
    with pytest.raises(LedgerError, match="trigger is missing"):
        ledger.verify()


@pytest.mark.parametrize("number", [2, 3])
def test_a_file_that_has_lost_an_entry_cannot_be_spent_from(tmp_path, number):
    """It was noticed by `verify` alone; the sum of a cell is read off its last entry."""
    with pytest.raises(LedgerError, match="lost entries: 4 were written, and 3 are there"):
        spoilt(tmp_path, f"DELETE FROM entries WHERE number = {number}")
    with Ledger.open(tmp_path / "ledger.db", read_only=True) as ledger:
        assert ledger.head.counter == 4


@pytest.mark.parametrize(
    "damage", ["DROP TRIGGER entries_are_not_deleted", "CREATE TABLE more (x INTEGER)"]
)
def test_nothing_is_spent_under_another_schema(tmp_path, damage):
    ledger = Ledger(1, path=tmp_path / "ledger.db")
    ledger.spend(TENTH)
    other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
    other.execute(damage)
    other.close()
    with pytest.raises(LedgerError, match="changed while it was open"):
        ledger.spend(TENTH)
    assert ledger.spent.epsilon == TENTH


def spoilt(folder, damage: str, *, read_only: bool = False) -> Ledger:
    """Four entries, changed by someone who knows SQL, with the triggers back in place."""
    path = folder / "ledger.db"
    with Ledger(1, path=path) as ledger:
        ledger.store(ledger.spend(TENTH, key="k"), {"value": 1})
        ledger.spend(TENTH)
    connection = sqlite3.connect(path, isolation_level=None)
    guards = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    for name, _ in (kept := connection.execute(guards).fetchall()):
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(damage)
    for _, sql in kept:
        connection.execute(sql)
    connection.close()
    return Ledger.open(path, read_only=read_only)


def test_verify_finds_an_old_copy_by_its_receipts(tmp_path):
    path, kept = tmp_path / "ledger.db", tmp_path / "old.db"
    with Ledger(1, path=path) as ledger:
        ledger.spend(TENTH)
    kept.write_bytes(path.read_bytes())
    with Ledger.open(path) as ledger:
        receipt = ledger.spend(TENTH)
        head = ledger.head
    path.write_bytes(kept.read_bytes())
    with Ledger.open(path) as ledger:
        ledger.verify()
        for proof in (receipt, receipt.to_dict(), head):
            with pytest.raises(LedgerError, match="entry 3 of a receipt is missing"):
                ledger.verify(proof)
        ledger.spend(TENTH, label="another history")
        with pytest.raises(LedgerError, match="entry 3 is not the one on the receipt"):
            ledger.verify(receipt)


# --- a ledger that cannot be written --------------------------------------------------------------


@pytest.fixture
def closed_folder(tmp_path, monkeypatch):
    """A folder on a read-only mount: SQLite can open nothing there that it might have to write.

    Permissions do not bind the superuser, as whom the tests may run.
    """
    real = sqlite3.connect

    def refuses(name, *args, **kwargs):
        log = (tmp_path / "paid.ledger-wal").exists()
        if str(tmp_path) in str(name) and ("immutable=1" not in name or log):
            raise sqlite3.OperationalError("unable to open database file")
        return real(name, *args, **kwargs)

    def close():
        monkeypatch.setattr("os.access", lambda what, mode: mode != os.W_OK)
        monkeypatch.setattr(sqlite3, "connect", refuses)
        return tmp_path / "paid.ledger"

    return close


def test_a_ledger_on_a_read_only_mount_is_shown_and_verified(tmp_path, closed_folder, capsys):
    with Ledger(2, path=tmp_path / "paid.ledger") as ledger:
        ledger.store(ledger.spend(1, key="mean"), {"value": 4})
    place = closed_folder()
    files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for words in (["verify"], ["show"], ["show", "--key", "mean"]):
        assert main(["ledger", words[0], str(place), *words[1:]]) == 0
    assert '"value": 4' in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files
    with pytest.raises(LedgerError, match="cannot be written"):
        Ledger.open(place)


def test_entries_in_a_log_beside_a_read_only_ledger_are_not_left_out(tmp_path, closed_folder):
    with Ledger(2, path=tmp_path / "paid.ledger") as ledger:
        ledger.spend(1)
        assert (tmp_path / "paid.ledger-wal").stat().st_size
        with pytest.raises(LedgerError, match=r"Copy paid.ledger and paid.ledger-wal together"):
            Ledger.open(closed_folder(), read_only=True)


def test_nothing_can_be_spent_from_a_ledger_that_is_only_read(tmp_path):
    Ledger(2, path=tmp_path / "paid.ledger").close()
    with Ledger.open(tmp_path / "paid.ledger", read_only=True) as ledger:
        with pytest.raises(LedgerError, match="opened to be read only"):
            ledger.spend(1)
        assert ledger.verify().counter == 1
    assert [path.name for path in tmp_path.iterdir()] == ["paid.ledger"]
