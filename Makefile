# tightdp: `make` prints what there is to make. Needs Python >= 3.11 and nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# One thread of linear algebra per test process, and no window from a plot.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export MPLBACKEND = Agg

.DEFAULT_GOAL := help
.PHONY: help demo shapes test check slow docs bench clean

help:  ## Print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.demo  ## Set up, then release a table: schema, preview, ledger, pictures
	$(BIN)/python examples/first_release.py

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

docs: $(VENV)/.dev  ## Build the site in docs/_build/html, offline, warnings are errors
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/_ext/offline.py docs/_build/html

bench: $(VENV)/.dev  ## Time the package: every script in benchmarks/
	@for script in $(wildcard benchmarks/*.py); do $(BIN)/python $$script || exit 1; done

clean:  ## Remove everything that was made, and the environment
	rm -rf $(VENV) docs/_build output build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'tightdp needs Python >= 3.11. Name one: make PYTHON=/path/to/python3.11'; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Installed again only when pyproject.toml is newer than the stamp.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.demo
