"""A plan read from TOML, with every error in it, each with its file, line and key.

Nothing is spent here and no row is read: names and types of columns are, and the ledger is looked
at but not written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tightdp.accounting.caps import Cap
from tightdp.accounting.costs import Cost
from tightdp.budget_split import shares
from tightdp.data.csv_files import CsvFile
from tightdp.data.excel_sheets import ExcelFile, excel_table
from tightdp.data.row_tables import absolute_address
from tightdp.data.sources import from_spark, from_sql, read_header
from tightdp.data.table import Table
from tightdp.errors import (
    BudgetError,
    DataError,
    LedgerError,
    ParameterError,
    TightdpError,
    check_choice,
    check_flag,
    check_probability,
    fail,
    visible,
)
from tightdp.ledger.amounts import Budget, check_any_cap, check_cap
from tightdp.ledger.entries import check_key
from tightdp.mechanisms.table_noise_choice import SAID_AT
from tightdp.named_arguments import Elsewhere, unknown_key
from tightdp.options import amount
from tightdp.paths import check_file, check_path
from tightdp.plans.joint import join
from tightdp.plans.lines import Place, Text, read_text
from tightdp.plans.request import Planned, Request
from tightdp.privacy import text_down, text_up
from tightdp.registry import KINDS, Kind, kinds_with
from tightdp.schema import Schema

P = ParamSpec("P")
T = TypeVar("T")

_TOP = ("title", "data", "schema", "budget", "releases")
TEXT_FACTS = ("names", "delimiter", "encoding", "widths")  # facts about a text file
_SOURCES = ("file", "folder", "sql", "spark", "address")  # one of which has the rows
_DATA = (*_SOURCES, *TEXT_FACTS, "sheet", "database", "files")
_SCHEMA = ("file", "rows", "neighbors", "bits", "person", "rows_per_person", "columns")
_AMOUNTS = ("epsilon", "delta", "rho", "slack")
_BUDGET = ("epsilon", "delta", "rho", "accountant", "slack", "ledger", "confidence", "together")
_COMMON = ("name", "kind", "key", "epsilon", "weight")


_KEPT = (BudgetError, LedgerError)  # other errors are about what the plan says


@dataclass(slots=True)
class PlanText:
    """What was read, and what is wrong with it."""

    text: Text
    problems: list[TightdpError] = field(default_factory=list)
    noted: list[tuple[Place, str]] = field(default_factory=list)
    """The same problems by the key that each is about, for a form that shows them beside it."""
    title: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)
    frame: Any = None
    schema: Schema | None = None
    caps: Budget | None = None
    cap: Cap | None = None
    ledger: Path | None = None
    confidence: float = 0.95
    releases: list[Planned] = field(default_factory=list)

    def complain(
        self,
        place: tuple[str | int, ...],
        message: str,
        kind: type[TightdpError] = ParameterError,
    ) -> None:
        """Note a problem with the line of its place."""
        self.noted.append((place, message))
        self.problems.append(kind(f"{self.text.where(*place)}: {message}"))

    def check_keys(
        self,
        place: Place,
        section: Mapping[str, Any],
        allowed: Sequence[str],
        where: str,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Complain of keys that a section may not have."""
        for key in section:
            if key not in allowed:
                said = unknown_key(key, allowed, where, elsewhere=elsewhere)
                self.complain((*place, key), said)

    def attempt(
        self, place: tuple[str | int, ...], step: Callable[P, T], *given: P.args, **named: P.kwargs
    ) -> T | None:
        """What a step makes of what it is given, or None with its error noted at the place."""
        try:
            return step(*given, **named)
        except TightdpError as error:
            inner = _named_key(str(error))
            at = (*place, inner) if inner and (*place, inner) in self.text.lines else place
            kind = next((kind for kind in _KEPT if isinstance(error, kind)), ParameterError)
            self.complain(at, " ".join(str(error).split()), kind)
            return None

    def beside(self, path: str) -> Path:
        """A path of the plan, read from where the plan lies."""
        return Path(self.text.name).parent / path

    def files(self) -> tuple[Path, ...]:
        """What the plan is made of and reads: nothing that is written may take its place."""
        named = [self.data.get(key) for key in ("file", "folder", "database", "files")]
        schema = self.text.record.get("schema")
        named.append(schema.get("file") if isinstance(schema, Mapping) else None)
        own = [Path(self.text.name), *([] if self.ledger is None else [self.ledger])]
        return (*own, *(self.beside(name) for name in named if isinstance(name, str)))


