"""Ledgers: keys, releases, neighbours, seeds and partitions, in memory and in files."""

from __future__ import annotations

import math
import threading
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightdp.errors import BudgetError, BurnedError, LedgerError, ParameterError, PendingError
from tightdp.ledger import Budget, Ledger
from tightdp.ledger.amounts import cost
from tightdp.privacy import Guarantee, Neighbors

TENTH = Fraction(1, 10)


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
