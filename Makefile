# Two commands for a newcomer: `make run` and `make test`. Both install what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The environment is up to date when this file is newer than the locks.
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help install install-dev run up down status test faults lint bench lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "contextgraph needs Python 3.11 or newer: make PYTHON=python3.11 …")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing the pinned dependencies into $(VENV) (about 1.5 GB, once) …"
	@$(PIP) -r requirements.lock
	@touch $@

$(READY_DEV): $(READY) requirements-dev.lock
	@$(PIP) -r requirements-dev.lock
	@touch $@

install: $(READY) ## virtual environment with the pinned dependencies
install-dev: $(READY_DEV) ## the same with the tools of `make test` and `make lint`

run: $(READY) ## the main job on the two bundled example runs: post, score, audit
	@$(BIN)/python manage.py run_example

up: $(READY) ## keep everything running in this terminal: servers, consumer, workers, scheduler, admin
	@$(BIN)/python manage.py up

down: $(READY) ## stop everything of this checkout
	@$(BIN)/python manage.py down

status: $(READY) ## what runs, and where the admin is
	@$(BIN)/python manage.py status

test: $(READY_DEV) ## the tests (real Postgres, real broker, started by the tests themselves)
	@$(BIN)/python -m pytest -n 2 --dist loadscope --no-loadscope-reorder $(ARGS)

faults: $(READY_DEV) ## only the fault tests: real servers and workers, killed
	@$(BIN)/python -m pytest tests/faults $(ARGS)

lint: $(READY_DEV) ## format, lint, types, direction of imports, migrations
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy contextgraph memory scoring manage.py
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run
	@$(BIN)/python manage.py json_schema --check

bench: $(READY_DEV) ## the benchmarks, on the bundled runs unless RUN_LOG names another
	@$(BIN)/python benchmarks/run_all.py $(ARGS)

lock: ## make the lock files anew from pyproject.toml
	@rm -rf $(VENV)-lock && $(PYTHON) -m venv $(VENV)-lock
	@$(VENV)-lock/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml","rb"))["project"]["dependencies"], sep="\n")' > $(VENV)-lock/in.txt
	@$(VENV)-lock/bin/python -m pip install -q --disable-pip-version-check -r $(VENV)-lock/in.txt
	@{ echo '# Pinned by `make lock` from pyproject.toml; do not edit.'; $(VENV)-lock/bin/python -m pip freeze | sed 's/+cpu$$//'; echo 'async-timeout==5.0.1; python_full_version < "3.11.3"'; } > requirements.lock
	@$(VENV)-lock/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml","rb"))["dependency-groups"]["dev"], sep="\n")' > $(VENV)-lock/dev.txt
	@$(VENV)-lock/bin/python -m pip install -q --disable-pip-version-check -c requirements.lock -r $(VENV)-lock/dev.txt
	@{ echo '# Pinned by `make lock` from pyproject.toml; do not edit.'; echo '-c requirements.lock'; $(VENV)-lock/bin/python -m pip freeze | sed 's/+cpu$$//' | grep -vxFf requirements.lock; } > requirements-dev.lock
	@rm -rf $(VENV)-lock

clean: ## remove the virtual environment; the data under .contextgraph stays
	rm -rf $(VENV)
