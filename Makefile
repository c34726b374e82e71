# The two commands are `make demo` and `make test`. Both set up everything they need: Python ≥ 3.11, make and a package
# index are enough. No container, no running service, nothing outside this folder (servers keep their data in temporary ones).

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c '$(NEW_ENOUGH)' 2>/dev/null && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS ?=
# Compiled modules are kept: hundreds of processes are started here, and each would compile all of them again.
export PYTHONDONTWRITEBYTECODE :=
# Tests wait for servers and processes more than they compute.
JOBS ?= 4

.PHONY: help demo soak soak-flushes test run-tests check setup browser screenshots interop interop-newest node bench bench-quick lock clean

help:  ## Say what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile

demo: setup  ## Run the shop: 200 orders, killed workers, a ledger at the end (ORDERS=, SEED=, KEEP=1)
	@$(BIN)/python -m shop.demo

soak: setup  ## Run the shop under chaos: 3,000 orders while everything fails at random (ORDERS=, SEED=, SECONDS=, STRIKES=)
	@$(BIN)/python -m shop.soak

soak-flushes: setup  ## Prove the first promise: Valkey is emptied at 20 random moments of 2,000 orders (SEED=)
	@$(BIN)/python -m shop.soak --orders 2000 --flushes 20

test: setup node  ## Pass every check and every test (TESTS=path limits the tests, JOBS=1 runs them one by one)
	@$(MAKE) --no-print-directory --jobs=2 check run-tests || { echo "make: a check or a test has failed: see above" >&2; exit 1; }

run-tests:
	$(BIN)/pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(TESTS)

check: setup  ## Lint, format, types, layers: exactly what CI runs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

interop: setup node  ## Work with npm's BullMQ and Bull Board on one queue, both ways (part of `make test`; left out where there is no Node)
	$(BIN)/pytest -n 2 --dist loadfile tests/interop

interop-newest: setup node  ## The same with the newest BullMQ 6 there is; what it finds stops nothing
	-$(BIN)/python -m tests.interop.npm --newest && INTEROP_BULLMQ=newest $(BIN)/pytest -n 2 --dist loadfile tests/interop

browser: setup  ## Use the dashboard in a headless Chromium (part of `make test`; left out where there is none)
	$(BIN)/pytest tests/browser

screenshots: setup  ## Take pictures of every page of the dashboard, light, dark and narrow (SCREENSHOTS=folder)
	$(BIN)/pytest tests/browser -k every_page

node: setup
	@$(BIN)/python -m tests.interop.npm

bench: setup  ## Print the numbers that are promised: latency, commands per order, memory
	$(BIN)/python -m benchmarks

bench-quick: setup node  ## Compare with Node's BullMQ and the official Python port, side by side, in under three minutes
	@$(BIN)/python -m benchmarks.quick

setup: $(STAMP)  ## Make .venv and install the locked requirements

$(STAMP): requirements/dev.txt pyproject.toml
	@if ! { $(BIN)/python -c '$(NEW_ENOUGH)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1; then \
		"$(PYTHON)" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
			echo "make: Python 3.11 or newer is needed and '$(PYTHON)' is not one; name one: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
			exit 1; }; \
		rm -rf $(VENV); echo "making $(VENV)"; \
		"$(PYTHON)" -m venv $(VENV) || { \
			echo "make: $(PYTHON) cannot make a virtual environment; install its venv package (python3-venv on Debian and Ubuntu)," >&2; \
			echo "make: or name another Python: make $(MAKECMDGOALS) PYTHON=/path/to/python" >&2; \
			exit 1; }; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

lock:  ## Renew requirements/dev.txt (needs uv; keeps the pins that still fit)
	@command -v uv >/dev/null || { echo "make: renewing the lock needs uv on the PATH" >&2; exit 1; }
	uv pip compile --quiet pyproject.toml --extra all --group dev --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --output-file requirements/dev.txt

clean:  ## Remove what was made: .venv, caches, builds
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src shop tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
