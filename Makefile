# `make demo` and `make test` are all that a fresh machine with Python 3.11+ and Java 17+ needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
INSTALLED := $(VENV)/.heeler-installed
READY  := $(VENV)/.heeler-ready
SHELL  := /bin/bash
# Modules are compiled when they are first imported: most of what is installed never is.
PIP     = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e
.DEFAULT_GOAL := help
# If a container image sets this, every process that tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE
NIGHTLY := variants histories fuzz api-fuzz transforms-differential connectors chaos executors
.PHONY: help demo test test-jars test-parts test-pure test-pure-records test-pure-data test-pure-worker test-pure-others test-others lint ruff types herder-doc plugins-doc nightly $(NIGHTLY) bench wheel clean

help:
	@echo "make demo       move real data through heeler: CSV files, Kafka, Parquet, with a check of every count"
	@echo "make test       lint, types and tests (fetches Kafka once)"
	@echo "make test-pure  lint, types and the tests that need neither Kafka nor Spark"
	@echo "make lint       ruff and mypy"
	@echo "make herder-doc  regenerate the table and the diagram in docs/herder.md"
	@echo "make plugins-doc  regenerate docs/plugins.md"
	@echo "make variants   run second variants of what make test shows (a few minutes)"
	@echo "make histories  run 10,000 random histories of simulated clusters, 1,000 examples of each property (half an hour or more)"
	@echo "make fuzz       process 1,000,000 hostile records for internal topics (about ten minutes; other records with HEELER_FUZZ_FIRST=10000)"
	@echo "make api-fuzz   run schemathesis against every operation of the REST API and its links (about ten minutes)"
	@echo "make transforms-differential  compare 100,000 random chains of transforms with Java's, others every day (ARGS='--seed 7'; needs javac; about twenty minutes)"
	@echo "make connectors  run Debezium, MirrorMaker, Iceberg and others (needs Debian's postgresql; a few minutes)"
	@echo "make chaos      kill everything at random, check every record (ARGS='--minutes 30 --seed 7')"
	@echo "make executors  move 6,000,000 records on a Spark cluster whose executors are killed, then the demo (ARGS='--kills 30'; a few minutes)"
	@echo "make nightly    run the eight commands above, one after the other, even if one fails (hours)"
	@echo "make bench      run microbenchmarks of the data plane and the control plane"
	@echo "make wheel      build dist/heeler-….whl, which pip installs anywhere"
	@echo "make clean      remove the environment and the files of tools"

$(INSTALLED): pyproject.toml constraints.txt
	@echo "== Setting up the environment in $(VENV) (once; a minute or two)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "heeler needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 (remove $(VENV) first)"; exit 2; }
	@rm -rf *.egg-info  # its entry points would hide the new ones
	@$(PIP) '.[dev]'
	@touch $@

$(READY): $(INSTALLED)
	@echo "== Compiling the data plane, recording Spark's classes (once; half a minute)"
	@$(BIN)/heeler warm 2>$(VENV)/warm.log || { cat $(VENV)/warm.log; exit 1; }
	@touch $@

demo: $(READY)
	@echo "== The demo: flights from a CSV file through Kafka into Parquet"
	@$(BIN)/heeler demo $(ARGS)

lint: ruff types

ruff: $(INSTALLED)
	@echo "== Lint (ruff)"
	@$(BIN)/ruff check .

types: $(INSTALLED)
	@echo "== Types (mypy, strict)"
	@$(BIN)/mypy

PURE_PARTS   := test-pure-records test-pure-data test-pure-worker test-pure-others

# Four processes for two cores, because tests also wait; each imports only what it tests.
PURE_RECORDS := $(addprefix tests/pure/spark_tasks/,connectors pipeline) tests/contract tests/examples
PURE_DATA    := $(filter-out $(PURE_RECORDS) tests/pure/%/__pycache__,$(patsubst %/,%,$(wildcard tests/pure/spark_tasks/*/))) \
	$(wildcard tests/pure/spark_tasks/test_*.py)
PURE_WORKER  := tests/pure/actors tests/pure/heeler
PURE_OTHERS  := $(wildcard tests/test_*.py tests/property/test_*.py) $(filter-out tests/pure/__% \
	tests/pure/spark_tasks $(PURE_RECORDS) $(PURE_WORKER),$(patsubst %/,%,$(wildcard tests/pure/*/)))
PURE_TESTS    = $(BIN)/python -m pytest -q -m 'not integration and not interop and not nightly'

# Beside each other: lint needs one of two cores, and so does the compiling.
test-pure: $(INSTALLED)
	@echo "== Lint, types, and the tests without Kafka and Spark"
	@$(MAKE) --no-print-directory -j 5 --output-sync=target lint $(PURE_PARTS)

