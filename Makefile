# Everything runs in .venv, which the first call makes and later calls reuse.
# Paths are relative on purpose: make cannot handle a space in a target's path.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet install -c constraints.txt
PYTEST := $(PY) -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint format table rules bench corpus field clean FORCE

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/.runtime  ## run the two seed functions and draw what their gradients do
	@$(PY) -m gradsmith demo

test: $(VENV)/.dev  ## run the quick test suite (a few minutes on two cores)
	$(PYTEST) -n 2 --dist loadgroup -m "not slow"

test-all: $(VENV)/.dev  ## run every test, the slow ones too
	$(PYTEST) -n 2 --dist loadgroup

lint: $(VENV)/.dev  ## check style, format and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.dev  ## put the code into the project's format
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

table: $(VENV)/.dev  ## run the transform tests and write the support table
	$(PYTEST) -n 2 --dist loadgroup tests/transforms --support-table=write

rules: $(VENV)/.dev  ## write the pages of the rules of the check, docs/rules
	$(PY) -m gradsmith.check.report._pages

bench: $(VENV)/.bench  ## time the operations, beside those of other packages
	@$(PY) benchmarks/run.py

corpus: $(VENV)/.dev  ## judge the corpus with check, gradcheck and opcheck, and write docs/corpus.md (some minutes)
	@$(PY) benchmarks/check_corpus.py --docs

field: .field/.installed  ## check real packages in an environment of their own, and write docs/field-report.md (half an hour)
	@.field/venv/bin/python benchmarks/field.py --docs

clean:  ## remove .venv and the caches
	rm -rf $(VENV) .field .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- the environment --------------------------------------------------------------------------------
# Each step leaves a stamp as its last act, so an interrupted one is done again. The stamps lie inside
# .venv and vanish with it.

# A Python that has been removed or upgraded leaves a .venv that cannot start.
NO_VENV := $(shell [ -x $(PY) ] || echo FORCE)

# The editable install remembers where this folder is: a moved or copied folder needs a new one.
MOVED := $(or $(NO_VENV),$(shell [ "$$(cat $(VENV)/.home 2>/dev/null)" = "$$(pwd -P)" ] || echo FORCE))

$(VENV)/.created: $(NO_VENV)
	@command -v "$(PYTHON)" >/dev/null || { \
	  echo "gradsmith needs Python 3.11 or newer, and '$(PYTHON)' was not found:" \
	       "install it (Debian: apt install python3 python3-venv) or name one with: make PYTHON=/path/to/python3" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gradsmith needs Python 3.11 or newer, and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1):" \
	       "install a newer one and name it with: make PYTHON=/path/to/python3.11" >&2; \
	  exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments because its venv module is missing:" \
	       "install it (Debian: apt install python3-venv) and run make again" >&2; \
	  exit 1; }
	@"$(PYTHON)" -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: pyproject.toml constraints.txt $(MOVED) | $(VENV)/.created
	@rm -f $@ $(VENV)/.dev $(VENV)/.bench
	@echo "Installing gradsmith and PyTorch into $(VENV) (once, this can take some minutes)" >&2
	@$(PIP) -e .
	@pwd -P > $(VENV)/.home
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(MOVED) | $(VENV)/.created
	@rm -f $@ $(VENV)/.runtime $(VENV)/.bench
	@echo "Installing gradsmith and its development tools into $(VENV) (once, this can take some minutes)" >&2
	@$(PIP) -e '.[dev]'
	@pwd -P > $(VENV)/.home
	@touch $(VENV)/.runtime $@

# The other packages come without what they depend on: that would be another torch. Without them, their rows are left out.
$(VENV)/.bench: benchmarks/requirements.txt $(VENV)/.runtime
	@$(PIP) --no-deps -r benchmarks/requirements.txt || echo "The packages to compare with were not installed." >&2
	@touch $@

# Real packages, without what they depend on: that would be another torch. One of them is compiled against this one.
.field/.installed: docs/field/requirements.txt pyproject.toml constraints.txt $(VENV)/.created
	@rm -f $@
	@"$(PYTHON)" -m venv --clear .field/venv
	@echo "Installing real packages into .field/venv (once, this can take some minutes)" >&2
	@.field/venv/bin/python -m pip --disable-pip-version-check --quiet install -c constraints.txt -e '.[record]' numpy setuptools wheel
	@.field/venv/bin/python -m pip --disable-pip-version-check --quiet install --no-deps --no-build-isolation \
	  -c constraints.txt -r docs/field/requirements.txt
	@touch $@
