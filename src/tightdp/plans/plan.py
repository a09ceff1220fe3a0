"""A release plan: checked whole, previewed from public facts, released once whatever happens.

Every release of a plan has a key in the ledger. Running a plan again gives the stored answers and
spends nothing; a run that was killed is continued by running it again. What was paid for and lost
is reported as burned, and the others go on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from tightdp.accepted import TableLike
from tightdp.accounting.caps import Cap
from tightdp.accuracy import preview
from tightdp.answer import Answer
from tightdp.data.one_pass import share_pass
from tightdp.errors import (
    BudgetError,
    BurnedError,
    ParameterError,
    PendingError,
    check_choice,
    check_flag,
    fail,
    held_warnings,
)
from tightdp.ledger import Budget, Ledger
from tightdp.ledger.amounts import nothing
from tightdp.mechanisms.mechanism import Started
from tightdp.plans.plan_preview import PlanPreview
from tightdp.plans.plan_text import PlanText, read, refuse
from tightdp.plans.request import Planned
from tightdp.printed import escaped, html_notes
from tightdp.privacy import text_up
from tightdp.schema import Schema

Watch = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class PlanResult:
    """The answers of a plan; ``fresh`` names those that were paid for now.

    ``lost`` holds the releases that have no answer, with the reason and the remedy.
    """

    title: str
    answers: Mapping[str, Answer]
    fresh: frozenset[str]
    lost: Mapping[str, str]
    spent: Budget
    remaining: Budget

    def to_dict(self) -> dict[str, Any]:
        """Plain values, releases included."""
        return {
            "title": self.title,
            "answers": [
                {"name": name, "state": self.state(name)} | answer.to_dict()
                for name, answer in self.answers.items()
            ],
            "lost": [{"name": name, "reason": reason} for name, reason in self.lost.items()],
            "spent": self.spent.to_dict(),
            "remaining": self.remaining.to_dict(),
        }

    def __repr__(self) -> str:
        return f"<PlanResult {self.title!r}: {', '.join(self.answers)}; spent {self.spent}>"

    def state(self, name: str) -> str:
        """Whether a release was paid for now or before."""
        return "released now" if name in self.fresh else "stored earlier"

    def text(self, most: int | None = None) -> str:
        """All answers as tables, each cut after ``most`` entries."""
        parts = [self.title, "=" * len(self.title)]
        for name, answer in self.answers.items():
            parts += ["", f"{name} ({self.state(name)})", answer.text(most)]
        for name, reason in self.lost.items():
            parts += ["", f"{name}: NO ANSWER. {reason}"]
        return "\n".join(
            [*parts, "", f"spent: {self.spent}", f"remaining: {self.remaining.text(left=True)}"]
        )

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        tables = [
            f"<h4>{escaped(name)} ({self.state(name)})</h4>{answer._repr_html_()}"
            for name, answer in self.answers.items()
        ]
        lost = [
            f"<p><b>{escaped(name)}: no answer.</b> {escaped(reason)}</p>"
            for name, reason in self.lost.items()
        ]
        left = f"spent: {self.spent}; remaining: {self.remaining.text(left=True)}"
        return "".join([*tables, *lost, html_notes(left)])


class _Standing(NamedTuple):
    """What a ledger says of a release that was paid for, and why it is refused, if it is."""

    state: str
    refusal: str = ""


def _refusals(known: Mapping[str, _Standing]) -> dict[str, str]:
    return {name: standing.refusal for name, standing in known.items() if standing.refusal}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A list of releases with their public facts, data, budget and ledger.

    Made by :meth:`read`, from a TOML file; the page on plans shows one. Everything is checked when
    it is read: names of keys and columns, kinds and bounds of columns, parameters, whether the
    table has the columns, and whether the budget covers the releases.

    Examples
    --------
    >>> import tempfile
    >>> text = '''
    ... [data]
    ... file = "ages.csv"
    ... [schema]
    ... rows = 4
    ... columns.age = {low = 0, high = 100}
    ... [budget]
    ... epsilon = 1
    ... ledger = "ledger.db"
    ... [[releases]]
    ... kind = "mean"
    ... name = "mean age"
    ... weight = 1
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "ages.csv").write_text("age\\n20\\n30\\n40\\n50\\n")
    ...     _ = Path(folder, "plan.toml").write_text(text)
    ...     plan = Plan.read(f"{folder}/plan.toml")
    ...     first, second = plan.release(), plan.release()
    >>> sorted(first.fresh), sorted(second.fresh)
    (['mean age'], [])
    >>> first.answers["mean age"].value == second.answers["mean age"].value
    array([ True])
    """

    title: str
    frame: Any
    schema: Schema
    caps: Budget
    ledger: Path
    confidence: float
    releases: tuple[Planned, ...]
    source: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    cap: Cap | None = None

    def __repr__(self) -> str:
        names = ", ".join(planned.name for planned in self.releases)
        return f"<Plan {self.title!r}: {names}; at most {self.caps}>"

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """A plan from its file, checked whole; the error has a line for every problem.

        It is a :class:`~tightdp.BudgetError` if all that is wrong is that the budget does not
        cover the releases, a :class:`~tightdp.LedgerError` if it is the ledger.
        """
        return cls.of(read(path))

    @classmethod
    def of(cls, found: PlanText) -> Plan:
        """The plan of a text that was read; what is wrong is noted there, and raised."""
        refuse(found.problems)
        assert found.schema is not None
        assert found.caps is not None
        assert found.ledger is not None
        plan = cls(
            found.title,
            found.frame,
            found.schema,
            found.caps,
            found.ledger,
            found.confidence,
            tuple(found.releases),
            dict(found.data),
            found.files(),
            found.cap,
        )
        if found.ledger.exists():
            found.attempt(("budget", "ledger"), plan._check_ledger)
            refuse(found.problems)
        states = plan.states()
        for i, planned in enumerate(plan.releases):
            if states[planned.name] == "new":
                found.attempt(("releases", i), planned.request.rehearse, plan.frame)
        refuse(found.problems)
        return plan

    def _open(self) -> Ledger:
        stated: dict[str, Any] = self.caps_stated()
        return Ledger(**stated, path=self.ledger, neighbors=self.schema.neighbors)

    def caps_stated(self) -> dict[str, Any]:
        """The budget as a ledger, or :func:`tightdp.split_budget`, takes it."""
        if self.cap is None:
            return {"epsilon": self.caps.epsilon, "delta": self.caps.delta}
        stated: dict[str, Any] = {"rho": self.cap.amount}
        if self.cap.epsilon is not None:
            stated = {"epsilon": self.cap.epsilon, "delta": self.cap.delta}
        return stated | {"accountant": self.cap.accountant, "slack": self.cap.slack}

    def _check_ledger(self) -> None:
        """Refuse a ledger with other terms, or one that has too little left for what is new."""
        with self._open() as ledger:
            known = self._known(ledger)
            # releases of one key have one payment
            asked = {p.key: p for p in self.releases if p.name not in known}.values()
            unit = "epsilon" if self.cap is None else self.cap.unit
            new = sum((_cost(p, self.cap) for p in asked), nothing(unit))
            left = ledger.remaining
        if not new.fits(left):
            fail(
                f"`epsilon`: over budget. What is not released yet asks for {new}; the ledger "
                f"has {left.text(left=True)} left.",
                BudgetError,
            )

    def states(self) -> dict[str, str]:
        """What the ledger says of every release; costs nothing.

        It is new, stored, pending or burned; or changed: stored, and for another request.
        """
        known = self._looked_up()
        return {p.name: known.get(p.name, _Standing("new")).state for p in self.releases}

    def refusals(self) -> dict[str, str]:
        """Why a release is refused whose key was used for another request; costs nothing."""
        return _refusals(self._looked_up())

    def _looked_up(self) -> dict[str, _Standing]:
        if not self.ledger.exists():
            return {}
        with self._open() as ledger:
            return self._known(ledger)

    def _known(self, ledger: Ledger) -> dict[str, _Standing]:
        """The releases that were paid for: stored, lost or in progress."""
        found = ((planned.name, self._standing(planned, ledger)) for planned in self.releases)
        return {name: standing for name, standing in found if standing is not None}

    def _standing(self, planned: Planned, ledger: Ledger) -> _Standing | None:
        state = "stored"
        try:
            if ledger.find(planned.key) is None:
                return None
        except BurnedError:
            return _Standing("burned")  # said to be lost, whatever is asked
        except PendingError:
            state = "pending"
        try:
            adds = "sum" if self.cap is None else self.cap.accountant
            asked = planned.request.asked(self.frame, self.confidence, adds)
            ledger.check_same(planned.key, **asked)
        except ParameterError as error:
            changed = "changed" if state == "stored" else state
            return _Standing(changed, f"{planned.where}: {error}{_shifted(planned, ledger)}")
        return _Standing(state)

    def __getitem__(self, name: str) -> Planned:
        names = [planned.name for planned in self.releases]
        return self.releases[names.index(check_choice("release", name, names))]

    # --- before -------------------------------------------------------------------------------

    def check(self, *, progress: bool = False) -> Any:
        """Count the cells that the schema cannot take as they are: **not private**.

        For the curator's eyes only, as :meth:`tightdp.Schema.check`; nothing is spent or stored.
        """
        return self.schema.check(self.frame, progress=progress)

    def preview(
        self, *, sample: TableLike | None = None, replicates: int = 100, watch: Watch | None = None
    ) -> PlanPreview:
        """The error to expect from every release; see :func:`tightdp.accuracy.preview`.

        ``watch`` is called with the name, number and count of every release before its turn.
        """
        made = {}
        for number, planned in enumerate(self.releases, start=1):
            if watch is not None:
                watch(planned.name, number, len(self.releases))
            made[planned.name] = preview(
                planned.request, confidence=self.confidence, sample=sample, replicates=replicates
            )
        spends = {planned.name: planned.request.epsilon for planned in self.releases}
        costs = {planned.name: planned.request.mechanism.cost for planned in self.releases}
        alone = {p.name: p.alone.preview(self.confidence) for p in self.releases if p.alone}
        return PlanPreview(self.title, made, spends, self.caps, costs, self.cap, alone)

    # --- release ------------------------------------------------------------------------------

    def release(
        self, *, one_pass: bool = False, progress: bool = False, watch: Watch | None = None
    ) -> PlanResult:
        """Give the stored answers, pay for the others one by one, and report what is lost.

        With ``one_pass`` the rows are read once for all releases that are made of sums. The numbers
        have the same law. As nothing is read before it is paid for, these releases are all paid
        for first, each with its own entry in the ledger; so a run that is killed while it pays or
        reads, or a table that cannot be read to its end, loses all that it has paid for; without
        ``one_pass``, one.

        ``watch`` is called with the name, number and count of every release before its turn.
        """
        check_flag("one_pass", one_pass)
        check_flag("progress", progress)
        with self._open() as ledger:
            known = self._known(ledger)
            refused = _refusals(known)
            if refused:  # all of them, before anything new is paid for
                fail("\n".join(refused.values()))
            answers: dict[str, Answer] = {}
            lost: dict[str, str] = {}
            numbers = itertools.count(1)

            def turn(planned: Planned) -> None:
                if watch is not None:
                    watch(planned.name, next(numbers), len(self.releases))

            for group in self._groups(known, one_pass):
                if len(group) > 1:
                    self._release_group(group, ledger, progress, turn, answers, lost)
                    continue
                (planned,) = group
                turn(planned)
                with _noted(planned, lost):
                    answers[planned.name] = self._answer(planned, ledger, progress)
            order = [planned.name for planned in self.releases]
            return PlanResult(
                self.title,
                {name: answers[name] for name in order if name in answers},
                frozenset(answers) - frozenset(known),
                lost,
                ledger.spent,
                ledger.remaining,
            )

    def _answer(self, planned: Planned, ledger: Ledger, progress: bool) -> Answer:
        options = {"ledger": ledger, "key": planned.key, "confidence": self.confidence}
        with _named(planned):
            return planned.request.release(self.frame, progress=progress, **options)

    def _groups(self, known: Mapping[str, _Standing], one_pass: bool) -> list[list[Planned]]:
        """The releases in the order of their turns; those that share a reading share a turn."""
        stored = [[planned] for planned in self.releases if planned.name in known]
        new = [planned for planned in self.releases if planned.name not in known]
        sharing = [p for p in new if one_pass and p.request.mechanism.integer_sums()]
        return stored + [
            sharing if planned in sharing else [planned]
            for planned in new
            if planned not in sharing[1:]
        ]

    def _release_group(
        self,
        group: Sequence[Planned],
        ledger: Ledger,
        progress: bool,
        turn: Callable[[Planned], None],
        answers: dict[str, Answer],
        lost: dict[str, str],
    ) -> None:
        """Pay for all of them, then read the rows once; what is paid for is finished, if it can be.

        What is wrong with one is raised when the others that were paid for have been released. What
        another run is computing is waited for last: two runs, of which each holds what the other
        one waits for, would wait in vain.
        """
        # each asks for its own room when it is paid for, and none is stored before all are
        ledger.check_room(sum(p.request.mechanism.numbers_released() for p in group))
        elsewhere: list[Planned] = []
        failed: list[Exception] = []
        refused: list[Exception] = []
        with ExitStack() as paid:
            started: list[tuple[Planned, Started]] = []
            for planned in group:
                if _in_progress(planned, ledger):
                    elsewhere.append(planned)
                    continue
                try:
                    turn(planned)
                    with _noted(planned, lost):
                        started.append((planned, paid.enter_context(self._start(planned, ledger))))
                except Exception as error:
                    refused.append(error)
                    break
            sums = [one for _, begun in started for one in begun.integer_sums]
            with share_pass(self.frame, self.schema, sums) as table:
                for planned, begun in started:
                    try:
                        answers[planned.name] = self._finish(planned, begun, table, progress)
                    except Exception as error:
                        failed.append(error)
        if failed or refused:
            raise (failed + refused)[0]
        for planned in elsewhere:
            turn(planned)
            with _noted(planned, lost):
                answers[planned.name] = self._answer(planned, ledger, progress)

    def _start(self, planned: Planned, ledger: Ledger) -> Started:
        options = {"ledger": ledger, "key": planned.key, "confidence": self.confidence}
        with _named(planned):
            return planned.request.start(self.frame, **options)

    def _finish(self, planned: Planned, begun: Started, table: TableLike, progress: bool) -> Answer:
        with held_warnings(), _named(planned):
            return planned.request.finish(begun, table, progress=progress)