test-pure-records: $(READY)
	@$(PURE_TESTS) $(PURE_RECORDS)

test-pure-data: $(READY)
	@$(PURE_TESTS) $(PURE_DATA)

test-pure-worker: $(READY)
	@$(PURE_TESTS) $(PURE_WORKER)

test-pure-others: $(READY)
	@$(PURE_TESTS) $(PURE_OTHERS)

# Only the files that have such tests: to import all others as well would take each process half a minute.
OTHERS = $(BIN)/python -m pytest --durations=15 -m '(integration or interop) and not nightly' \
	tests/contract $(sort $(shell grep -rlE 'mark\.(integration|interop)\b' tests --include='test_*.py'))

test-jars: $(INSTALLED)  # beside the tests, since it waits for the network
	@$(BIN)/python -m tests.rigs.jar_sets || echo "== Not all jars could be fetched: the tests that need them try again"

# The tests without Kafka and Spark keep two cores busy. The others wait for a good part of their time, so mypy runs beside them.
test: $(INSTALLED)
	@echo "== Lint, and the tests without Kafka and Spark"
	@$(MAKE) --no-print-directory -j 7 test-jars test-parts

test-parts: $(INSTALLED)
	@$(MAKE) --no-print-directory --output-sync=target ruff $(PURE_PARTS)
	@$(MAKE) --no-print-directory types test-others

# Four processes for two cores: each of them waits for most of its time. With the dozen processes that they start, a
# test may exceed its timeouts. It is reported and gets a second try without others; if it fails twice, that is a defect.
test-others: $(READY)
	@echo "== All other tests: real Kafka, real Spark, Java Connect"
	@$(OTHERS) -n 4 --dist loadfile || { test $$? -eq 1 && echo "== Repeating failed tests without others" && \
		$(OTHERS) --last-failed --last-failed-no-failures none; }

herder-doc: $(READY)
	@$(BIN)/python -m tests.rigs.herder.chart

plugins-doc: $(READY)
	@$(BIN)/python -m tests.rigs.plugins_page

variants: $(READY)
	@echo "== Second variants of what 'make test' shows"
	@$(BIN)/python -m pytest --durations=15 -n 2 --dist loadfile -m nightly \
		$(sort $(shell grep -rlE 'mark\.nightly\b' tests --include='test_*.py'))

histories: $(READY)
	@echo "== 10,000 random histories of simulated clusters, 1,000 examples of every property"
	@HEELER_HISTORIES=10000 $(BIN)/python -m pytest -q -n 2 --dist worksteal --hypothesis-profile=thorough \
		tests/pure/actors/herder tests/property $(shell grep -rlE '^from hypothesis' tests/pure)

fuzz: $(READY)
	@echo "== 1,000,000 hostile records through the folds, stores and herders of internal topics"
	@HEELER_FUZZ=1000000 $(BIN)/python -m pytest -q -n 2 --dist worksteal tests/property/test_internal_topics_fuzz.py

api-fuzz: $(READY)
	@echo "== REST: 300 examples of each operation and its links, different ones every day"
	@HEELER_API_EXAMPLES=300 $(BIN)/python -m pytest -q tests/integration/test_api_described.py

transforms-differential: $(READY)
	@echo "== Transforms: random chains and records, Java's results compared with heeler's"
	@$(BIN)/python -m tests.golden.transforms.record --cases 100000 --seed $$(date -u +%Y%m%d) $(ARGS)
	@$(BIN)/python -m tests.golden.transforms.record --cases 20000 --seed $$(date -u +%Y%m%d) --together $(ARGS)

connectors: $(READY)
	@echo "== Third-party connectors from Maven Central on a real worker"
	@$(PIP) '.[connectors]'
	@$(BIN)/python -m pytest -q -m connectors tests/connectors

chaos: $(READY)
	@echo "== Chaos: three workers, an exactly-once source, three sinks, and trouble"
	@$(BIN)/python -m tests.chaos.chaos $(ARGS)

executors: $(READY)
	@echo "== A Spark cluster whose executors are killed one after the other, at least once and exactly once; the demo"
	@$(BIN)/python -m tests.chaos.executors $(ARGS)

# What has new examples each time, or only repeats for long, or in another variant, what `make test` does once.
nightly:
	@$(MAKE) --no-print-directory --keep-going $(NIGHTLY)

BENCHES := records converters transforms rest assignment metrics

bench: $(READY)
	@for name in $(BENCHES); do echo "== Microbenchmarks: $$name"; $(BIN)/python -m tests.benchmarks.bench_$$name || exit; done

wheel: $(INSTALLED)
	@rm -rf build
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build
	@ls dist/heeler-*.whl

clean:
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
