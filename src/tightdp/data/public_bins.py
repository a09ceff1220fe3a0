r"""How many bins a private histogram should have, from public facts alone.

The expected integrated squared error of a histogram density with V bins on each of d axes of the
unit cube, m = V^d cells, is to first order

.. math:: B(V) + \frac{a^d m}{n} + \frac{a^d m^2 \sigma^2(m)}{n^2},

bias, sampling and privacy noise: a cell of volume 1/m whose count has noise of variance
:math:`\sigma^2` contributes :math:`\frac1m (m/n)^2 \sigma^2`. The variance is
:math:`\sigma^2 = \frac{4(m-1)(2m-1)}{m(m+1)\epsilon^2}` under replace-one (the hull of
:math:`e_i - e_j`), :math:`2/\epsilon^2` under add-remove.

Without smoothing a = 1 and :math:`B = \frac{1}{12V^2} \sum_j \int f_j^2` (Scott, 1979); with linear
interpolation between centres a = 2/3 and
:math:`B = \frac{1}{V^4} (\frac{49}{2880} \sum_j \int f_{jj}^2 + \frac{1}{64} \sum_{j \ne k} \int
f_{jj} f_{kk})` (Scott, 1985): at a share t between two centres the bias is :math:`\sum_j f_{jj}
V^{-2} (\frac{1}{24} + \frac{t_j(1-t_j)}{2})`, whose square and mean have these integrals. Both need
the roughness of a density that nobody may look at: a normal one stands for it, with the public
bounds at three standard deviations.

Where levels of categories multiply the cells by L, bias is divided by L and noise multiplied by it.
"""

from __future__ import annotations

import math

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import check_choice, check_count, fail
from tightdp.privacy import Neighbors, check_epsilon

MOST_CELLS = 1024  # covariances of a release are a table of cells by cells
SMOOTHINGS = ("linear", "none")

_SD = 1 / 6  # of the reference, in widths of the bounds


def public_bins(
    rows: int,
    epsilon: Number,
    dim: int = 1,
    *,
    smoothing: str = "linear",
    neighbors: str | Neighbors = Neighbors.REPLACE_ONE,
    levels: int = 1,
    rows_per_person: int = 1,
) -> int:
    """The number of bins on each of ``dim`` numeric axes with the least expected error.

    Parameters
    ----------
    rows : int
        The public number of rows, or a public bound on it.
    epsilon : float
    dim : int
    smoothing : {"linear", "none"}
    neighbors : {"replace-one", "add-remove"}
    levels : int
        Cells of the categories beside the numeric columns.
    rows_per_person : int

    Examples
    --------
    >>> public_bins(1000, 1.0), public_bins(1000, 0.01), public_bins(10**6, 1.0)
    (11, 3, 44)
    >>> public_bins(1000, 1.0, smoothing="none"), public_bins(10**6, 1.0, dim=2)
    (16, 29)
    """
    n, d = check_count("rows", rows), check_count("dim", dim)
    spent = float(check_epsilon(epsilon))
    kind = check_choice("smoothing", smoothing, SMOOTHINGS)
    most = math.floor((MOST_CELLS / check_count("levels", levels)) ** (1 / d) + 1e-9)
    if most < 2:
        fail(
            f"{d} numeric columns and {levels} levels have more than {MOST_CELLS} cells with two "
            "bins each: choose fewer columns."
        )
    bins = np.arange(2, most + 1, dtype=np.float64)
    cells = levels * bins**d
    if Neighbors.of(neighbors) is Neighbors.REPLACE_ONE:
        noise = 4 * (cells - 1) * (2 * cells - 1) / (cells * (cells + 1))
    else:
        noise = np.full_like(cells, 2.0)
    noise *= (rows_per_person / spent) ** 2
    spread = 1.0 if kind == "none" else (2 / 3) ** d
    error = _bias(bins, d, kind) / levels
    error += spread * (bins**d / n + levels * bins ** (2 * d) * noise / n**2)
    return int(bins[error.argmin()])


def _bias(bins: np.ndarray, d: int, kind: str) -> np.ndarray:
    """Integrated squared bias for the product of d normal densities."""
    plain = 1 / (2 * math.sqrt(math.pi) * _SD)  # of f, f' and f'' squared, and -f f''
    first = plain / (2 * _SD**2)
    second = 3 * plain / (4 * _SD**4)
    if kind == "none":
        return np.asarray(d * first * plain ** (d - 1) / (12 * bins**2))
    own = d * 49 / 2880 * second * plain ** (d - 1)
    mixed = d * (d - 1) / 64 * first**2 * plain ** (d - 2) if d > 1 else 0.0
    return np.asarray((own + mixed) / bins**4)
