# The menu of this repository. `make help` shows it; `make test` needs nothing but Python 3.11+.

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VENV4 := .venv-spark4
READY4 := $(VENV4)/.ready
UV := $(BIN)/python -m uv
PYTEST := $(BIN)/python -m pytest
FUZZ_CASES ?= 20000
SEEDS ?= 200

.DEFAULT_GOAL := help
.PHONY: help demo install lock fmt lint type layers test test-spark test-spark4 test-s3 test-api test-interop fuzz bench golden \
	sim sim-mutations api-up docs requirements requirements-check clean

help: ## show this menu
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-20s %s\n", $$1, $$2}'

$(READY): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "Lakehand needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'uv>=0.8'
	$(UV) pip sync --quiet --compile-bytecode --python $(BIN)/python --require-hashes requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@touch $@

# The same library beside the next PySpark, in an environment of its own.
$(READY4): requirements-spark4.lock $(READY)
	$(PYTHON) -m venv $(VENV4)
	$(UV) pip sync --quiet --compile-bytecode --python $(VENV4)/bin/python --require-hashes requirements-spark4.lock
	$(UV) pip install --quiet --python $(VENV4)/bin/python --no-deps --editable .
	@touch $@

install: $(READY) ## create .venv with everything that development needs

lock: $(READY) ## resolve all dependencies again, within pyproject.toml's ranges
	$(UV) pip compile pyproject.toml --quiet --all-extras --group test --group lint --group docs --group build \
		--universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--upgrade --output-file requirements.lock
	$(UV) pip compile pyproject.toml --quiet --extra spark --group test-spark4 \
		--universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--upgrade --output-file requirements-spark4.lock

fmt: $(READY) ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(READY) ## ruff, codespell
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell

type: $(READY) ## mypy, strict
	$(BIN)/mypy

layers: $(READY) ## check the directions of imports
	$(BIN)/lint-imports

demo: $(READY) ## a small lake, writers that collide, one that is killed, and right rows (needs no Java)
	$(BIN)/python -m lakehand.demo

test: $(READY) ## all tests that need neither a JVM nor a server (the README's second command)
	$(PYTEST) -m "not java and not s3 and not api and not spark"

test-s3: $(READY) ## the store's contract on real S3 servers, built from Go modules
	$(BIN)/python tests/support/s3_server.py
	$(PYTEST) -m s3

test-api: $(READY) ## the locks on a real kube-apiserver and etcd, built from Go modules
	$(BIN)/python tests/support/api_server.py
	$(PYTEST) -m api

api-up: $(READY) ## run a kube-apiserver and an etcd until Ctrl-C, and say how to reach them
	$(BIN)/python tests/support/api_server.py up

sim: $(READY) ## explore all scenarios of the simulator with random schedules (SEEDS=1000 make sim)
	$(BIN)/python tests/simulation/run.py --seeds $(SEEDS)

sim-mutations: $(READY) ## take every guard of the protocol out in turn, and see which checker notices
	$(BIN)/python tests/simulation/run.py --mutations --seconds 40

test-spark: $(READY) ## writing and reading through PySpark, on a JVM that is there or comes from PyPI
	$(PYTEST) -m "spark and not java and not s3"

test-spark4: $(READY4) ## the same on PySpark 4, in an environment of its own
	$(VENV4)/bin/python -m pytest tests/spark -m "spark and not java and not s3"

test-interop: $(READY) ## tables written here, read and written on by Apache Hudi in Java and by hudi-rs
	$(PYTEST) -m java

fuzz: $(READY) ## fuzz every parser, the same inputs each time (FUZZ_SECONDS=600 make fuzz for new ones, ten minutes each)
	FUZZ_CASES=$(FUZZ_CASES) $(PYTEST) tests/fuzz --numprocesses=2 --timeout=0

bench: $(READY) ## measure, each figure beside the machine's own limit or a peer, in one run
	@set -e; for file in bench/bench_*.py; do echo "== $$file"; $(BIN)/python $$file; done

golden: $(READY) ## make the golden tables again with Apache Hudi (needs a JVM and Maven Central)
	$(BIN)/python tests/golden/make/make.py

docs: $(READY) ## write the generated parts of docs/
	$(BIN)/python tests/support/journal_diagram.py --write
	$(BIN)/python tests/support/conflict_tables.py --write
	$(BIN)/python tests/support/store_calls.py --write
	$(BIN)/python tests/support/cli_examples.py --write

requirements: $(READY) ## write docs/requirements-proof.md: which test proves which requirement
	$(BIN)/python tests/support/requirements.py --write

requirements-check: $(READY) ## fail if docs/requirements-proof.md is stale
	$(BIN)/python tests/support/requirements.py --check

clean: ## remove the environment and caches
	rm -rf $(VENV) $(VENV4) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