def _named_key(message: str) -> str | None:
    """The key that a message speaks of: the first word in backticks."""
    found = re.search(r"`([A-Za-z_]+)`", message)
    return found[1] if found else None


def read(path: str | Path) -> PlanText:
    """Read and check a plan whole; problems are collected, not raised."""
    return check(read_text(path))


def check(text: Text) -> PlanText:
    """Check the text of a plan, which need not be a file yet."""
    found = PlanText(text)
    record = found.text.record
    found.check_keys((), record, _TOP, "a plan")
    title = record.get("title", visible(Path(text.name).stem))
    found.title = title if isinstance(title, str) else ""
    if not isinstance(title, str) or not title.isprintable():
        found.complain(("title",), "`title` must be one line of printable characters.")
    _read_schema(found)
    _read_data(found)
    _read_budget(found)
    _read_releases(found)
    _join(found)
    if not found.problems:
        _check_columns(found)
    return found


def _section(found: PlanText, name: str, allowed: tuple[str, ...]) -> Mapping[str, Any]:
    section = found.text.record.get(name)
    if section is None:
        found.complain((), f"the plan needs the section [{name}], with {', '.join(allowed)}.")
        return {}
    if not isinstance(section, Mapping):
        found.complain((name,), f"`{name}` must be a section [{name}].")
        return {}
    found.check_keys((name,), section, allowed, f"[{name}]")
    return section


# --- sections ------------------------------------------------------------------------------------


def _read_schema(found: PlanText) -> None:
    section = _section(found, "schema", _SCHEMA)
    if not section:
        return
    if "file" not in section:
        found.schema = _columns_one_by_one(found, section)
        return
    if len(section) > 1:
        found.complain(("schema",), "[schema] must hold `file` or the facts themselves, not both.")
        return
    place = section["file"]
    if not isinstance(place, str):
        found.complain(("schema", "file"), "`file` must be a text.")
        return
    other = found.attempt(("schema", "file"), read_text, found.beside(place), "file")
    if other is not None:
        found.schema, problems = _schema_of(other)
        found.problems += problems


def read_schema(path: str | Path) -> tuple[Schema | None, list[TightdpError]]:
    """The schema of a file of its own, and what is wrong with it, one line each."""
    return _schema_of(read_text(path, "schema"))


def _schema_of(text: Text) -> tuple[Schema | None, list[TightdpError]]:
    inner = PlanText(Text(text.name, {"schema": text.record}, _below("schema", text)))
    inner.check_keys(("schema",), text.record, _SCHEMA[1:], "a schema")
    schema = _columns_one_by_one(inner, text.record)
    return (None if inner.problems else schema), inner.problems


def _below(name: str, text: Text) -> dict[tuple[str | int, ...], int]:
    return {(name, *place): line for place, line in text.lines.items()}


def _columns_one_by_one(found: PlanText, section: Mapping[str, Any]) -> Schema | None:
    """The schema; if a column is wrong, the complaint is at the line of the column."""
    columns, before = section.get("columns"), len(found.problems)
    if isinstance(columns, Mapping):
        for name, facts in columns.items():
            place = ("schema", "columns", name)
            one = {"rows": 1, "columns": {name: facts}}
            found.attempt(place, Schema.from_dict, one)
    if len(found.problems) > before:
        return None
    facts = {key: section[key] for key in section if key in _SCHEMA[1:]}
    return found.attempt(("schema",), Schema.from_dict, facts)


