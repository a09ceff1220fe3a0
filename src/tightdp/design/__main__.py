"""``python -m tightdp.design design.json``: verify designs; see :mod:`tightdp.design.proofs`."""

from __future__ import annotations

import sys

from tightdp.design.proofs import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
