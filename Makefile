# Every target works from a fresh clone; what is set up already is not set up again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.stamp-base
SETUP := $(VENV)/.stamp-setup
TEST_WORKERS ?= auto
TESTS ?= tests

.PHONY: help setup demo test bench lint format docs clean

help:
	@echo "setup   create $(VENV) with the tantamount command and everything the tests need"
	@echo "demo    prove one correct pair and refute one wrong one (no PyTorch needed)"
	@echo "test    run the tests (TESTS=path selects, TEST_WORKERS=n processes)"
	@echo "bench   measure cost and run the long soundness checks"
	@echo "lint    ruff check, ruff format --check, pyright"
	@echo "format  ruff format and ruff's safe fixes"
	@echo "docs    build the documentation into site/"
	@echo "clean   remove what the targets above made"

setup: $(SETUP)

$(BASE): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# PyTorch first and alone, so that nothing else decides which build of it is taken.
$(SETUP): $(BASE) pyproject.toml
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable '.[torch,dev]'
	@touch $@

# The second job is wrong on purpose: exit code 1 (REFUTED) is what the demonstration expects there, and nothing else.
demo: $(BASE)
	$(BIN)/tantamount refine examples/mlp_tp2/job.toml
	@echo
	@$(BIN)/tantamount refine examples/mlp_tp2/wrong.toml; code=$$?; \
	  test $$code -eq 1 || { echo "demo: expected REFUTED (exit code 1), got exit code $$code"; exit 1; }

test: $(SETUP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --maxprocesses=8 $(TESTS)

bench: $(SETUP)
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file; done

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(SETUP)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site dist build .pytest_cache .ruff_cache .hypothesis .benchmarks
