# Everything starts here. `make help` lists the targets.
#
# The environment lives in .venv and is made from requirements/*.txt, which name every package by
# version and hash. uv does the installing; it is itself installed into .venv when it is not on PATH.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
UV := $(BIN)/uv
export UV_PYTHON_DOWNLOADS = never
# Tests start hundreds of Pythons: where it is set, each would compile what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

ROOMS := protocol verdicts journal client offsets coordinator share transactions controller replication security log broker cli pipeline musterd
CODE := $(ROOMS) tests tools bench

.DEFAULT_GOAL := help
.PHONY: help run fast pipeline test check unit smoke compiled simulate campaign durations soak planted walk lock codecs golden coverage proofs dashboards pictures dist format clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(UV): requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Muster needs Python 3.11 or newer; say which with make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
	@touch $@

$(VENV)/broker.done: $(UV) requirements/broker.txt pyproject.toml
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/broker.txt
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/pipeline.done: $(VENV)/broker.done requirements/pipeline.txt
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/pipeline.txt
	@touch $@

$(VENV)/test.done: $(VENV)/pipeline.done requirements/test.txt
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/test.txt
	@git config core.hooksPath tools/hooks 2>/dev/null || true  # of a clone; an archive has no git
	@touch $@

run: $(VENV)/broker.done ## set up and start a broker on 127.0.0.1:9092, data in ./data
	exec $(BIN)/muster serve --listen 127.0.0.1:9092 --data ./data

fast: $(VENV)/broker.done ## compile the hot codecs with the system's C compiler, for a broker that uses less CPU
	$(BIN)/python tools/make_fast.py

pipeline: $(VENV)/pipeline.done ## set up what `muster pipeline` needs, Spark included

test: check unit smoke ## set up and run what a change must pass: 10 minutes on two cores

check: $(VENV)/test.done ## ruff, mypy, the import rules, the language and the proofs
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q -p no:randomly tests/house/test_language.py tests/house/test_proofs.py

# Three workers on two cores, here and below: many tests wait for a timer, a disk or a JVM.
PYTEST = $(BIN)/pytest -q -n 3 --dist worksteal $(ARGS)
OTHER_PROGRAMS = interop or faults or pipeline

unit: $(VENV)/test.done ## tests that need no other program
	$(PYTEST) --tier test -m "not ($(OTHER_PROGRAMS))"

smoke: $(VENV)/test.done ## one test of each kind with real programs: clients, kill -9, ZooKeeper, browser, Spark
	$(BIN)/python -m tests.java
	$(PYTEST) --tier test -m "$(OTHER_PROGRAMS)"

COMPILED_TESTS = tests/protocol/test_compiled_codecs.py tests/protocol/records/test_compiled_sections.py \
	tests/offsets/test_compiled_columns.py tests/log/test_compiled_keys.py
SANITIZED = CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=undefined -g" \
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc

compiled: fast $(VENV)/test.done ## test protocol, offsets, groups and simulations with compiled codecs, then the codecs with sanitizers
	$(PYTEST) --tier test -m "not ($(OTHER_PROGRAMS))" tests/protocol tests/offsets tests/coordinator tests/simulation
	$(SANITIZED) $(BIN)/pytest -q --tier test -k "not no_memory" $(COMPILED_TESTS)

simulate: $(VENV)/test.done ## run the simulations again from one seed: make simulate SEED=4711
	SEED=$(SEED) $(BIN)/pytest -q tests/simulation -k "in_a_simulated" --tier test

SLICE ?= 1 2 3 4 5 6
# The slice that runs Kafka 4.3.1; the other slices run 4.4.0. KAFKA_RELEASE sets both.
OLDER ?= 6

campaign: $(VENV)/test.done ## everything else, in six slices of 6 to 9 minutes: make campaign SLICE=3 runs one
	$(BIN)/python -m tests.java
	$(BIN)/python -m tests.archives
	@failed=; for slice in $(SLICE); do \
		release=$${KAFKA_RELEASE:-$$([ $$slice = $(OLDER) ] && echo 4.3.1 || echo 4.4.0)}; \
		echo "slice $$slice of 6, Kafka $$release"; \
		KAFKA_RELEASE=$$release $(PYTEST) --tier campaign --slice $$slice || failed="$$failed $$slice"; \
	done; [ -z "$$failed" ] || { echo "failed slices:$$failed"; exit 1; }

durations: ## run the campaign and deal its tests to the slices anew, by how long each takes
	$(MAKE) campaign ARGS=--record-durations
	$(BIN)/python -m tests.tiers
	MUSTER_GOLDEN=write $(BIN)/pytest -q tests/house/test_planted_faults.py

soak: $(VENV)/test.done ## long campaigns, for hours
	$(BIN)/pytest -q --tier soak --timeout 7200 $(ARGS)

walk: $(VENV)/test.done ## print which functions a request runs, in order: make walk API=OffsetCommit
	@$(BIN)/python -m tests.walks $(API)

planted: $(VENV)/test.done ## list the planted faults and where each is found
	@$(BIN)/python -m tests.planted

codecs: $(VENV)/test.done ## write protocol/generated and protocol/c/codecs.c anew
	$(BIN)/python tools/make_codecs.py

golden: $(VENV)/test.done ## write the golden conversations and sessions anew; review the diff
	$(BIN)/python tools/make_golden.py
	MUSTER_GOLDEN=write $(BIN)/pytest -q -k "golden and not kafka" tests/cli

coverage: $(VENV)/test.done ## write docs/use/coverage.md anew from the table of served APIs
	$(BIN)/python tools/make_coverage.py

proofs: $(VENV)/test.done ## write docs/internals/proofs.md from the marks of the tests
	$(BIN)/python tools/make_proofs.py

pictures: $(VENV)/test.done ## take the pictures in README anew (needs Chromium and eight minutes)
	$(BIN)/python tests/page/pictures.py
	$(BIN)/python tests/pipeline/pictures.py

dashboards: $(VENV)/test.done ## write dashboards/grafana anew from their description
	$(BIN)/python tools/make_dashboards.py

dist: $(VENV)/broker.done ## build what is given to others, into dist/: wheel, sdist, muster.pyz, container image
	$(BIN)/python tools/make_dist.py

format: $(VENV)/test.done ## let ruff format the code
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

COMPILE = $(UV) pip compile --quiet --generate-hashes --universal --python-version 3.11 \
	--no-header --no-emit-index-url --no-annotate

lock: $(UV) ## choose versions anew and write requirements/*.txt
	$(COMPILE) pyproject.toml requirements/build.in -o requirements/broker.txt
	$(COMPILE) --group test -c requirements/broker.txt -o requirements/test.txt
	echo 'pyjwt[crypto]' | $(COMPILE) - -c requirements/test.txt -o requirements/oauthbearer.txt
	$(COMPILE) --extra pipeline pyproject.toml -c requirements/test.txt -o requirements/pipeline.txt
	echo uv | $(COMPILE) - -o requirements/uv.txt

clean: ## remove the environment and caches, not the data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
