"""Covariances and components: energy of the noise, bodies and speed, and subspaces beside peers.

    python benchmarks/covariance.py [--peer PYTHON] [--draws N] [--repeats N] [--out FILE]

``--peer`` is a Python with diffprivlib and opendp[scikit-learn], which need scikit-learn below 1.6;
without it their columns are left out. Tables are read where ``../shared/data`` has them, or
``--data`` says.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import os
import platform
import subprocess
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.mechanisms.covariances import CovarianceMechanism

DATA = Path(__file__).parents[2] / "shared" / "data"
DELTA = 1e-6
EPSILONS = (0.1, 0.3, 1.0)
KEPT = 2  # components
NORM = 1.0  # to which rows are shortened before any package sees them
LIMIT = 15  # seconds of the processor after which a peer begins no other fit of a table
TABLES = ("adult", "abalone", "house sales in Seattle")  # those that can be read, unless asked for

PEER = """
import json, sys, time, warnings
import numpy as np
warnings.filterwarnings("ignore")
method, limit, kept, norm, repeats = json.loads(sys.stdin.readline())
if method == "diffprivlib":
    from diffprivlib.models import PCA
    def fit(X, epsilon, seed):
        return PCA(kept, epsilon=epsilon, data_norm=norm, bounds=(-1, 1), random_state=seed).fit(X)
else:
    import opendp.prelude as dp
    dp.enable_features("contrib", "idealized-numerics", "honest-but-curious")
    from opendp.extras.sklearn.decomposition import PCA
    def fit(X, epsilon, seed):
        facts = dict(row_norm=norm, n_samples=len(X), n_features=X.shape[1], n_components=kept)
        return PCA(epsilon=epsilon, **facts).fit(X)
for line in sys.stdin:
    rows, epsilons = json.loads(line)
    for epsilon in epsilons:
        out, start, table = [], time.process_time(), np.array(rows)
        try:
            for seed in range(repeats):
                out.append(np.asarray(fit(table, epsilon, seed).components_).tolist())
                if time.process_time() - start > limit:  # signals are lost in OpenDP's callbacks
                    break
        except Exception as error:
            out = out or f"{type(error).__name__}: {error}"[:80]
        print(json.dumps(out), flush=True)
