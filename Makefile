# make train   set everything up and run the main job
# make share   set everything up and compare policies on a crowded site
# make place   set everything up and compare policies that place jobs on a cluster
# make serve   set everything up and serve the planner on this machine
# make reproduce  set everything up and measure what the papers claim (QUICK=1: in minutes)
# make docs    set everything up and build the documentation: site/index.html
# make bench   measure us and our peers on the same work, in one run (QUICK=1: small sizes)
# make check   lint and the quick tests, in a few minutes (no browser, Ray, torch or PostgreSQL)
# make test    set everything up and run all checks
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help train share place serve reproduce docs bench test lint check unit format clean constraints

help:
	@sed -n 's/^# //p' Makefile

$(BIN)/.user: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(BIN)/.serve: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[serve,postgres]'
	touch $@ $(BIN)/.user

$(BIN)/.dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@ $(BIN)/.user $(BIN)/.serve $(BIN)/.docs $(BIN)/.bench

train: $(BIN)/.user
	$(BIN)/equipoise train

share: $(BIN)/.user
	$(BIN)/equipoise share

place: $(BIN)/.user
	$(BIN)/equipoise place

serve: $(BIN)/.serve
	$(BIN)/equipoise serve

reproduce: $(BIN)/.user
	$(BIN)/equipoise reproduce $(if $(QUICK),--quick)

$(BIN)/.docs: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@ $(BIN)/.user

docs: $(BIN)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo site/index.html

$(BIN)/.bench: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[plots]'
	touch $@ $(BIN)/.user

bench: $(BIN)/.bench
	$(BIN)/python benchmarks/peers/bench.py $(if $(QUICK),--quick) $(if $(KEEP),--keep)

check: lint
	$(BIN)/python -m pytest -q -n 2 --dist worksteal -m "not slow and not browser and not ray and not torch and not postgres"

test: lint unit

lint: $(BIN)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(BIN)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

format: $(BIN)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

constraints:
	uv pip compile --universal --all-extras --no-annotate --no-header --no-emit-index-url --python-version 3.11 pyproject.toml -o constraints.txt

clean:
	find src tests benchmarks -name "*.nb[ic]" -delete
	rm -rf $(VENV) .venv-peers runs site dist build .mypy_cache .ruff_cache .hypothesis
