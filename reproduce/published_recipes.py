"""How the 200 printed cells of Tables 1 and 2 of [5] come about, cell by cell.

Every cell is (T - O)/max(O, 1) or (O - G)/max(O, 1), squared loss, for some number O that stands
for the optimum. In the published code one noise is optimised on a grid out to the support of
truncated Laplace noise, rounded up, and O is the middle of two numbers of *that noise*: its E X^2,
and the same with the least square of each cell. Which loss was optimised and on which grid is not
printed; here it is found by trying grids. A recipe is written

=====  =============================================================================================
20     the noise with the least squared loss, 20 cells a unit: all printed digits
a50    the noise with the least *absolute* loss, 50 cells a unit: all printed digits
u20    E X^2 alone instead of the middle (of the least squared loss): all printed digits
<20    a finer grid than could be solved: the print lies between the middle and E X^2 at 20 cells a
       unit, the finest solved, as middles of finer grids do (a<20: of the least absolute loss)
``-``  none: the print lies outside of what the finest grid solved can give
=====  =============================================================================================

In Table 2 G is the lower bound of [29] with one term more than is proved, unless that exceeds the
lower one of the two numbers (E53).
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import numpy as np

from tightdp.design.programs import Lattice, ShiftProgram

EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DELTAS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75)

UPPER_RECIPES = """
   <4    10    <4    20     -    10    10    20    20    64
    2     -     4    10     -    10    10    20    20    66
    4     4    <4     4     5    10    10    20    20    66
    4    10    10     4     5    10    20    20    20    66
   10    10    10     4     5    17    20    32    20    40
   10    10    10     4    10    20    20    20    20    40
    -    20    20     4    10    20    20    20    20    44
  a40   a40   a50    10    10    20    20    20    20    40
  u50   u20   u20    10    20     -    20     -    20    40
  u20   u20   u20    20    20    20    20    20    20   <40
"""

LOWER_RECIPES = """
  a<2   a<2     -   a<7  a<14    10  a<20     -     -     -
   a2   a<2   a<3   a<7  a<50    10  a<20     -  a<20     -
    4   a<2     -   a<7  a<14  a<20  a<20     -  a<20  a<20
    -     -   a<4   a<7     -     -  a<20     -     -     -
  a<2   a<3   a<5   a<8  a<14     -  a<20     -     -     -
  a<4   a<5   a<7  a<11     -  a<20  a<20     -  a100  a100
  a<7   a<8  a<11     4     -  a<20     -     -  a100  a100
 a<40  a<50  a<50     -     -     -     -     -  a100  a100
  a50   a50   a50   a50   a50   a50   a50   a50     -     -
  a50   a50   a50   a50   a50   a50   a50   a50     -     -
"""

_FORM = re.compile(r"(?P<kind>u?)(?P<loss>a?)(?P<finer><?)(?P<cells>[0-9]+)")


class Recipe(NamedTuple):
    """Which noise, on which grid, and what of it is taken for the optimum."""

    cells: int
    power: int
    part: str

    @classmethod
    def read(cls, text: str) -> Recipe | None:
        """The recipe in a text; None for a cell without one.

        >>> Recipe.read("a50"), Recipe.read("-")
        (Recipe(cells=50, power=1, part='middle'), None)
        """
        found = _FORM.fullmatch(text)
        if found is None:
            return None
        part = "between" if found["finer"] else "upper" if found["kind"] else "middle"
        return cls(int(found["cells"]), 1 if found["loss"] else 2, part)

    def optima(self, epsilon: float, delta: float) -> tuple[float, float]:
        """E X^2 of the noise, and the same with the least square of each cell."""
        units, k = support_units(epsilon, delta), self.cells
        n = k * units
        edges = np.abs(np.arange(-n, n + 1)) / k
        low, high = np.minimum(edges[:-1], edges[1:]), np.maximum(edges[:-1], edges[1:])
        means = {p: (high ** (p + 1) - low ** (p + 1)) / (p + 1) * k for p in (1, 2)}
        program = ShiftProgram(
            Lattice(-n, n, (-n, n), -1, k),
            factor=math.exp(epsilon),
            delta=delta,
            cost=means[self.power],
            folded=True,
        )
        masses = program.solve(tolerance=1e-8).masses
        return float(means[2] @ masses), float(low**2 @ masses)


def support_units(epsilon: float, delta: float) -> int:
    """The half-width of truncated Laplace noise, rounded up to whole sensitivities.

    >>> support_units(1.0, 0.2), support_units(2.0, 0.5)
    (2, 1)
    """
    return math.ceil(math.log1p(math.expm1(epsilon) / (2 * delta)) / epsilon - 1e-12)


def recipes(table: str) -> dict[tuple[float, float], str]:
    """The recipe of each cell of a table, by (epsilon, delta)."""
    lines = [line.split() for line in table.strip().splitlines()]
    pairs = [(e, d) for e in EPSILONS for d in DELTAS]
    return dict(zip(pairs, (text for line in lines for text in line), strict=True))


def recipe_counts(table: str) -> tuple[int, int, int]:
    """How many cells have all digits, lie between the ends of a grid, and have no recipe.

    >>> sum(recipe_counts(UPPER_RECIPES)), sum(recipe_counts(LOWER_RECIPES))
    (100, 100)
    """
    parts = [r.part if r else "" for r in map(Recipe.read, recipes(table).values())]
    finer, none = parts.count("between"), parts.count("")
    return len(parts) - finer - none, finer, none


def recipe_table(table: str) -> str:
    """A table of recipes as Markdown.

    >>> print(recipe_table(UPPER_RECIPES).splitlines()[0])
    | epsilon \\ delta | 0.005 | 0.01 | 0.02 | 0.05 | 0.1 | 0.2 | 0.25 | 0.3 | 0.5 | 0.75 |
    """
    found = recipes(table)
    lines = [["epsilon \\ delta", *(f"{d:g}" for d in DELTAS)], ["---"] * (len(DELTAS) + 1)]
    lines += [[f"{e:g}", *(found[e, d].replace("<", "\\<") for d in DELTAS)] for e in EPSILONS]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
