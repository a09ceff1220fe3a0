r"""How far sums of discrete Gaussians reach, by proof: on coarse lattices, too.

Let :math:`T = \sum_i a_i Z_i` with independent :math:`Z_i` on the integers, of weights
:math:`e^{-z^2/2\sigma_i^2}`, and :math:`V = \sum_i a_i^2\sigma_i^2`.

**Lemma 1 (far).** :math:`P(|T| > x) \le 2e^{-x^2/2V}`. Proof: :math:`E e^{tZ} =
e^{t^2\sigma^2/2}` times :math:`\sum_z e^{-(z-\sigma^2t)^2/2\sigma^2}` over
:math:`\sum_z e^{-z^2/2\sigma^2}`, which is at most 1, for all terms of its Fourier series are
positive (Canonne, Kamath and Steinke, 2020); and the inequality of Chernoff.

**Lemma 2 (near).** For every r > 0 and g >= 0, with :math:`s_i^2 = \sigma_i^2 r/(1+r)`,
:math:`q_i = e^{-2\pi^2 s_i^2} < 1`,

.. math:: P(|T| > x)\;\Phi(g) \le \prod_i \frac{1+q_i}{1-q_i}\;
          2\,\overline\Phi\Bigl(\frac{x - g\sqrt{rV}}{\sqrt{(1+r)V}}\Bigr),
          \qquad x \ge g\sqrt{rV}.

Proof: add independent normal :math:`G_i` of variance :math:`r\sigma_i^2`. The density of
:math:`Z_i + G_i` at y is :math:`e^{-y^2/2(1+r)\sigma_i^2}` times :math:`\sum_z
e^{-(z-\mu)^2/2s_i^2}`, over :math:`\sqrt{2\pi r}\sigma_i \sum_z e^{-z^2/2\sigma_i^2}`. By the
summation formula of Poisson the first sum is :math:`s_i\sqrt{2\pi}(1 + 2\sum_{k \ge 1}
e^{-2\pi^2 s_i^2 k^2}\cos 2\pi k\mu)`, at most :math:`s_i\sqrt{2\pi}(1 + 2q_i/(1-q_i))`, and the
other at least :math:`\sigma_i\sqrt{2\pi}`. So the density is at most :math:`(1+q_i)/(1-q_i)` times
that of a normal law of variance :math:`(1+r)\sigma_i^2`, and the event that :math:`|T + G|` exceeds
:math:`x - g\sqrt{rV}`, G the sum of all :math:`a_iG_i`, has at most the probability on the right.
It happens whenever :math:`|T| > x` and G is not more than :math:`g\sqrt{rV}` on the other side,
which has the chance :math:`\Phi(g)` whatever T is.

With r near :math:`1/\sigma^2` the second bound is that of a normal law for V, up to about a step of
the lattice; the smallest bound of some r and g is taken, which is public.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

_SMOOTHED = np.geomspace(0.35, 2.5, 24)  # s, in steps of the coarsest lattice
_ASIDE = np.append(np.linspace(0.0, 3.5, 29), [4.0, 5.0, 6.0, 8.0])  # g
_UP = 1 + 2.0**-40  # more than what a few doubles lose


@lru_cache(maxsize=512)
def sure_multiple(least: float, entries: int, miss: float) -> float:
    r"""The x in units of :math:`\sqrt V` with :math:`P(|T| > x) \le` ``miss``, by both lemmas.

    ``least`` is the smallest :math:`\sigma_i^2`, in squared steps of the lattice, of at most
    ``entries`` terms.

    >>> round(sure_multiple(2.0**60, 100, 0.05), 4), round(sure_multiple(400.0, 100, 0.05), 2)
    (1.96, 2.05)
    >>> round(sure_multiple(0.01, 100, 0.05), 3) == round((2 * math.log(40)) ** 0.5, 3)
    True
    """
    far = math.sqrt(2 * math.log(2 / miss))
    smooth, aside = np.meshgrid(_SMOOTHED**2, _ASIDE)
    fits = smooth < least / 2
    if not fits.any():
        return far * _UP
    smooth, aside = smooth[fits], aside[fits]
    ratio = smooth / (least - smooth)  # s^2 = least r / (1 + r)
    q = np.exp(-2 * math.pi**2 * smooth)
    excess = entries * (np.log1p(q) - np.log1p(-q))
    left = np.exp(-excess) * scipy.special.ndtr(aside) * miss / 2
    near = -scipy.special.ndtri(left) * np.sqrt(1 + ratio) + aside * np.sqrt(ratio)
    return min(far, float(near.min())) * _UP
