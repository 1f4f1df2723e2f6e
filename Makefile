# `make demo` and `make test` set everything up by themselves; they need Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
CODE := amem_integrations langchain_amem llamaindex_amem examples tests benchmarks

# The tests and the demo never need a model hub.
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test test-lowest lint types docs format bench clean

demo: $(VENV)/ready
	$(BIN)/python examples/demo.py

test: $(VENV)/ready
	$(BIN)/python -m pytest -n auto --dist loadfile

# With the lowest versions that pyproject.toml allows; see CONTRIBUTING.md. The pages need LlamaIndex, which is left out.
test-lowest: $(LOWEST)/ready
	$(LOWEST)/bin/python -m pytest -n auto --dist loadfile tests/unit tests/integration tests/cli tests/langchain \
		--ignore tests/integration/test_examples.py

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

$(VENV)/ready: constraints.txt
$(VENV)/ready: WANTED := -c constraints.txt -e '.[dev]'

$(LOWEST)/ready: constraints-lowest.txt
$(LOWEST)/ready: WANTED := -c constraints-lowest.txt -e '.[minilm,openai,langchain,classic,langgraph,cli,evaluation,testing]'

$(VENV)/ready $(LOWEST)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -qq --disable-pip-version-check $(WANTED)
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) demo-memory