"""


# --- energy ---------------------------------------------------------------------------------------


def schema(p: int, relation: str, rows: int = 10_000) -> tdp.Schema:
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(p)}
    return tdp.Schema(columns, rows, neighbors=relation)


def laplace_energy(p: int, relation: str) -> float:
    """Laplace noise on the entries on and above the diagonal, scaled to their l1 sensitivity.

    Of x x' it is (|x|_1^2 + |x|_2^2) / 2 <= (p + 1) / 2. Of x x' - y y' it is a difference of
    quadratic forms with entries +-1 on and +-1/2 off the diagonal, at most the spread of the
    eigenvalues, which is at most sqrt(2) times the Frobenius norm.
    """
    reach = (p + 1) / 2
    if relation == "replace-one":
        reach = min(2 * reach, float(np.sqrt(2 * (p + p * (p - 1) / 4))))
    return 2 * reach**2 * p**2


def gaussian_energy(p: int, relation: str) -> float:
    """The analytic Gaussian with the Frobenius sensitivity 1, or the root of 2, at DELTA.

    Off the diagonal, where a product stands twice in the norm, noise has half the variance.
    """
    sigma = float(tdp.AnalyticGaussian(epsilon=1.0, delta=DELTA).sigma)
    reach = 1.0 if relation == "add-remove" else 2.0
    return sigma**2 * reach * p * (p + 1) / 2


def measured_energy(p: int, relation: str, draws: int) -> tuple[float, float, str]:
    """Mean squared Frobenius norm of exact integer draws for the products, and its error."""
    mechanism = CovarianceMechanism(schema(p, relation), norm=1, epsilon=1, assume_centered=True)
    part = mechanism.moments.parts[0]  # all of epsilon for the products, as the others have
    noise = type(part)(**{**_fields(part), "share": Fraction(1)}).noise(
        Fraction(1), mechanism.moments.resolution
    )
    z = np.asarray(noise.sample(draws), dtype=np.float64) / mechanism.moments.resolution
    twice = np.array([1 if i == j else 2 for i, j, _ in mechanism.statistic.parts[part.name]])
    energy = (z**2 * twice).sum(axis=1)
    return float(energy.mean()), float(energy.std() / np.sqrt(draws)), part.shape


def _fields(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in part.__dataclass_fields__}


def energies(draws: int) -> list[str]:
    rows = [
        "| relation | body | energy | closed form or simulated | / Laplace | "
        f"/ Gaussian, delta = {DELTA:g} |",
        "|---|---|---|---|---|---|",
    ]
    for relation in ("add-remove", "replace-one"):
        found, error, shape = measured_energy(10, relation, draws)
        known = known_energy(10, relation)
        rows.append(
            f"| {relation} | {shape} | {found:.0f} +- {error:.0f} | {known:.0f} | "
            f"{found / laplace_energy(10, relation):.3f} | "
            f"{found / gaussian_energy(10, relation):.3f} |"
        )
        print(rows[-1], flush=True)
    return rows


def known_energy(p: int, relation: str) -> float:
    from tightdp.shaping.second_moment_noise import hull_energy

    chosen = CovarianceMechanism(schema(p, relation), norm=1, epsilon=1, assume_centered=True)
    return hull_energy(chosen.statistic)


# --- bodies and speed -----------------------------------------------------------------------------


def rate(draw: Callable[[], object], seconds: float = 0.7) -> float:
    """Calls per second of the processor; the first one, which makes tables, does not count."""
    draw()
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds or not count:
        draw()
        count += 1
    return count / (time.process_time() - start)


def bodies(relation: str) -> list[str]:
    rows = [
        "| p | body | energy of the products / hull's | / Laplace | / Gaussian "
        "| draws/s of the processor |",
        "|---|---|---|---|---|---|",
    ]
    for p in (*range(1, 15), 16, 20, 24, 31, 32, 40):
        mechanism = CovarianceMechanism(schema(p, relation), norm=1, epsilon=1)
        shown, _, cost = mechanism.bodies.rpartition("; ")
        i, j, factor = mechanism.statistic.entries.T
        twice = np.where(i == j, 1, 2) * (i > 0)
        energy = float((np.diag(mechanism.moments.covariance) / factor**2 * twice).sum())
        speed = rate(lambda m=mechanism: [noise.sample() for noise in m.moments.noises])
        rows.append(
            f"| {p} | {shown} | {cost.split()[0]} | {energy / laplace_energy(p, relation):.2f} | "
            f"{energy / gaussian_energy(p, relation):.2f} | {speed:,.1f} |"
        )
        print(rows[-1], flush=True)
    return rows


# --- subspaces ------------------------------------------------------------------------------------

HOUSES = {
    "sale_price": (0, 2_000_000),
    "lot_sf": (0, 20_000),
    "tot_sf": (0, 5_000),
    "beds": (0, 8),
    "baths": (0, 6),
    "bldg_grade": (1, 13),
    "age": (0, 120),
    "eff_age": (0, 120),
    "latitude": (47.4, 47.8),
    "longitude": (-122.5, -122.2),
}
ADULT = {"age": (17, 97), "fnlwgt": (0, 800_000), "education": (0, 16), "hours": (0, 100)}
SHELLS = [(0, 1), (0, 1), (0, 0.5), (0, 3), (0, 1.5), (0, 1), (0, 1.5), (0, 30)]


def scaled(columns: list[np.ndarray], bounds: list[tuple[float, float]]) -> np.ndarray:
    """Columns moved to their public bounds and scaled to [-1, 1]."""
    low, high = np.array(bounds).T
    X = np.clip(np.column_stack(columns), low, high)
    return np.asarray((2 * X - low - high) / (high - low))


def tables(folder: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    path = folder / "housing" / "seattle_sales.csv.gz"
    if path.exists():
        with gzip.open(path, "rt") as file:
            rows = list(csv.DictReader(file))
        columns = [np.array([float(row[name]) for row in rows]) for name in HOUSES]
        found["house sales in Seattle"] = scaled(columns, list(HOUSES.values()))
    path = folder / "uci" / "abalone.csv"
    if path.exists():
        rows = [line.split(",")[1:] for line in path.read_text().split()]
        columns = list(np.array(rows, dtype=np.float64).T)
        found["abalone"] = scaled(columns, [(float(a), float(b)) for a, b in SHELLS])
    path = folder / "uci" / "adult-train.csv"
    if path.exists():
        text = [row for row in csv.reader(io.StringIO(path.read_text())) if len(row) > 12]
        columns = [np.array([float(row[k]) for row in text]) for k in (0, 2, 4, 12)]
        found["adult"] = scaled(columns, [(float(a), float(b)) for a, b in ADULT.values()])
    return found


def shortened(X: np.ndarray, norm: float) -> np.ndarray:
    length = np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return np.asarray(X * np.minimum(1.0, norm / length))


def subspace_errors(C: np.ndarray, found: list[Any]) -> str:
    """Mean sine of subspaces, at most 1, and mean share of variance that is lost, with errors."""
    _, vectors = np.linalg.eigh(C)
    best = vectors[:, -KEPT:]
    most = np.trace(best.T @ C @ best)
    sines, lost = [], []
    for components in found:
        own, _ = np.linalg.qr(np.array(components).T)
        overlap = np.linalg.norm(own.T @ best) ** 2
        sines.append(np.sqrt(max(0.0, (KEPT - overlap) / KEPT)))
        lost.append(1 - np.trace(own.T @ C @ own) / most)
    root = np.sqrt(len(found))
    return (
        f"{np.mean(sines):.3f} ({np.std(sines) / root:.3f}), "
        f"{np.mean(lost):.2%} ({np.std(lost) / root:.2%})"
    )


def own_components(X: np.ndarray, norm: float, epsilon: float, repeats: int) -> list[Any]:
    out = []
    for i in range(repeats):
        model = tdp.PCA(
            n_components=KEPT, epsilon=epsilon, bounds=(-1, 1), norm=norm, random_state=i
        )
        out.append(model.fit(X).components_)
    return out


def peer_components(
    peer: str, method: str, found: dict[str, np.ndarray], repeats: int
) -> dict[tuple[str, float], list[Any] | str]:
    """Components of all tables, or why there are none; a fit has so much time at most."""
    lines = [json.dumps([method, LIMIT, KEPT, NORM, repeats])]
    lines += [json.dumps([X.tolist(), EPSILONS]) for X in found.values()]
    done = subprocess.run(
        [peer, "-c", PEER],
        input="\n".join(lines) + "\n",
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    asked = [(name, epsilon) for name in found for epsilon in EPSILONS]
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return dict(zip(asked, answers, strict=False))


def subspaces(peer: str | None, repeats: int, asked: list[str], folder: Path) -> list[str]:
    rows = [
        "| table | rows | p | epsilon | tightdp: sine, variance lost | diffprivlib | OpenDP |",
        "|---|---|---|---|---|---|---|",
    ]
    found = {name: shortened(X, NORM) for name, X in tables(folder).items() if name in asked}
    peers = [
        {} if peer is None else peer_components(peer, method, found, repeats)
        for method in ("diffprivlib", "opendp")
    ]
    for name, X in found.items():
        C = np.cov(X.T, bias=True)
        for epsilon in EPSILONS:
            every = [own_components(X, NORM, epsilon, repeats)]
            every += [of.get((name, epsilon), "-") for of in peers]
            cells = [one if isinstance(one, str) else subspace_errors(C, one) for one in every]
            for i, one in enumerate(every):
                if len(one) < repeats and not isinstance(one, str):
                    cells[i] += f", {len(one)} releases"
            n, p = X.shape
            rows.append(f"| {name} | {n:,} | {p} | {epsilon:g} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    return rows


# --- the page -------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--tables", nargs="*", default=TABLES)
    parser.add_argument("--only", nargs="*", default=["energy", "bodies", "subspaces"])
    given = parser.parse_args()
    page = [
        "# Covariances and principal components",
        "",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, shared with others. Written by `benchmarks/covariance.py`.",
        "",
    ]
    if "energy" in given.only:
        page += [
            "## Energy at p = 10: rows in the unit ball, epsilon = 1, exact integers, delta = 0",
            "",
            "Expected squared Frobenius norm of the noise on the sums of products, measured on "
            f"{given.draws} exact draws. Laplace noise has the l1 sensitivity of the entries, the "
            "Gaussian the Frobenius sensitivity, both at the same relation of neighbours.",
            "",
            *energies(given.draws),
            "",
        ]
    for relation in ("add-remove", "replace-one") if "bodies" in given.only else ():
        page += [
            f"## Bodies, energy and speed, {relation}: means and covariances, `norm=1`",
            "",
            "What `tdp.Covariance` takes by default. The energy is that of the products alone; "
            "that of the hull, of Laplace and of Gaussian noise is without means and without a "
            "number of rows, which the others would have to buy, too.",
            "",
            *bodies(relation),
            "",
        ]
    if "subspaces" in given.only:
        page += [
            f"## Subspaces of {KEPT} components on real tables, beside other packages",
            "",
            "Sine: root mean square sine of the angles between the released subspace and that of "
            "the same rows without noise (0 to 1). Variance lost: the share of the variance that "
            "the best subspace has and the released one has not, without noise. Means of "
            f"{given.repeats} releases, or of as many as a package began in {LIMIT} s of "
            "the processor, standard errors in parentheses. "
            "Columns are scaled to [-1, 1] by stated bounds and rows "
            "shortened to length 1 before all packages see them; every package pays for the mean "
            "out of its epsilon. tightdp: replace-one, integers, delta = 0.",
            "",
            *subspaces(given.peer, given.repeats, list(given.tables), given.data),
            "",
        ]
    if given.out:
        Path(given.out).write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
