# `make run` and `make test` need Python 3.11 or newer and nothing else.
PYTHON ?= python3
SOURCE ?=
HOST ?= 127.0.0.1
PORT ?= 8000
VENV := .venv
BIN := $(VENV)/bin
# More than two cores: tests wait for servers and browsers a third of their time.
WORKERS ?= 4
PARTS := browser agents crash random
# What Python compiles is kept: hundreds of processes of the tests would otherwise compile the same files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-long $(PARTS:%=test-long-%) compiled check lint bench bench-live messages docs demo vendor wheel sbom audit clean

run: $(VENV)/run.stamp ## open SOURCE (folders, files, URLs), or the demo
	@$(BIN)/adkweb $(SOURCE) --host $(HOST) --port $(PORT)

test: ## everything: linters, then all tests against real servers and a real browser
	$(MAKE) --jobs 2 lint compiled
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -m "not long"

test-long: $(PARTS:%=test-long-%) ## what takes over an hour: every page and format, more crashes (KILLS=1000 for more), more random examples

# Each part runs alone, too: make test-long-crash. Pytest says at the end how long it took.
$(PARTS:%=test-long-%): test-long-%: $(VENV)/test.stamp
	HYPOTHESIS_PROFILE=long $(BIN)/python -m pytest --timeout 3600 -n $(WORKERS) --dist loadgroup -m "part(name='$*')"

# In a fresh clone, each worker would compile all tests at once with the others. Here a core that linters leave idle does it.
compiled: $(VENV)/test.stamp
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null || true  # the run itself shows what is wrong

check: $(VENV)/test.stamp ## the tests that belong to one file: make check FILE=sessions_app/writes/append.py
	@$(BIN)/python -m tests.check $(FILE)

lint: $(VENV)/test.stamp $(VENV)/node.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/djlint templates --lint --quiet
	cd frontend && ../$(BIN)/node node_modules/@biomejs/biome/bin/biome ci ..

bench: $(VENV)/test.stamp ## beside google-adk in the same run: appends, pages, time travel, search; what roles, masks and approval cost, and what an agent notices of adkweb, a companion and a replay (SIZE=0.01 to try it)
	$(BIN)/python -m benchmarks.appends
	$(BIN)/python -m benchmarks.pages
	$(BIN)/python -m benchmarks.history
	$(BIN)/python -m benchmarks.search
	$(BIN)/python -m benchmarks.access
	$(BIN)/python -m benchmarks.guest
	$(BIN)/python -m benchmarks.companion
	$(BIN)/python -m benchmarks.replay

bench-live: $(VENV)/test.stamp ## from a commit to one browser and to 200 watchers; from an agent's word to the page; reading a long session in the browser
	$(BIN)/python -m benchmarks.live
	$(BIN)/python -m benchmarks.running
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.feel

messages: $(VENV)/test.stamp ## gather the words to translate, and compile the catalogues
	$(BIN)/python -m tests.messages

docs: $(VENV)/test.stamp ## write what is made from the code: docs/guarantees.md, and the table of routes in docs/api.md
	$(BIN)/python -m tests.guarantees
	$(BIN)/python -m tests.api_docs

demo: $(VENV)/test.stamp ## record the demo again
	$(BIN)/python examples/record.py

vendor: $(VENV)/node.stamp ## rebuild static/vendor
	$(BIN)/pip install --quiet --disable-pip-version-check "fonttools[woff]==4.68.0"
	$(BIN)/python frontend/vendor.py

wheel: $(VENV)/test.stamp ## dist/*.whl, byte for byte the same from the same commit
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -t wheel -d dist

sbom: $(VENV)/test.stamp ## dist/adkweb.cdx.json: what users install with adkweb, as CycloneDX
	$(BIN)/python -m tests.sbom dist/adkweb.cdx.json --requirements dist/requirements.txt

audit: sbom ## known vulnerabilities of what users install; asks PyPI, so it is no part of `make test`
	$(PYTHON) -m venv build/audit
	build/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement dist/requirements.txt

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("adkweb needs Python 3.11 or newer; this is %d.%d. Name another: make PYTHON=python3.12" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "Making $(VENV), an environment of adkweb's own …"
	@$(PYTHON) -m venv $(VENV)

# The agents of the demo run with google-adk.
$(VENV)/run.stamp: pyproject.toml | $(BIN)/python
	@echo "Installing adkweb and what it needs into $(VENV); the first time, that takes a minute …"
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable . "google-adk>=2.13,<3"
	@touch $@

$(VENV)/test.stamp: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check --editable ".[test]"
	$(BIN)/python tests/install_browser.py
	@touch $@ $(VENV)/run.stamp

$(VENV)/node.stamp: frontend/package-lock.json tests/js/package-lock.json | $(VENV)/test.stamp
	export PATH="$(abspath $(BIN)):$$PATH" && for folder in frontend tests/js; do \
	( cd $$folder && { npm ci --silent --no-audit --no-fund || npm ci --no-audit --no-fund; } ) || exit 1; done
	@touch $@

clean:
	rm -rf $(VENV) frontend/node_modules tests/js/node_modules .mypy_cache .ruff_cache .pytest_cache