def _read_data(found: PlanText) -> None:
    section = _section(found, "data", _DATA)
    if not section:
        return
    kinds = [key for key in _SOURCES if key in section]
    if len(kinds) != 1:
        got = f" It has {' and '.join(f'`{key}`' for key in kinds)}." if kinds else ""
        which = ", ".join(f"`{key}`" for key in _SOURCES[:-1])
        found.complain(("data",), f"[data] needs one of {which} and `{_SOURCES[-1]}`.{got}")
        return
    for key in ("database", "files"):
        if key in section and kinds != ["sql"]:
            found.complain(("data", key), f"`{key}` goes with `sql`.")
    for key in (*TEXT_FACTS, "sheet"):
        if key in section and kinds != ["file"]:
            found.complain(("data", key), f"`{key}` goes with a `file` of text, such as CSV.")
    for key, value in section.items():
        if key not in ("names", "widths") and not isinstance(value, str):
            found.complain(("data", key), f"`{key}` must be a text. Got {value!r}.")
            return
    found.data = section
    found.frame = found.attempt(("data", kinds[0]), _opened, found, kinds[0])


def _opened(found: PlanText, kind: str) -> Any:
    value = found.data[kind]
    if kind == "sql":
        base, files = found.data.get("database"), found.data.get("files")
        if base is None and files is None:
            files = "."  # what lies beside the plan
        relation = from_sql(
            value,
            None if base is None else found.beside(base),
            None if files is None else found.beside(files),
        )
        return relation if found.schema is None else Table.open(relation, found.schema)
    if kind == "spark":
        frame = from_spark(value)
        return frame if found.schema is None else Table.open(frame, found.schema)
    if kind == "address":
        engine = absolute_address(value, found.beside("."))
        return engine if found.schema is None else Table.open(engine, found.schema)
    place = check_path(kind, found.beside(value))
    if not place.exists():
        fail(f"`{kind}`: there is no {kind} {str(place)!r}.")
    if place.is_dir() != (kind == "folder"):
        fail(f"`{kind}`: {str(place)!r} is a {'folder' if place.is_dir() else 'file'}.")
    # a file that cannot be opened is one problem, not one of every release
    if "sheet" in found.data:
        sheet = ExcelFile(place, found.data["sheet"], found.data.get("names"))
        excel_table(sheet)
        return sheet if found.schema is None else Table.open(sheet, found.schema)
    if any(key in found.data for key in TEXT_FACTS):
        stated = CsvFile(place, **{key: found.data[key] for key in TEXT_FACTS if key in found.data})
        _ = check_file(kind, place)
        return stated if found.schema is None else Table.open(stated, found.schema)
    if found.schema is None:
        _ = read_header(place)
        return str(place)
    try:
        return Table.open(str(place), found.schema)
    except DataError:
        fail(f"The header of {str(place)!r} cannot be read: open the file and check it.")


def _read_budget(found: PlanText) -> None:
    section = _section(found, "budget", _BUDGET)
    if not section:
        return
    if "epsilon" not in section and "rho" not in section:
        found.complain(("budget",), "[budget] needs `epsilon`: the most that may be spent.")
    else:
        found.caps, found.cap = found.attempt(("budget",), _caps, section) or (None, None)
    if not isinstance(section.get("ledger"), str):
        found.complain(
            ("budget", "ledger"), "[budget] needs `ledger`: the file that remembers what was spent."
        )
    else:
        place = found.beside(section["ledger"])
        found.ledger = found.attempt(("budget", "ledger"), check_path, "ledger", place)
        if found.ledger is not None and not found.ledger.parent.is_dir():
            found.complain(
                ("budget", "ledger"), f"`ledger`: there is no folder {str(found.ledger.parent)!r}."
            )
    level = section.get("confidence", 0.95)
    where = ("budget", "confidence")
    found.confidence = found.attempt(where, check_probability, "confidence", level) or 0.95


