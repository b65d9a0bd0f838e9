# The commands of this project; `make help` lists them. Everything runs in .venv, which is made when missing.
PYTHON ?= python3
BIN := .venv/bin
PORT ?= 8080

.DEFAULT_GOAL := help
.PHONY: help setup run up down test lint types layers pytest test-cluster test-broker soak faults audit-deps format bench bench-quick docs lock clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## make .venv from the pinned requirements (done by every target that needs it)
	@$(PYTHON) infra/setup/venv.py

run: setup  ## two days of sample data through Airflow, from nothing to published tables
	@$(BIN)/python -m infra.embedded run

up: setup  ## start Airflow with its UI on loopback (PORT=8080, CONFIG=an onceover.yaml)
	@$(BIN)/python -m infra.embedded up --port $(PORT) $(if $(CONFIG),--config $(CONFIG))

down: setup  ## stop it
	@$(BIN)/python -m infra.embedded down

test: lint types layers pytest  ## everything that must hold: lint, types, layers, tests

lint: setup  ## ruff: rules and format
	@$(BIN)/ruff check --quiet && $(BIN)/ruff format --check --quiet && echo "lint: clean"

types: setup  ## mypy, strict, no exemptions
	@$(BIN)/mypy --no-error-summary && $(BIN)/mypy --no-error-summary infra/setup && \
		$(BIN)/mypy --no-error-summary infra/airflow_plugin && \
		$(BIN)/mypy --no-error-summary -p infra.embedded -p infra.cluster && echo "types: clean"

layers: setup  ## import-linter: who may import whom
	@$(BIN)/lint-imports --no-cache > .cache/layers.txt || { cat .cache/layers.txt; exit 1; }; echo "layers: kept"

pytest: setup  ## the tests alone
	@$(BIN)/python -m pytest -q -n 2 --dist loadgroup

test-cluster: setup  ## two runs on Postgres, Spark with two workers and an S3 server, as processes (minutes)
	@$(BIN)/python -m pytest -q -s -m cluster tests/cluster

test-broker: setup  ## a real Apache Kafka as judge (also part of `make test`; SEED=… repeats a run)
	@SEED=$(SEED) $(BIN)/python -m pytest tests/broker -m broker -n 2 --dist loadgroup

soak: setup  ## the same over random seeds (MINUTES=10), or one of them (SEED=…, TRIAL=capture, alone, tap, upkeep, tiered, cluster, moves, versions, workload or judge)
	@$(BIN)/python -m tests.broker.soak $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) \
		$(if $(TRIAL),--trial $(TRIAL))

faults: setup  ## every fault at every moment of two runs (up to an hour)
	@ONCEOVER_EVERY_FAULT=1 $(BIN)/python -m pytest -q -n 2 --dist loadgroup tests/faults

audit-deps: setup  ## look for changed packages and known vulnerabilities (needs a network, or ADVISORIES=…)
	@$(BIN)/python infra/setup/audit_deps.py $(if $(ADVISORIES),--advisories $(ADVISORIES))

format: setup  ## rewrite the code the way the formatter wants it
	@$(BIN)/ruff check --fix --quiet; $(BIN)/ruff format --quiet

bench: setup  ## measure at real volumes (minutes)
	@$(BIN)/python -m tests.bench

bench-quick: setup  ## measure at small volumes (seconds)
	@$(BIN)/python -m tests.bench --quick

docs: setup  ## build the documentation into build/site (links are checked)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet -f infra/docs/mkdocs.yml && echo "docs: build/site/index.html"

lock: setup  ## pin what pyproject.toml allows; pins that fit are kept (UPGRADE=all or a package lifts them)
	@$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-header -q -o requirements.txt \
		$(if $(UPGRADE),$(if $(filter all,$(UPGRADE)),--upgrade,--upgrade-package $(UPGRADE)))

clean:  ## remove everything that make has made
	@rm -rf .venv .cache build lake *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
