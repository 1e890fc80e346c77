# Two commands do everything on a fresh machine with Python 3.11+: `make train` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Modules once compiled are kept, whatever the environment says: PyTorch alone takes seconds to compile at each start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: test pytest style types train lint format docs results clean

$(READY): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

lint: style types

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

train: $(READY)
	$(BIN)/sacbbf train MinAtar/SpaceInvaders-v1 --size tiny

# Types are checked beside the tests, which wait for processes now and then.
test: style
	$(MAKE) --no-print-directory -j 2 types pytest

# A worker that runs out of tests takes some of the other's, so that none waits while sweeps and trainings are left.
pytest: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Every run behind docs/results.md, which takes many hours; stopped, it goes on when started again.
results: $(READY)
	$(BIN)/python experiments/results.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
