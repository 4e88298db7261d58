# Every target works from a fresh clone; what is set up already is not set up again.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
BASE := $(VENV)/.stamp-base
SETUP := $(VENV)/.stamp-setup
RAY := $(VENV)/.stamp-ray
MEGATRON := $(VENV)/.stamp-megatron
MODELS := $(VENV)/.stamp-models
TEST_WORKERS ?= auto
TESTS ?= tests

.PHONY: help setup demo test test-browser test-ray test-frameworks test-models bench lint format gallery docs clean

help:
	@echo "setup   create $(VENV) with the tantamount command and everything the tests need"
	@echo "demo    prove four pairs of programs and refute their wrong twins (no PyTorch needed)"
	@echo "test    run the tests (TESTS=path selects, TEST_WORKERS=n processes)"
	@echo "test-browser  install Chromium and Jupyter and run the tests of HTML reports and of the notebook"
	@echo "test-models  install transformers and ONNX Runtime beside it and run the tests that need them"
	@echo "test-ray  install Ray beside it and run tests/cluster on a local cluster of two nodes"
	@echo "test-frameworks  install Megatron-Core and torchtitan beside it and run tests/frameworks: plans from what frameworks do"
	@echo "bench   measure cost and run the long soundness checks"
	@echo "lint    ruff check, ruff format --check, pyright"
	@echo "format  ruff format and ruff's safe fixes"
	@echo "gallery run examples/gallery and the notebook; write docs/gallery and the notebook's outputs"
	@echo "docs    build the documentation into site/"
	@echo "clean   remove what the targets above made"

setup: $(SETUP)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(BASE): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

# PyTorch first and alone, so that nothing else decides which build of it is taken. All cores compile what is installed.
$(SETUP): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --no-compile torch==2.13.0
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[torch,smt,dev]'
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib src || true  # some files are templates
	@touch $@ $(BASE)

# What is named wrong.toml is wrong on purpose: exit code 1 (REFUTED) is what is expected of it, and nothing else.
demo: $(BASE)
	@for shown in "refine examples/mlp_tp2/job" "refine examples/gpt_tp2/job" \
	  "compare examples/attention/job" "plan verify examples/plans/llama3_405b/plan"; do \
	  for file in $${shown##* } $$(dirname $${shown##* })/wrong; do \
	    echo "\$$ tantamount $${shown% *} $$file.toml"; \
	    $(BIN)/tantamount $${shown% *} $$file.toml; code=$$?; echo; \
	    case $$file in */wrong) wanted=1 ;; *) wanted=0 ;; esac; \
	    test $$code -eq $$wanted || { echo "demo: expected exit code $$wanted, got $$code"; exit 1; }; \
	  done; \
	done

# Who is done takes half of what another has left: the slow tests are next to each other. Bytecode is written also where
# the environment says otherwise: hundreds of tests start the command.
test: export PYTHONDONTWRITEBYTECODE =
test: $(SETUP)
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --maxprocesses=8 --dist worksteal $(TESTS)

# Chromium is Debian's where apt-get may install it, else Playwright's own.
test-browser: $(SETUP)
	@command -v chromium > /dev/null || { apt-get update -qq && apt-get install -y -qq chromium; } \
	  || $(BIN)/python -m playwright install chromium
	$(BIN)/python -m pip install --quiet nbclient nbformat ipykernel
	$(BIN)/python -m pytest tests/unit/report/html tests/acceptance/test_html_reports.py tests/golden/test_notebook.py

$(MODELS): $(SETUP)
	$(BIN)/python -m pip install --quiet --editable '.[models]' onnx onnxruntime
	@touch $@

test-models: $(MODELS)
	$(BIN)/python -m pytest tests/acceptance/test_transformers.py tests/unit/fuzz/test_planted.py tests/unit/capture/test_onnx.py

$(RAY): $(SETUP)
	$(BIN)/python -m pip install --quiet --editable '.[ray]'
	@touch $@

test-ray: $(RAY)
	$(BIN)/python -m pytest tests/cluster

$(MEGATRON): $(SETUP)
	$(BIN)/python -m pip install --quiet --editable '.[megatron,torchtitan,models]' torchvision==0.28.0 timm flax
	@touch $@

test-frameworks: $(MEGATRON)
	TANTAMOUNT_FRAMEWORKS=1 $(BIN)/python -m pytest tests/frameworks

bench: $(SETUP)
	@set -e; for file in benchmarks/bench_*.py benchmarks/fuzz_*.py benchmarks/mutants.py; do echo "== $$file"; $(BIN)/python $$file; done

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(SETUP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

gallery: $(SETUP)
	$(BIN)/python tests/support/gallery.py
	$(BIN)/python tests/support/notebook.py

docs: $(SETUP)
	PYTHONPATH=tests $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) site dist build .pytest_cache .ruff_cache .hypothesis .benchmarks
