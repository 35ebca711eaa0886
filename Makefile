# Every target sets up what it needs: a virtual environment in .venv with the project installed from this folder.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_DOCS := $(VENV)/.installed-docs
# LOCKED=1 installs the versions of requirements-lock.txt
PINS := $(if $(LOCKED),-c requirements-lock.txt)
BUILT_FROM := pyproject.toml hatch_build.py $(wildcard src/attangent/*/*/*/*.[ch])

.PHONY: setup demo test lint docs bench chaos gpu-check lock wheels clean

setup: $(INSTALLED_DEV)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(INSTALLED): $(BUILT_FROM) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check $(PINS) -e '.[adapters]'
	@touch $@

$(INSTALLED_DEV): $(BUILT_FROM) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check $(PINS) -e '.[dev]'
	@touch $(INSTALLED) $@

$(INSTALLED_DOCS): $(BUILT_FROM) | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check $(PINS) -e '.[docs]'
	@touch $(INSTALLED) $@

demo: $(INSTALLED)
	$(BIN)/attangent audit --profile quick --out audit-quick

# Child processes read the bytecode that the first one wrote, also where the environment forbids to write it.
test: $(INSTALLED_DEV)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

lint: $(INSTALLED_DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python src

chaos: $(INSTALLED_DEV)
	$(BIN)/python -m chaos $(PARTS) --out chaos-report $(ARGS)

docs: $(INSTALLED_DOCS)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python docs/tools/check_site.py site
	@echo "Open site/index.html in a browser; no server is needed."

gpu-check: $(INSTALLED_DEV)
	$(BIN)/python -m benchmarks.suites.attention.gpu_check

bench: $(INSTALLED_DEV)
	$(BIN)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

lock: $(INSTALLED_DEV)
	$(BIN)/pip list --format=freeze --exclude-editable | grep -v '^pip==' | sed 's/+cpu$$//' > requirements-lock.txt

wheels: $(INSTALLED_DEV)
	PYTHON=$(BIN)/python scripts/build-wheels dist

clean:
	rm -rf $(VENV) audit-quick audit-full chaos-report site