def _caps(section: Mapping[str, Any]) -> tuple[Budget, Cap | None]:
    """The budget as it is stated, and the cap of an accountant that adds something else."""
    stated = {name: amount(name, section[name]) for name in _AMOUNTS if name in section}
    if set(stated) <= {"epsilon", "delta"} and section.get("accountant", "sum") == "sum":
        return check_cap(stated["epsilon"], stated.get("delta", Fraction(0))), None
    given = {"epsilon": None, "delta": 0, "rho": None, "slack": 0} | stated
    cap = check_any_cap(section.get("accountant"), **given)
    if cap.epsilon is None or cap.delta is None:
        return Budget(cap.amount, cap.slack, cap.unit), cap
    return Budget(cap.epsilon, cap.delta), cap


# --- releases ------------------------------------------------------------------------------------


def _read_releases(found: PlanText) -> None:
    releases = found.text.record.get("releases")
    if not isinstance(releases, list) or not releases:
        found.complain(("releases",), "the plan needs at least one [[releases]].")
        return
    kinds = [_read_kind(found, i, release) for i, release in enumerate(releases)]
    _check_names(found, releases)
    spends = _read_spends(found, releases)
    if found.schema is None or spends is None:
        return
    for i, (release, kind) in enumerate(zip(releases, kinds, strict=True)):
        if kind is not None:
            _read_release(found, i, release, kind, spends[i])


def _read_kind(found: PlanText, i: int, release: object) -> Kind | None:
    place = ("releases", i)
    if not isinstance(release, Mapping):
        found.complain(place, "a release must be a table [[releases]].")
        return None
    if "kind" not in release:
        found.complain(place, f"a release needs `kind`: one of {', '.join(KINDS)}.")
        return None
    name = found.attempt((*place, "kind"), check_choice, "kind", release["kind"], list(KINDS))
    if name is None:
        return None
    kind = KINDS[name]
    allowed = (*_COMMON, *kind.options)
    where = f"a release of kind {name!r}"
    found.check_keys(place, release, allowed, where, kinds_with)
    for key, option in kind.options.items():
        if option.required and key not in release:
            found.complain(place, f"kind {name!r} needs `{key}`: {option.about}.")
    return kind


def _check_names(found: PlanText, releases: list[Any]) -> None:
    for what in ("name", "key"):
        seen: dict[str, int] = {}
        for i, release in enumerate(releases):
            if not isinstance(release, Mapping):
                continue
            value = release.get(what, default_name(release, i) if what == "name" else None)
            if value is None:
                continue
            place = ("releases", i, what)
            checked = found.attempt(place, check_key, value)
            if checked is not None and not checked.isprintable():
                found.complain(place, f"`{what}` must be one line of printable characters.")
            if checked is not None and seen.setdefault(checked, i) != i:
                found.complain(
                    place, f"`{what}` must differ between releases. Got {checked!r} twice."
                )


def default_name(release: Mapping[str, Any], i: int) -> str:
    """What a release is called that has no name."""
    return f"{release.get('kind', 'release')} {i + 1}"


