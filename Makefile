# `make demo` and `make test` set everything up by themselves; they need Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CODE := amem_integrations langchain_amem llamaindex_amem examples tests benchmarks

# The tests and the demo never need a model hub.
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test lint types docs format bench clean

demo: $(VENV)/ready
	$(BIN)/python examples/demo.py

test: $(VENV)/ready
	$(BIN)/python -m pytest -n auto --dist loadfile

lint: $(VENV)/ready
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports

types: $(VENV)/ready
	$(BIN)/mypy

docs: $(VENV)/ready
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

format: $(VENV)/ready
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

bench: $(VENV)/ready
	$(BIN)/python benchmarks/search.py

$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo-memory
