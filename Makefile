# tightdp: `make` prints what there is to make. Needs Python >= 3.11 and nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest
PIP    := python -m pip install --quiet --disable-pip-version-check

# One thread of linear algebra per test process, and no window from a plot.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export MPLBACKEND = Agg
# Tests start many processes: without bytecode each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo web shapes test check slow lowest docs bench clean

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo  ## Set up, then release a table: schema, preview, ledger, pictures
	$(BIN)/python examples/first_release.py

web: $(VENV)/.demo  ## Set up, then open the page in a browser
	$(BIN)/tightdp web

shapes: $(VENV)/.demo  ## Show the least noise for three statistics
	$(BIN)/python examples/least_noise.py

test: $(VENV)/.dev  ## Set up, then check style, types, tests, README and docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -n auto

check: test  ## The same as `make test`: the one command to know

slow: $(VENV)/.dev  ## The long statistical runs (TIGHTDP_SEED=0-9 sweeps seeds)
	$(BIN)/pytest -q -n auto -m slow

# Few tests that meet every outside library: what an old version lacks is missed by one of them.
OUTSIDE := src/tightdp/noise src/tightdp/schema.py src/tightdp/estimators/linear.py \
  src/tightdp/estimators/logistic.py src/tightdp/data tests/data/test_checks.py \
  tests/data/test_frames.py tests/laws/test_enrolled.py tests/ledger/test_ledger.py \
  tests/plans/test_plans.py tests/cli/test_commands.py

lowest: $(LOWEST)/.made  ## A few tests with the lowest versions that pyproject.toml allows
	$(LOWEST)/bin/pytest -q $(OUTSIDE)

docs: $(VENV)/.dev  ## Build the site in docs/_build/html, offline, warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_ext/offline.py docs/_build/html

bench: $(VENV)/.dev  ## Time the package: every script in benchmarks/
	@for script in $(wildcard benchmarks/*.py); do $(BIN)/python $$script || exit 1; done

clean:  ## Remove everything that was made, and the environment
	rm -rf $(VENV) $(LOWEST) docs/_build output build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'tightdp needs Python >= 3.11. Name one: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed again only when pyproject.toml or the constraints are newer than the stamp.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/$(PIP) -c constraints.txt -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/$(PIP) -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo

$(LOWEST)/.made: pyproject.toml constraints-lowest.txt | $(BIN)/python
	$(BIN)/python -m venv $(LOWEST)
	$(LOWEST)/bin/$(PIP) -c constraints-lowest.txt -e '.[all]' pytest hypothesis narwhals
	@touch $@