def _read_spends(found: PlanText, releases: list[Any]) -> list[Fraction] | None:
    """The epsilon of every release: its own, or its share of what the others leave."""
    fixed: dict[int, Fraction | Cost] = {}
    weights: dict[int, Fraction] = {}
    before = len(found.problems)
    for i, release in enumerate(releases):
        known = KINDS.get(release.get("kind", "")) if isinstance(release, Mapping) else None
        ways = ["epsilon", "weight", *(["rho"] if known and "rho" in known.options else [])]
        given = [k for k in ways if isinstance(release, Mapping) and k in release]
        if len(given) != 1:
            said = ", ".join(f"`{way}`" for way in ways[:-1]) + f" or `{ways[-1]}`"
            found.complain(("releases", i), f"a release needs {said}, one of them.")
            continue
        place, name = ("releases", i, given[0]), given[0]
        value = found.attempt(place, amount, name, release[name])
        if value is None:
            continue
        if value <= 0:
            found.complain(place, f"`{name}` must be a number > 0. Got {release[name]}.")
        elif name == "weight":
            weights[i] = value
        elif name == "epsilon":
            fixed[i] = value
        else:
            cost = found.attempt(place, _in_rho, value, release.get("delta", 0))
            fixed |= {} if cost is None else {i: cost}
    if len(found.problems) > before or found.caps is None:
        return None
    return _shared(found, releases, fixed, weights)


def _in_rho(rho: Fraction, delta: object) -> Cost:
    """The most that a release with a budget in rho costs."""
    return Cost.concentrated(rho, delta=amount("delta", delta) or SAID_AT)


def _shared(
    found: PlanText,
    releases: list[Any],
    stated: dict[int, Fraction | Cost],
    weights: dict[int, Fraction],
) -> list[Fraction] | None:
    assert found.caps is not None
    fixed = {i: cost.epsilon if isinstance(cost, Cost) else cost for i, cost in stated.items()}
    if found.cap is not None:
        costs = (cost if isinstance(cost, Cost) else Cost.of(cost) for cost in stated.values())
        used = sum((found.cap.booked(cost)[0] for cost in costs), Fraction(0))
        shared = _shared_under(found, found.cap, used, weights)
        return None if shared is None else [(fixed | shared)[i] for i in range(len(releases))]
    left = found.caps.epsilon - sum(fixed.values())
    if left < 0 or (weights and left <= 0):
        asked = text_up(sum(fixed.values(), Fraction(0)))
        more = ", and those with `weight` would get nothing" if weights and left == 0 else ""
        found.complain(
            ("budget", "epsilon"),
            f"`epsilon`: over budget. The releases ask for {asked} of "
            f"{text_down(found.caps.epsilon)}{more}.",
            BudgetError,
        )
        return None
    if weights:
        fixed |= dict(zip(weights, shares(left, list(weights.values())), strict=True))
    return [fixed[i] for i in range(len(releases))]