def _in_progress(planned: Planned, ledger: Ledger) -> bool:
    """Whether another run has paid for a release and not stored it yet."""
    try:
        ledger.find(planned.key)
    except PendingError:
        return True
    except BurnedError:
        pass
    return False


@contextmanager
def _noted(planned: Planned, lost: dict[str, str]) -> Iterator[None]:
    """Notes that a release has no answer, and goes on."""
    try:
        yield
    except BurnedError as error:
        lost[planned.name] = _remedy(planned, str(error))
    except PendingError as error:
        lost[planned.name] = str(error)


@contextmanager
def _named(planned: Planned) -> Iterator[None]:
    """Says of what is wrong with a release where it stands in the plan."""
    try:
        yield
    except ParameterError as error:  # before the payment: it can be put right in the plan
        fail(f"{planned.where}: {error}", type(error))


def _cost(planned: Planned, cap: Cap | None) -> Budget:
    if cap is not None:
        return Budget(*cap.booked(planned.request.mechanism.cost), unit=cap.unit)
    guarantee = planned.request.guarantee()
    return Budget(Fraction(repr(guarantee.epsilon)), Fraction(repr(guarantee.delta)))


def _shifted(planned: Planned, ledger: Ledger) -> str:
    """Says of a release that its share has changed, as those of weights do with their number."""
    paid = [row.cost for row in ledger.history() if row.key == planned.key]
    now = planned.request.epsilon
    if not paid or paid[0].unit != "epsilon" or paid[0].amount == now:
        return ""
    before = text_up(paid[0].amount)
    return (
        f" It was paid for with epsilon = {before} and asks for {text_up(now)} now: weights share "
        "what is left, so that a release more or less changes all that have one. To get the stored "
        f"answer, write epsilon = {before} in the place of its weight."
    )


def _remedy(planned: Planned, reason: str) -> str:
    return (
        f"{reason} In the plan: give this release another key, such as key = "
        f'"{planned.key}, again"; it costs its epsilon once more.'
    )
