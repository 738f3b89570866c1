# Every target sets up what it needs: the virtual environment from hash-locked requirements, and
# the control plane's programs, built once per version into a cache outside the repository.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
# Areas in which every requirement is carried by a test, save those of what is not made here, or not yet:
# what the dashboard may write (MS-014), the host worker (MS-095), and the image of Paperclip's operator (MS-209).
CLOSED := core,api,modules,deploy,hardware,gpu-intel,hostops,appliance,models,profiles,pods,catalog,freetoken,realtime,apps,access
CLOSED := $(CLOSED),palena-common,palena-gateway,palena-model,palena-ui,palena-observability,palena-mcp
EXCEPT := MS-014,MS-095,MS-209
UNIT := tests/unit tests/core tests/devcluster
# The longest first, in the order given, so that no processor waits for the last story alone.
TESTS := tests/e2e tests/integration tests/charts tests/devcluster tests/core tests/unit
# A file stays together. Each process has a control plane of its own, and most tests wait for one: four keep two
# processors busy, and need some 10 GiB of memory.
PROCESSES ?= 4
BESIDE := --numprocesses $(PROCESSES) --dist loadfile --no-loadscope-reorder
# What `make dev` can be told by name. A name that is none of these would be overlooked in silence.
WORDS := ONCE GPU MODULES MODELS APP PALENA ARGS PROCESSES PYTHON VENV
OTHER = $(filter-out $(WORDS),$(foreach each,$(.VARIABLES),$(if $(findstring command line,$(origin $(each))),$(each))))
# $(call switch,NAME,--flag): the flag where NAME says yes, nothing where it says no or is not there.
switch = $(if $(filter-out 0 no false off,$($(1))),$(if $(filter 1 yes true on,$($(1))),$(2),\
  $(error $(1) is a switch: $(1)=1 or $(1)=0, and not '$($(1))')))
# pytest's exit code where ARGS leaves no test of a kind.
NO_TESTS := 5
ARGS ?=
# Compiled once for all the processes that the tests start, and beside the sources, since these are delivered.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

.DEFAULT_GOAL := help
.PHONY: help setup dev test test-unit lint format crds reqs bench lock build clean clean-cache

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  make dev ONCE=1              until the appliance is Ready, then stop (exit 1 after a deadline)"
	@echo "  make dev GPU=mixed           nodes with GPUs: none, nvidia, amd, intel or mixed"
	@echo "  make dev MODULES=all         every module, or a list: MODULES=kubeai,anything-llm"
	@echo "  make dev MODELS=1 GPU=nvidia the models of examples/: on a processor, on a GPU, and elsewhere"
	@echo "  make dev APP=odysseus        an instance of an application, or of several: APP=openclaw,hermes, or all"
	@echo "  make dev PALENA=1            a gateway to models with a model, tools, a chat and traces: examples/palena"
	@echo "  make test ARGS='-k store'    only some tests"
	@echo "  make test PROCESSES=2        two files at a time instead of four, for machines with less than 10 GiB"
	@echo "  make test-unit ARGS=--hypothesis-profile=thorough   each property with twenty times as many examples"

setup: $(STAMP) ## create the virtual environment

$(STAMP): requirements-dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	  || { echo "Python 3.11 or newer is needed, and $(PYTHON) is older or does not run;" \
	    "name one that does: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "setting up $(VENV), once; this takes about a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

dev: $(STAMP) ## start a real control plane, run the operator on it, show the appliance getting Ready
	$(if $(OTHER),$(error make dev knows no $(OTHER); it knows $(WORDS)))
	@$(BIN)/python -m hack.dev $(call switch,ONCE,--once) $(if $(GPU),--gpu $(GPU)) \
	  $(if $(MODULES),--modules $(MODULES)) $(call switch,MODELS,--models) $(if $(APP),--app $(APP)) \
	  $(call switch,PALENA,--palena) $(ARGS)

test: lint ## lint, then all tests, on a real control plane where they need one
	@$(BIN)/python -m hack.requirements --closed $(CLOSED) --except $(EXCEPT)
	@$(BIN)/python -m hack.devcluster build
	@$(PYTEST) $(TESTS) -m alone $(ARGS) || [ $$? -eq $(NO_TESTS) ]
	@$(PYTEST) $(TESTS) -m "not alone" $(BESIDE) $(ARGS)

test-unit: $(STAMP) ## the tests that need no cluster, save those that measure (a minute on two processors)
	@$(PYTEST) $(UNIT) -m "not cluster and not alone" --numprocesses auto --maxprocesses 4 --dist loadfile $(ARGS)

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP) ## format the code and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

crds: $(STAMP) ## write manifests/crds, manifests/catalogs, schemas and the settings page from the code
	@$(BIN)/magicstick crds --output manifests/crds
	@$(BIN)/python -m magicstick.catalogs render
	@$(BIN)/magicstick settings --output docs/settings.md

reqs: $(STAMP) ## which requirements no test carries (ARGS=-v lists them)
	@$(BIN)/python -m hack.requirements $(ARGS)

bench: $(STAMP) ## measure latency, converge, cold start, scaling and memory beside their yardsticks
	@$(BIN)/python -m hack.devcluster build
	@$(BIN)/python -m hack.bench $(ARGS)

build: $(STAMP) ## build the control plane's programs into the cache
	@$(BIN)/python -m hack.devcluster build

lock: $(STAMP) ## renew requirements*.txt from pyproject.toml
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  pyproject.toml -o requirements.txt
	@$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --extra dev pyproject.toml -c requirements.txt -o requirements-dev.txt

clean: ## remove what the targets made in this folder
	rm -rf $(VENV) .dev .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .pycache bench-results dist

clean-cache: $(STAMP) ## remove the built programs as well
	@$(BIN)/python -m hack.devcluster clean
