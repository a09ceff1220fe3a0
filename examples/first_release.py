"""From a table to a paid-for release: one table, then schema, preview, ledger, release, picture.

The table is made up here, with the faults that real ones have. Everything written goes to
`output/`.
"""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp import plots

OUTPUT = Path("output")
ROWS = 5000


def say(text: str) -> None:
    print(fill(text, width=96), end="\n\n")


def title(text: str) -> None:
    print(f"\n{text}\n{'=' * len(text)}\n")


def made_up_table() -> dict[str, Any]:
    """A survey: missing ages, an income typed with four zeros too many, an unknown region."""
    rng = np.random.default_rng(2024)
    table: dict[str, Any] = {
        "age": rng.gamma(9.0, 5.0, ROWS).round(),
        "income": rng.lognormal(10.5, 0.6, ROWS).round(),
        "region": rng.choice(["north", "east", "south", "west"], ROWS, p=[0.4, 0.3, 0.2, 0.1]),
    }
    table["age"][rng.choice(ROWS, 60, replace=False)] = np.nan
    table["income"][17] *= 10_000
    table["region"] = table["region"].astype(object)
    table["region"][[3, 99]] = [None, "Atlantis"]
    return table


def public_facts() -> tdp.Schema:
    title("1. What is public")
    say(
        "Bounds, levels and the number of rows are stated, never read off the data. Cells that "
        "break them are moved by the rules in the table, silently: an error would tell."
    )
    schema = tdp.Schema(
        {
            "age": tdp.Interval(18, 98),
            "income": tdp.Interval(0, 200_000),
            "region": tdp.Category(["north", "east", "south", "west"], other="west"),
        },
        rows=ROWS,
    )
    print(schema, end="\n\n")
    return schema


def previews(schema: tdp.Schema) -> dict[str, tdp.Preview]:
    title("2. What the noise will cost, before anything is spent")
    statistic = tdp.Products(schema, ["age", "income", "region"])
    made = {
        shape: tdp.AdditiveMechanism(statistic, noise=shape, epsilon=0.5).preview()
        for shape in ("hull", "linf", "laplace")
    }
    print(made["hull"], end="\n\n")
    ratios = (made["hull"].std / made["laplace"].std) ** 2
    say(
        "Shaped like the hull of what one person can change, the noise has "
        f"{1 - ratios.max():.0%} to {1 - ratios.min():.0%} less variance than Laplace noise on "
        "every entry, for the same guarantee."
    )
    return made


def releases(schema: tdp.Schema, table: dict[str, Any]) -> dict[str, tdp.Release]:
    title("3. Pay, and release")
    path = OUTPUT / "ledger.db"
    path.unlink(missing_ok=True)  # a demonstration starts anew; a real ledger is never deleted
    with tdp.Ledger(epsilon=1, path=path) as ledger:
        given: dict[str, Any] = {"schema": schema, "ledger": ledger}
        means = tdp.mean(table, ["age", "income"], epsilon=0.3, key="means", **given)
        print(means, end="\n\n")
        counts = tdp.count(table, ["region"], epsilon=0.2, key="regions", **given)
        print(counts, end="\n\n")
        ages = tdp.histogram(table, "age", bins=8, epsilon=0.3, key="ages", **given)
        print(ages, end="\n\n")
        title("4. The ledger remembers")
        again = tdp.mean(table, ["age", "income"], epsilon=0.3, key="means", **given)
        same = "the same" if np.array_equal(again.value, means.value) else "another"
        say(
            f"Asked again with the same key: {same} answer, nothing spent. Remaining: epsilon = "
            f"{float(ledger.remaining.epsilon):g}."
        )
        try:
            tdp.count(table, ["region"], epsilon=0.5, **given)
        except tdp.BudgetError as refusal:
            say("What does not fit into the budget does not happen:")
            print(refusal, end="\n\n")
        ledger.verify()
        say(f"The chain of entries in {path} is intact.")
    return {"regions": counts, "ages": ages}


def draw(made: dict[str, tdp.Preview], released: dict[str, tdp.Release]) -> None:
    title("Pictures")
    drawn = {f"release_{name}": plots.plot_release(r) for name, r in released.items()}
    drawn["release_previews"] = plots.plot_previews(made)
    for name, ax in drawn.items():
        path = OUTPUT / f"{name}.png"
        ax.figure.savefig(path, dpi=150)
        print(f"  {path}")


def one_table() -> None:
    title("The mean income in each region, and how sure it is")
    regions = tdp.Category(["north", "east", "south", "west"], other="west")
    columns = {"income": tdp.Interval(0, 200_000, unit="EUR"), "region": regions}
    schema = tdp.Schema(columns, rows=ROWS)
    print(tdp.mean(made_up_table(), "income", by="region", schema=schema, epsilon=1), end="\n\n")
    say(
        "epsilon is how much these numbers may tell about anybody: with 1, nobody's row makes any "
        "outcome more than e = 2.7 times as likely as another row in its place would. How such a "
        "table is made, paid for and kept, step by step:"
    )


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    one_table()
    schema = public_facts()
    made = previews(schema)
    draw(made, releases(schema, made_up_table()))
    title("And now")
    say("The same in a browser: make web. With a table of your own: docs/start.md.")


if __name__ == "__main__":
    main()
