# Two commands do all the set-up on a machine with Python and make:
#   make train    environment, install, and the default run on two towers
#   make test     environment, install, lint, and the tests
# and, where there are GPUs: make test-gpu; longer: make test-faults, runs that are killed, stopped and denied their disk; make test-long, the tests that would make that longer than 10 minutes; make test-versions, the tests of towers/ and models/ on TensorFlow 1.15, 2.4, 2.15 and 2.21.
#
# make benchmark measures against other ways to do the same, and writes BENCHMARKS.md (ARGS=--suite=full: hours).
#
# PYTHON=python3.11       the Python to build .venv with (3.10 to 3.13)
# NUM_GPUS=2 DEVICE=cpu   towers of `make train`; DEVICE=gpu puts each on a GPU of its own
# ARGS='...'              more flags for the script, or for pytest

VENV := .venv
NUM_GPUS ?= 2
DEVICE ?= cpu
SUPPORTED := import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python3.10 python; do \
	"$$p" -c '$(SUPPORTED)' >/dev/null 2>&1 && echo "$$p" && break; done)
INSTALL := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check

.PHONY: train test test-gpu test-long test-fuzz test-faults test-versions benchmark lint clean

train: $(VENV)/installed
	$(VENV)/bin/python scripts/train.py --config=configs/synthetic_pspnet.py --num_gpus=$(NUM_GPUS) \
		--device_type=$(DEVICE) --model_dir=runs/synthetic_pspnet $(ARGS)

test: lint
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m "not long and not faults" $(ARGS)

test-gpu: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m gpu -rs $(ARGS)

test-long: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile -m long $(ARGS)

test-faults: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m faults -rP $(ARGS)

test-fuzz: $(VENV)/installed-test
	$(VENV)/bin/python tests/fuzz/fuzz.py $(ARGS)

test-versions:
	tests/on_versions.sh

benchmark: $(VENV)/installed-test
	$(VENV)/bin/python scripts/benchmark.py $(ARGS)

lint: $(VENV)/installed-test
	$(VENV)/bin/ruff check .

clean:
	rm -rf $(VENV) $(VENV)-* runs data .pytest_cache .ruff_cache

$(VENV)/installed: requirements.txt | $(VENV)/bin/python
	@echo "installing requirements.txt into $(VENV) (TensorFlow is large: a few minutes) ..."
	$(INSTALL) -r requirements.txt
	@touch $@

$(VENV)/installed-test: requirements-test.txt requirements.txt | $(VENV)/bin/python
	@echo "installing requirements-test.txt into $(VENV) (TensorFlow is large: a few minutes) ..."
	$(INSTALL) -r requirements-test.txt
	@touch $@ $(VENV)/installed

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.10 to 3.13 found: install one, or name it: make PYTHON=/path/to/python"; \
		exit 1; }
	@"$(PYTHON)" -c '$(SUPPORTED)' || { echo "$(PYTHON) is not Python 3.10 to 3.13, or does not run"; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip' || { echo "this Python cannot make environments: install its venv package" \
		"(Debian, Ubuntu: apt-get install python3-venv)"; exit 1; }
	"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
