# make demo   installs Transbeam into .venv and runs it end to end on real text
# make test   installs the test tools and runs the tests
# make test-phone   runs the tests that ask MediaPipe and LiteRT-LM
# make test-studio   runs the tests of the studio's page in Chromium
# make test-jax   runs the tests of the model on JAX
# make test-package   uses a wheel, installed elsewhere, as users do
# make test-all   runs the thorough tests as well, PART=name those of a part
# make test-changed   runs the tests that a change can reach, nearest first
# make site   builds the documentation as a site in build/site

# What one run has compiled, the next one loads.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PHONE := .venv-phone
STUDIO := .venv-studio
SITE := .venv-site
# What a change of means: install again.
RECIPE := setup.py constraints.txt
# In the order of tests/conftest.py. By numbers of tests, files of a few long ones would
# come last, and one worker would wait for the other.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

.PHONY: demo test test-jax test-phone test-studio test-package test-all test-changed test-record \
	check format bench docs site clean

demo: $(VENV)/.installed
	$(BIN)/transbeam run configs/demo.yaml

test: $(VENV)/.test-installed
	$(BIN)/python -m pytest $(PARALLEL) -m "not thorough"

# A test runs once what it compiles, so XLA does not spend time on making it fast, nor
# JAX on where in the source each operation comes from.
test-jax: export KERAS_BACKEND := jax
test-jax: export JAX_TRACEBACK_IN_LOCATIONS_LIMIT := 0
test-jax: export XLA_FLAGS := --xla_backend_optimization_level=0 \
	--xla_llvm_disable_expensive_passes=true
test-jax: $(VENV)/.test-installed
	$(BIN)/python -m pytest $(PARALLEL) -m "not thorough" \
		tests/model tests/contracts tests/trainer/step/test_step.py \
		tests/trainer/base/test_adaptation.py tests/trainer/distillation/test_distillation_loss.py \
		tests/trainer/distribution/test_workers.py tests/trainer/optimizers transbeam/model

# Of what phones run only the programs, without Transbeam: they are asked as an app asks.
test-phone: $(VENV)/.test-installed $(PHONE)/.installed
	TRANSBEAM_PHONE_PYTHON=$(PHONE)/bin/python $(BIN)/python -m pytest -n auto \
		tests/serving/phone/mediapipe_tasks/test_mediapipe_models.py tests/serving/phone/conversion/test_litert_lm_bundle.py

# Playwright drives the browser of this machine: the variable TRANSBEAM_CHROMIUM, or the
# command chromium. Where there is none, the tests are skipped, and -rs says so.
test-studio: $(VENV)/.test-installed $(STUDIO)/.installed
	TRANSBEAM_STUDIO_PYTHON=$(STUDIO)/bin/python $(BIN)/python -m pytest -rs \
		tests/serving/studio/test_page.py tests/serving/studio/test_try_page.py

# The wheel, in an environment and a folder that are not the project's.
test-package: $(VENV)/.test-installed
	$(BIN)/python -m tests.installation

# Everything, in parts of at most 40 minutes: make test-all PART=serving
PART ?=
test-all: $(VENV)/.test-installed $(PHONE)/.installed $(STUDIO)/.installed
	$(BIN)/python -m tests.harness.parts $(PART)

# The tests that what has changed since a commit can reach: make test-changed SINCE=main
SINCE ?= HEAD
test-changed: $(VENV)/.test-installed
	$(BIN)/python -m tests.harness.reach $(SINCE)

# What each test executes, for test-changed.
test-record: $(VENV)/.test-installed
	$(BIN)/python -m tests.harness.reach.record

check: $(VENV)/.test-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/architecture/test_objective_parts.py

format: $(VENV)/.test-installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.test-installed
	$(BIN)/python -m bench

docs: $(VENV)/.test-installed
	$(BIN)/python -m tests.docs

# Needs no network but for its environment, and nothing of TensorFlow. A link that leads
# nowhere fails it; `mkdocs build --quiet` would not count warnings, and so not fail.
site: export NO_MKDOCS_2_WARNING := 1
site: $(SITE)/.installed
	$(SITE)/bin/python -m mkdocs build
	@echo "build/site is made; to read it with its search: python3 -m http.server -d build/site"

clean:
	rm -rf $(VENV) $(PHONE) $(STUDIO) $(SITE) build *.egg-info runs .stages .reach .test-reports

$(VENV)/.installed: $(RECIPE)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --upgrade pip
	$(BIN)/python -m pip install -qq -c constraints.txt -e .
	touch $@

$(VENV)/.test-installed: $(VENV)/.installed
	$(BIN)/python -m pip install -qq -c constraints.txt -e '.[test]'
	touch $@

$(PHONE)/.installed: $(RECIPE)
	$(PYTHON) -m venv $(PHONE)
	$(PHONE)/bin/python -m pip install -qq --upgrade pip
	$(PHONE)/bin/python -m pip install -qq -c constraints.txt litert-lm-api mediapipe
	touch $@

$(STUDIO)/.installed: $(RECIPE)
	$(PYTHON) -m venv $(STUDIO)
	$(STUDIO)/bin/python -m pip install -qq --upgrade pip
	$(STUDIO)/bin/python -m pip install -qq -c constraints.txt axe-playwright-python playwright
	touch $@

$(SITE)/.installed: $(RECIPE)
	$(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install -qq --upgrade pip
	$(SITE)/bin/python -m pip install -qq -c constraints.txt mkdocs-material 'mkdocstrings[python]' ruff
	touch $@