def _shared_under(
    found: PlanText, cap: Cap, used: Fraction, weights: dict[int, Fraction]
) -> dict[int, Fraction] | None:
    """Epsilons in proportion to the weights, such that pure noise at all of them fits the cap.

    What is booked in the end is no more: noise that is cheaper than pure noise leaves some over.
    """
    if weights and used >= cap.amount:
        found.complain(
            ("budget",),
            f"`weight`: those with an `epsilon` may take all of the budget, {cap.unit} = "
            f"{text_down(cap.amount)}: state an `epsilon` for every release.",
            BudgetError,
        )
        return None
    if not weights:
        return {}
    unit, low, high = Fraction(1, 10**12), 0, 1

    def fits(steps: int) -> bool:
        parts = (cap.booked(Cost.of(steps * unit * w))[0] for w in weights.values())
        return used + sum(parts, Fraction(0)) <= cap.amount

    while fits(high):
        low, high = high, 2 * high
    while high - low > max(1, low >> 20):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return {i: low * unit * weight // unit * unit for i, weight in weights.items()}


def _read_release(
    found: PlanText, i: int, release: Mapping[str, Any], kind: Kind, epsilon: Fraction
) -> None:
    place, before = ("releases", i), len(found.problems)
    assert found.schema is not None
    options: dict[str, Any] = {}
    for key, option in kind.options.items():
        if key in release:
            options[key] = found.attempt(
                (*place, key), option.check, key, release[key], found.schema
            )
        elif option.required:
            return  # noted already
    if len(found.problems) > before:
        return
    request = Request(kind, found.schema, epsilon, options)
    made = found.attempt(place, lambda: request.mechanism)
    if made is None:
        return
    if "rho" in options:  # which is worth an epsilon that the noise knows
        request = Request(kind, found.schema, made.epsilon, options, [made])
    name = str(release.get("name", default_name(release, i)))
    key = str(release.get("key", name))
    found.releases.append(Planned(name, key, request, found.text.where(*place)))


def _join(found: PlanText) -> None:
    """Read sums, means and counts off one vector, where the plan says so."""
    section = found.text.record.get("budget")
    stated = section.get("together", False) if isinstance(section, Mapping) else False
    if found.attempt(("budget", "together"), check_flag, "together", stated):
        if found.cap is not None:
            found.complain(
                ("budget", "together"),
                "`together` is for budgets that add epsilons: rho and mu^2 of sums with Gaussian "
                "noise are the same one by one. Leave it out.",
            )
        elif found.schema is not None and not found.problems:
            joined = found.attempt(("budget", "together"), join, found.releases, found.schema)
            found.releases = found.releases if joined is None else joined


def _check_columns(found: PlanText) -> None:
    """Every column that a release reads must be in the table, with a type that can be read."""
    for i, planned in enumerate(found.releases):
        keys = [
            k
            for k in ("columns", "column", "terms", "features", "target")
            if ("releases", i, k) in found.text.lines
        ]
        place = ("releases", i, keys[0]) if keys else ("releases", i)
        found.attempt(place, planned.request.check, found.frame)
        given = planned.request.mechanism.given
        if given and any(other.request.mechanism.given != given for other in found.releases):
            found.complain(
                ("releases", i),
                f"`public`: this release is private only {given}. Epsilons for this and for other "
                "releases do not add: put it into a plan and a ledger of its own.",
            )
    caps = found.caps
    assert caps is not None
    if found.cap is not None:
        _check_under(found, found.cap)
        return
    delta = sum((Fraction(str(p.request.guarantee().delta)) for p in found.releases), Fraction(0))
    if delta > caps.delta:
        found.complain(
            ("budget", "delta"),
            f"`delta`: over budget. The releases ask for {text_up(delta)} of "
            f"{text_down(caps.delta)}.",
            BudgetError,
        )


def _check_under(found: PlanText, cap: Cap) -> None:
    """The costs of all releases, in the unit that the ledger keeps, must fit the cap."""
    booked = [cap.booked(planned.request.mechanism.cost) for planned in found.releases]
    asked, beside = (sum(parts, Fraction(0)) for parts in zip(*booked, strict=True))
    if asked > cap.amount:
        found.complain(
            ("budget",),
            f"over budget. The releases ask for {cap.unit} = {text_up(asked)} of "
            f"{text_down(cap.amount)}.{_remedy(found, cap)}",
            BudgetError,
        )
    if beside > cap.slack:
        found.complain(
            ("budget",),
            f"`slack`: over budget. The releases ask for a delta of {text_up(beside)} of their "
            f"own, of {text_down(cap.slack)}: state a `slack`, or take noise without a delta.",
            BudgetError,
        )


def _remedy(found: PlanText, cap: Cap) -> str:
    """Few releases without a delta may cost less where epsilons are added."""
    total = Cost.total([planned.request.mechanism.cost for planned in found.releases])
    if cap.epsilon is None or total.epsilon > cap.epsilon or total.delta > (cap.delta or 0):
        return ""
    return ' They fit where epsilons are added: leave `accountant` out, or say "sum".'


def refuse(problems: list[TightdpError]) -> None:
    """Raise what is wrong with a plan, one line each.

    Where the plan itself is right and only its budget is too small, or only its ledger unfit, the
    error is of that kind, as it would be from the ledger.
    """
    if problems:
        kinds = {type(problem) for problem in problems}
        kind = kinds.pop() if len(kinds) == 1 else ParameterError
        fail("\n".join(map(str, problems)), kind)
