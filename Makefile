# Two commands for newcomers: `make run` and `make test`. Each sets up all it needs.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
TESTS := $(VENV)/.tests
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help setup packages run test lint types layers format bench chaos soak fuzz generate sbom audit lock clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(RUNS): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "fabricmon needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version)"; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	       && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null; } \
	  || { echo "venv is missing: install your system's python3-venv package"; exit 2; }
	@echo "setting up $(VENV) (once; about a minute)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

$(TESTS): requirements-dev.lock $(RUNS)
	@echo "adding what tests and checks need"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@touch $@

setup: $(TESTS) ## make .venv with fabricmon and everything to develop it, as locked

packages: ## install the Debian packages that the wire tests talk to
	@bash tests/install-peers

run: $(RUNS) ## start the daemon on an embedded simulated fabric
	@exec $(BIN)/fabricmon run $(ARGS)

test: setup packages ## run every test (ARGS="-k name" to choose)
	@$(BIN)/python -m pytest -n 2 --cov --cov-report=term:skip-covered \
	  $(if $(ARGS),$(ARGS),--ignore=tests/chaos)
	@$(if $(ARGS),,$(BIN)/python -m pytest tests/chaos) # alone: they watch the clock

lint: setup ## ruff: style, annotations, docstrings, formatting
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: setup ## mypy, strict
	@$(BIN)/mypy

layers: setup ## import-linter: the floors of docs/architecture.md
	@$(BIN)/lint-imports

format: setup ## rewrite sources in the house format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format --quiet .

bench: setup packages ## print every benchmark as JSON lines (NAME=snmp for one)
	@$(BIN)/python tests/bench/run.py $(NAME)

chaos: setup packages ## kill, freeze and starve the daemon, step its clock (KILLS=n, 200 unless given)
	@CHAOS_KILLS=$(or $(KILLS),200) $(BIN)/python -m pytest tests/chaos $(ARGS)

soak: setup packages ## run the daemon for ten thousand polls, with many targets dead or lying
	@SOAK_POLLS=$(or $(POLLS),10000) $(BIN)/python -m pytest -s tests/chaos/test_soak.py $(ARGS)

fuzz: setup ## noise for every parser, FOR=600 seconds each (NAME=snmp for one)
	@$(INSTALL) --require-hashes -r requirements-fuzz.lock
	@$(BIN)/python tests/fuzz/run.py $(or $(FOR),600) $(NAME)

generate: setup ## write again what is generated: rules, runbooks, dashboards, metric reference
	@$(BIN)/python deploy/prometheus/generate.py
	@$(BIN)/python deploy/grafana/generate.py
	@$(BIN)/python docs/metrics.py
	@$(BIN)/python docs/config.py

sbom: setup ## print the bill of materials (CycloneDX)
	@$(BIN)/python deploy/release/supply_chain.py sbom

audit: setup ## the environment against the locks, offline (ADVISORIES=all.zip of osv.dev)
	@$(BIN)/python deploy/release/supply_chain.py audit $(ADVISORIES)

LOCK := uv pip compile --generate-hashes --universal --python-version 3.11 --no-header \
  --no-emit-index-url --upgrade
lock: ## renew what is locked (needs uv): what runs, and what tests need beside it
	$(LOCK) pyproject.toml --all-extras --group build -o requirements.lock
	$(LOCK) --group dev -c requirements.lock -o requirements-dev.lock

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage*
