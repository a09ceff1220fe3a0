"""The ledger as callers see it: exact amounts, one answer per key, honest composition."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
import pickle
import sqlite3
import threading
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import (
    BudgetError,
    BurnedError,
    LedgerError,
    ParameterError,
    PendingError,
)
from tightdp.ledger import Budget, Ledger
from tightdp.ledger.amounts import (
    DENOMINATOR_BITS,
    check_amount,
    cost,
    from_text,
    to_text,
    unrounded,
)
from tightdp.noise.enclosures import float_up
from tightdp.privacy import Guarantee, Neighbors

TENTH = Fraction(1, 10)
BAD = [math.nan, math.inf, -1, -math.inf, True, "1", None, 1j, Decimal("NaN"), 10**400]


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    """Where the ledger is kept."""
    return None if request.param == "memory" else tmp_path / "ledger.db"


# --- amounts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*BAD, 0])
def test_a_bad_cap_is_refused_and_leaves_no_file(value, tmp_path):
    with pytest.raises(ParameterError, match="`epsilon` must"):
        Ledger(value, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", BAD)
def test_a_bad_spend_is_refused_and_costs_nothing(value):
    ledger = Ledger(1)
    with pytest.raises(ParameterError, match="`epsilon` must"):
        ledger.spend(value)
    with pytest.raises(ParameterError, match="`delta` must"):
        ledger.spend(TENTH, value)
    assert ledger.spent == Budget(Fraction(0))


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9])
def test_delta_lies_in_the_unit_interval(delta):
    for make in (lambda: Ledger(1, delta), lambda: Ledger(1, 0.5).spend(TENTH, delta)):
        with pytest.raises(ParameterError, match="`delta` must lie in"):
            make()


def test_ten_tenths_are_one_and_eleven_are_not(place):
    ledger = Ledger(1, path=place)
    for _ in range(10):
        ledger.spend(TENTH)
    assert ledger.remaining == Budget(Fraction(0))
    with pytest.raises(BudgetError):
        ledger.spend(Fraction(1, 10**30))


def test_ten_float_tenths_are_one():
    ledger = Ledger(1.0)
    for _ in range(10):
        ledger.spend(0.1)
    assert ledger.remaining.epsilon == 0


def test_a_computed_float_that_is_a_little_too_much_is_explained():
    ledger = Ledger(0.3)
    with pytest.raises(BudgetError, match=r"rounding of floats.*Fraction\(1, 10\)"):
        ledger.spend(0.1 + 0.2)
    ledger.spend(Decimal("0.3"))


def test_the_refusal_names_all_three_amounts():
    ledger = Ledger(Fraction(1, 2), Fraction(1, 1000))
    ledger.spend(Fraction(1, 3))
    with pytest.raises(BudgetError) as refusal:
        ledger.spend(Fraction(1, 4))
    text = str(refusal.value)
    assert "Requested:  epsilon = 0.25, delta = 0" in text
    assert "Remaining:  epsilon = 1/6 (0.166666666667), delta = 0.001" in text
    assert "Difference: epsilon = 1/12 (0.0833333333333), delta = 0" in text
    with pytest.raises(BudgetError, match=r"Difference: epsilon = 0, delta = 0.001"):
        ledger.spend(0, Fraction(1, 500))
    assert ledger.spent.epsilon == Fraction(1, 3)


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1) | st.fractions(0, 1), max_size=8))
def test_sums_are_exact(amounts):
    ledger = Ledger(100)
    for amount in amounts:
        if amount:
            ledger.spend(amount)
    assert ledger.spent.epsilon == sum(Fraction(str(amount)) for amount in amounts)
    ledger.verify()


@given(st.fractions(0, 1000))
def test_amounts_survive_their_text(number):
    assert from_text(to_text(number)) == number


@pytest.mark.parametrize("text", ["2/4", "1", "1/0", "0.5/1", "-0/1", "+1/2", "1/2 "])
def test_other_texts_are_refused(text):
    with pytest.raises((ValueError, ZeroDivisionError)):
        from_text(text)


def test_endless_denominators_are_rounded_up():
    awkward = Fraction(1, 3**2000)
    kept = check_amount(awkward, 0).epsilon
    assert awkward < kept < awkward + Fraction(1, 1 << (DENOMINATOR_BITS - 1))
    total = Budget(kept) + Budget(Fraction(1, 3**1000))
    assert total.epsilon >= kept + Fraction(1, 3**1000)
    assert total.epsilon.denominator.bit_length() <= DENOMINATOR_BITS + 1


# --- keys and releases --------------------------------------------------------------------------


def test_a_known_key_gives_its_release_and_costs_nothing(place):
    ledger = Ledger(1, path=place)
    first = ledger.spend(TENTH, key="k", label="count")
    record = ledger.store(first, {"value": [1, 2.5], "big": str(10**40)})
    again = ledger.spend(TENTH, key="k", label="count")
    assert again.stored == record == ledger.find("k")
    assert again.entry == first.entry
    assert ledger.spent.epsilon == TENTH
    assert ledger.find("other") is None


def test_without_a_key_every_call_is_a_spend():
    ledger = Ledger(1)
    assert ledger.spend(TENTH).entry != ledger.spend(TENTH).entry
    assert ledger.spent.epsilon == 2 * TENTH


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"label": "another"}, "label"),
        ({"fingerprint": "ff"}, "fingerprint"),
        ({"neighbors": "add-remove"}, "neighbors"),
        ({"epsilon": 0.25}, "asked"),
        ({"partition": ("p", 1)}, "cell, partition"),
    ],
)
def test_a_key_names_one_request(other, named):
    ledger = Ledger(1)
    ledger.declare_partition("p", [1, 2], fixed=True)
    ledger.store(ledger.spend(TENTH, key="k", label="count"), {})
    asked = {"epsilon": TENTH, "key": "k", "label": "count"} | other
    with pytest.raises(ParameterError, match=f"`key` must name one request.*another {named}:"):
        ledger.spend(**asked)
    assert ledger.spent.epsilon == TENTH


def test_a_block_that_raises_burns_its_budget(place):
    ledger = Ledger(1, path=place)
    with (
        pytest.raises(ZeroDivisionError),
        ledger.charge(Guarantee(epsilon=0.5), key="k", label="mean"),
    ):
        1 / 0  # noqa: B018
    assert ledger.spent.epsilon == Fraction(1, 2)
    for ask in (lambda: ledger.find("k"), lambda: ledger.spend(0.5, key="k", label="mean")):
        with pytest.raises(BurnedError, match=r"key 'k' is burned.*Choose a new key"):
            ask()
    assert [row.state for row in ledger.history()] == ["burned"]


def test_a_block_that_forgets_to_store_is_an_error():
    ledger = Ledger(1)
    with (
        pytest.raises(LedgerError, match=r"without `charge.store"),
        ledger.charge(Guarantee(epsilon=0.5)),
    ):
        pass
    assert ledger.spent.epsilon == Fraction(1, 2)


def test_a_charge_pays_once_and_only_inside_its_block():
    ledger = Ledger(1)
    charge = ledger.charge(Guarantee(epsilon=0.5), key="k")
    with pytest.raises(LedgerError, match="Nothing was spent yet"):
        charge.store({})
    with charge:
        assert charge.stored is None
        assert charge.receipt()["cost"] == {"epsilon": "1/2", "delta": "0/1"}
        charge.store({"value": 1})
    with pytest.raises(LedgerError, match="entered once"):
        charge.__enter__()
    with ledger.charge(Guarantee(epsilon=0.5), key="k") as again:
        assert again.stored == {"value": 1}
    assert ledger.spent.epsilon == Fraction(1, 2)


def test_a_spend_has_one_release():
    ledger = Ledger(1)
    receipt = ledger.spend(TENTH)
    ledger.store(receipt, {"value": 1})
    for end in (lambda: ledger.store(receipt, {"value": 2}), lambda: ledger.burn(receipt)):
        with pytest.raises(LedgerError, match="without a release"):
            end()


def test_a_receipt_belongs_to_its_ledger():
    receipt = Ledger(1).spend(TENTH)
    other = Ledger(1)
    other.spend(TENTH)
    with pytest.raises(LedgerError, match="from this ledger"):
        other.store(receipt, {})
    with pytest.raises(LedgerError, match="another ledger"):
        other.verify(receipt)
    with pytest.raises(ParameterError, match="`receipt` must be a Receipt"):
        other.store({"entry": 2}, {})  # type: ignore[arg-type]


@pytest.mark.parametrize("record", [{"x": math.nan}, {"x": object()}, [1], None])
def test_a_record_that_would_not_come_back_the_same_is_refused(record):
    ledger = Ledger(1)
    receipt = ledger.spend(TENTH, key="k")
    with pytest.raises(ParameterError, match="`record` must"):
        ledger.store(receipt, record)
    ledger.store(receipt, {"x": 1})


def test_a_thread_does_not_wait_for_itself():
    ledger = Ledger(1)
    ledger.spend(TENTH, key="k")
    with pytest.raises(PendingError, match=r"in progress.*same key"):
        ledger.spend(TENTH, key="k")
    with pytest.raises(PendingError):
        ledger.find("k")


def test_threads_with_one_key_get_one_release(place):
    ledger, seen = Ledger(1, path=place), []
    ready = threading.Barrier(6)

    def ask(number: int) -> None:
        ready.wait()
        with ledger.charge(Guarantee(epsilon=0.5), key="k") as charge:
            seen.append(charge.store({"by": number}) if charge.stored is None else charge.stored)

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 6
    assert all(record == seen[0] for record in seen)
    assert ledger.spent.epsilon == Fraction(1, 2)


def test_waiting_ends(place):
    ledger = Ledger(1, path=place, timeout=0.1)
    thread = threading.Thread(target=ledger.spend, args=(TENTH,), kwargs={"key": "k"})
    thread.start()
    thread.join()
    with pytest.raises(PendingError):
        ledger.spend(TENTH, key="k")


@pytest.mark.parametrize("key", ["", 7, b"k", "x" * 1001, "\0", "\ud800"])
def test_a_bad_key_is_refused(key):
    with pytest.raises(ParameterError, match="`key` must"):
        Ledger(1).spend(TENTH, key=key)


# --- neighbours and seeds -------------------------------------------------------------------------


def test_add_remove_costs_twice_under_replace_one():
    ledger = Ledger(2, 0.5)
    with ledger.charge(Guarantee(epsilon=0.5, neighbors=Neighbors.ADD_REMOVE)) as charge:
        charge.store({})
    assert ledger.spent == Budget(Fraction(1))


@given(st.floats(2.0**-30, 8), st.floats(1e-12, 1e-4))
def test_group_privacy_of_two_rows_rounds_up(epsilon, delta):
    asked = Budget(Fraction(epsilon), Fraction(delta))
    charged = cost(asked, Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE)
    assert charged.epsilon == 2 * asked.epsilon
    true = float(delta) * (1 + math.exp(epsilon))
    assert true * (1 - 1e-14) <= float(charged.delta) <= true * (1 + 1e-14)
    decimal = Decimal(delta) * (1 + Decimal(epsilon).exp())
    assert charged.delta >= Fraction(decimal) * (1 - Fraction(1, 10**25))


def test_a_delta_without_meaning_does_not_fit():
    with pytest.raises(BudgetError):
        Ledger(1000, 0.999).spend(100, 1e-300, neighbors="add-remove")


def test_replace_one_is_refused_under_add_remove():
    ledger = Ledger(1, neighbors="add-remove")
    with pytest.raises(ParameterError, match="`neighbors` must be 'add-remove'"):
        ledger.spend(TENTH, neighbors="replace-one")
    assert ledger.spend(TENTH).cost.epsilon == TENTH


def test_seeded_releases_are_refused_unless_let_in():
    with pytest.raises(ParameterError, match=r"`seeded` must be False.*allow_seeded=True"):
        Ledger(1).spend(TENTH, seeded=True)
    with (
        pytest.raises(ParameterError, match="`seeded` must be False"),
        Ledger(1).charge(Guarantee(epsilon=1.0, seeded=True)),
    ):
        pass
    test = Ledger(1, allow_seeded=True)
    test.spend(TENTH, seeded=True)
    assert "SEEDED: not private" in str(test)


# --- partitions -----------------------------------------------------------------------------------


def test_cells_count_by_their_largest_sum(place):
    ledger = Ledger(1, 0.1, path=place, neighbors="add-remove")
    ledger.declare_partition("site", [1, 2, "1"], fixed=False)
    ledger.spend(Fraction(1, 2), partition=("site", 1))
    ledger.spend(Fraction(1, 4), Fraction(1, 100), partition=("site", 2))
    ledger.spend(Fraction(1, 2), partition=("site", "1"))
    assert ledger.spent == Budget(Fraction(1, 2), Fraction(1, 100))
    ledger.spend(Fraction(1, 2), partition=("site", 2))
    assert ledger.spent.epsilon == Fraction(3, 4)
    ledger.spend(Fraction(1, 4))
    assert ledger.remaining.epsilon == 0
    ledger.spend(Fraction(1, 4), partition=("site", 1))  # the other cell is fuller: no more cost
    with pytest.raises(BudgetError):
        ledger.spend(TENTH, partition=("site", 2))
    ledger.verify()


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 2), st.fractions(0, 1)),
        max_size=15,
    )
)
def test_composition_is_the_sum_of_the_maxima(spends):
    ledger = Ledger(100)
    for name in "ab":
        ledger.declare_partition(name, range(3), fixed=True)
    sums = {(name, cell): Fraction(0) for name in "ab" for cell in range(3)}
    plain = Fraction(0)
    for name, cell, amount in spends:
        if amount == 0:
            continue
        ledger.spend(amount, partition=None if name is None else (name, cell))
        if name is None:
            plain += amount
        else:
            sums[name, cell] += amount
    largest = sum(max(sums[name, cell] for cell in range(3)) for name in "ab")
    assert ledger.spent.epsilon == plain + largest
    ledger.verify()


def test_a_partition_is_declared_first_and_for_ever(place):
    ledger = Ledger(1, path=place)
    with pytest.raises(ParameterError, match="must be declared before"):
        ledger.spend(TENTH, partition=("site", 1))
    ledger.declare_partition("site", ["a", "b"], fixed=True)
    ledger.declare_partition("site", ["b", "a"], fixed=True)
    for cells, fixed in ((["a", "b", "c"], True), (["a", "b"], False)):
        with pytest.raises(ParameterError, match=r"cannot change.*\"b\".*asked for"):
            ledger.declare_partition("site", cells, fixed=fixed)
    with pytest.raises(ParameterError, match="must name a cell"):
        ledger.spend(TENTH, partition=("site", "c"))
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("cells", [[], ["a"], ["a", "a"], "ab", 7, [True, False], [0.5, 1.5]])
def test_a_bad_partition_is_refused(cells):
    with pytest.raises(ParameterError, match=r"`cells` must|A cell must"):
        Ledger(1).declare_partition("site", cells, fixed=True)


def test_cells_read_off_the_row_need_add_remove_guarantees():
    ledger = Ledger(1)
    ledger.declare_partition("region", ["n", "s"], fixed=False)
    with pytest.raises(ParameterError, match="a replaced row may leave one cell and enter another"):
        ledger.spend(TENTH, partition=("region", "n"))
    for cell in "ns":  # a replaced row leaves n at 1/10 and enters s at 1/10: 2/10 in all
        ledger.spend(TENTH, partition=("region", cell), neighbors="add-remove")
    assert ledger.spent.epsilon == 2 * TENTH


# --- tight accounting -----------------------------------------------------------------------------

accounting = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None, reason="needs the extra `accounting`"
)


@accounting
def test_many_small_spends_are_worth_less_than_their_sum():
    ledger = Ledger(100)
    for _ in range(100):
        ledger.spend(TENTH)
    assert 0 < ledger.tight_epsilon(1e-6) < 6 < ledger.spent.epsilon
    assert ledger.tight_epsilon(0) == 10
    assert Ledger(1).tight_epsilon(1e-6) == 0


@accounting
@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.3, 0, 4), (1.0, 1e-3, 3), (0.05, 0, 20)]
)
def test_tight_epsilon_is_above_the_optimal_composition(epsilon, delta, count):
    """Oracle: the exact delta of k-fold randomised response (Kairouz, Oh and Viswanath)."""
    ledger = Ledger(100, 0.5)
    for _ in range(count):
        ledger.spend(epsilon, delta)
    target = 0.01
    found = ledger.tight_epsilon(target)
    e = math.exp(epsilon)
    share = sum(
        math.comb(count, i) * max(0.0, e**i - math.exp(found) * e ** (count - i)) / (1 + e) ** count
        for i in range(count + 1)
    )
    assert 1 - (1 - delta) ** count * (1 - share) <= target
    assert found <= count * epsilon


@accounting
def test_tight_epsilon_counts_a_partition_once_and_needs_delta_for_deltas():
    ledger = Ledger(10, 0.1)
    ledger.declare_partition("p", [1, 2], fixed=True)
    for cell in (1, 2, 1):
        ledger.spend(1, 0.01, partition=("p", cell))
    assert 1.9 < ledger.tight_epsilon(0.02) <= 2
    assert ledger.tight_epsilon(1e-3) == math.inf


def optimal_delta(epsilons: list[float], at: float) -> float:
    """The delta of composed randomised responses, by enumeration of all their answers."""
    total = 0.0
    for signs in itertools.product((0, 1), repeat=len(epsilons)):
        p = math.prod(
            math.exp(e * s) / (1 + math.exp(e)) for e, s in zip(epsilons, signs, strict=True)
        )
        q = math.prod(
            math.exp(e * (1 - s)) / (1 + math.exp(e)) for e, s in zip(epsilons, signs, strict=True)
        )
        total += max(0.0, p - math.exp(at) * q)
    return total


@accounting
@pytest.mark.parametrize("epsilons", [[0.1, 0.7, 1.3], [0.5, 0.25, 0.125, 2.0], [0.3] * 5 + [1.0]])
def test_tight_epsilon_of_unequal_spends_is_above_the_optimum_and_near_it(epsilons):
    ledger = Ledger(100)
    for epsilon in epsilons:
        ledger.spend(epsilon)
    for delta in (1e-5, 1e-2, 0.1):
        found = ledger.tight_epsilon(delta)
        assert optimal_delta(epsilons, found) <= delta
        assert optimal_delta(epsilons, found - 0.01) > delta or found >= sum(epsilons) - 1e-9
    assert ledger.tight_epsilon(0) >= sum(epsilons) - 1e-12


def test_spends_below_one_are_added_and_never_multiplied():
    """Erratum E36: a product of epsilons would make the second of two spends of 1/2 cost -1/4."""
    ledger = Ledger(2)
    for cell in (None, ("p", 1), ("p", 1)):
        if cell and not ledger.history()[1:]:
            ledger.declare_partition("p", [1, 2], fixed=True)
        before = ledger.spent.epsilon
        ledger.spend(Fraction(1, 2), partition=cell)
        assert ledger.spent.epsilon - before == Fraction(1, 2)
    assert ledger.spent.epsilon == Fraction(3, 2)


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
        with pytest.raises(LedgerError, match="cannot be pickled or copied"):
            copied(ledger)
    ledger.close()
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.spend(TENTH)


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
    ledger = spoilt(tmp_path, damage)
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


def spoilt(folder, damage: str) -> Ledger:
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
    return Ledger.open(path)


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


# --- what was rounded up to floats is paid for exactly --------------------------------------------


def test_three_releases_at_a_third_are_one():
    ledger = tdp.Ledger(1, delta=Fraction(3, 7 * 10**6))
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3)
    given = {"epsilon": Fraction(1, 3), "delta": Fraction(1, 7 * 10**6)}
    sums = tdp.AdditiveMechanism(tdp.Sums(facts), noise="gaussian", **given)
    for _ in range(3):
        release = sums.release({"x": [0.0, 0.5, 1.0]}, ledger=ledger)
        assert release.guarantee.epsilon > Fraction(1, 3)  # a float, and never below
    assert ledger.remaining == Budget(Fraction(0))
    ledger.verify()


@pytest.mark.parametrize(
    "exactly",
    [
        Budget(Fraction(1, 4)),
        Budget(Fraction(1, 3) - Fraction(1, 1 << 50)),
        Budget(Fraction(1, 2)),
        Budget(Fraction(1, 3), Fraction(1, 10**9)),
    ],
    ids=str,
)
def test_no_other_amount_passes_for_the_unrounded_one(exactly):
    ledger = Ledger(1, 0.5)
    with pytest.raises(ParameterError, match="`exactly`"):
        ledger.charge(Guarantee(epsilon=0.33333333333333337), exactly=exactly)
    assert ledger.spent == Budget(Fraction(0))


@given(st.floats(5e-324, 0.5), st.floats(2.0**-40, 2.0**10))
def test_every_rounding_up_is_recognised(delta, epsilon):
    for part in (1, 3, 7, 10):
        exact = Budget(Fraction(epsilon) / part, Fraction(delta) / part)
        rounded = Guarantee(epsilon=float_up(exact.epsilon), delta=float_up(exact.delta))
        assert unrounded(check_amount(rounded.epsilon, rounded.delta), exact) == exact
