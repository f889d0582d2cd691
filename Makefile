# OpenMXU. `make demo` and `make test` are all that a newcomer needs; both install into .venv first.
.DEFAULT_GOAL := help
.NOTPARALLEL:  # pip installs one thing at a time, and tests take both cores
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# On a terminal pip shows what it downloads, and its bar.
PIP := $(BIN)/python -m pip install $(if $(shell test -t 2 && echo yes),,--quiet) --disable-pip-version-check --editable
QUICK := tests/test_architecture.py tests/openmxu/arith tests/openmxu/cli/test_cli.py tests/openmxu/runtime \
  tests/openmxu/spec tests/openmxu/test_catalog.py tests/openmxu/unit/test_pe.py tests/openmxu/area/pages \
  tests/openmxu/cells/test_liberty.py tests/openmxu_sim/golden tests/openmxu_sim/netlist \
  tests/openmxu_sim/engines/test_model.py tests/openmxu_sim/operands tests/openmxu_sim/studies/test_studies.py

.PHONY: help setup setup-browser setup-litex setup-models demo test quick slow thorough torture lint docs live boards wheel release size verify \
  verify-arithmetic verify-unit verify-engines verify-mutants faults bench study recipes networks layouts areas digits clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "OpenMXU needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 2; }
	@$(PYTHON) -m venv $(VENV)

# An extra of pyproject.toml that is installed has a file of its name. Each target below asks for what it needs.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	@echo "installing openmxu[$*] into $(VENV)$(SIZE.$*)"
	@$(PIP) '.[$*]'
	@touch $@

SIZE.demo := : 0.6 GB, half a minute
SIZE.all := : 1.5 GB, a minute
SIZE.zig := : 0.4 GB

setup: $(VENV)/.all ## make .venv and install from PyPI what all commands and tests need

setup-litex: $(VENV)/.all $(VENV)/.litex ## LiteX, too, for the SoC of docs/examples/litex: 130 MB; its tests are skipped without

setup-browser: $(VENV)/.all $(VENV)/.zig $(VENV)/.browser ## Playwright, too, which drives an installed Chromium: 165 MB; tests in a browser are skipped without

TORCH ?= torch==2.13.0+cpu
setup-models: $(VENV)/.all $(VENV)/.models ## PyTorch, JAX and ONNX, too, for networks on the unit: 1.4 GB; tests of them are skipped without

$(VENV)/.models: pyproject.toml | $(BIN)/python
	@echo "installing $(TORCH) with JAX and ONNX"
	@$(PIP) '.[torch,oracles,tensorboard,jax,onnx,study]' '$(TORCH)' || \
	  { echo "The index has no $(TORCH), a wheel for CPUs alone; make setup-models TORCH=torch takes its usual one"; exit 2; }
	@touch $@

demo: $(VENV)/.demo ## digits on the simulated unit, then areas of number formats; report in openmxu-demo/
	@$(BIN)/openmxu demo

digits: $(VENV)/.all $(VENV)/.models ## a CNN trained on digits, then run on the simulated accelerator: a minute
	@$(BIN)/python docs/examples/digits.py -o $(VENV)/digits.onnx

test: setup ## the tests, in eight minutes
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

quick: setup ## half of the tests in two minutes: arithmetic, one processing element, golden model, plumbing
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" $(QUICK)

slow: setup ## longer tests, in half an hour
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow and not thorough"

thorough: setup ## the longest tests, in a quarter of an hour; before a release
	@$(BIN)/python -m pytest -n 2 --dist worksteal -m thorough

# SEED=N instead of today's; ROUNDS=N times the usual number of files and command lines.
torture: setup ## damaged files, failing calls, random commands, sanitized C code: ten minutes
	@$(if $(SEED),OPENMXU_TORTURE_SEED=$(SEED)) $(if $(ROUNDS),OPENMXU_TORTURE_ROUNDS=$(ROUNDS)) \
	  $(BIN)/python -m pytest -n 2 --dist worksteal -m torture tests/torture

lint: $(VENV)/.all $(VENV)/.lint ## style, types, direction of dependencies
	@$(BIN)/ruff check
	@$(BIN)/ruff format --quiet --diff
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

docs: $(VENV)/.all $(VENV)/.docs ## the documentation, in docs/_build/html
	@$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@$(BIN)/sphinx-build -W --keep-going -q -b doctest docs docs/_build/doctest
	@echo "docs/_build/html/index.html"

live: $(VENV)/.all $(VENV)/.zig ## the pages in which the unit and the accelerator run, anew: live.html, docs/*.html
	@$(BIN)/python docs/live.py

boards: $(VENV)/.boards ## bitstreams in build/, for the boards that take a minute or three each
	@$(BIN)/openmxu board list --quick | cut -d' ' -f1 | sort -r | \
	  xargs -P 2 -I BOARD $(BIN)/openmxu board build BOARD -o build/BOARD

wheel: setup ## sdist and wheel in build/dist, and the wheel alone in an empty environment
	@rm -rf build/dist build/bare && $(BIN)/python -m build --outdir build/dist . >/dev/null
	@$(PYTHON) -m venv build/bare && build/bare/bin/pip install --quiet --disable-pip-version-check build/dist/*.whl
	@cd build/bare && bin/python -c 'import numpy; [numpy.save(f"{n}.npy", numpy.eye(5, dtype="f4")) for n in "AB"]' \
	  && for command in list "matmul A.npy B.npy" "verilog mxu_2x2 -o mxu.v" "wave -o wave.svg" "wave -o run.html" roofline; do \
	  bin/openmxu $$command >/dev/null || exit $$?; done
	@ls build/dist

size: $(BIN)/python ## lines of code and tests, words of documentation, and what they are to be at most
	@$(BIN)/python docs/size.py

release: docs wheel ## check that this commit can be released; docs/how-to/release.md says how
	@$(BIN)/python docs/release.py

# Each part has a record of its own, which can be made anew alone.
VERIFY.arithmetic := operands oracles
VERIFY.unit := every ports
VERIFY.engines := engine cycles
VERIFY.mutants := mutants controls
VERIFY := verify-arithmetic verify-unit verify-engines verify-mutants

verify: $(VERIFY) ## all proofs and exhaustive checks, under two hours; the records behind the documentation

$(VERIFY): verify-%: $(VENV)/.all $(VENV)/.jax
	@$(BIN)/openmxu verify --thorough $(VERIFY.$*:%=--only %) --json docs/reference/verification-$*.json; code=$$?; \
	  $(BIN)/python docs/records.py && exit $$code  # an open row is a row of the page, too

faults: setup ## thousands of faults on purpose, half an hour; the record behind the documentation
	@$(BIN)/openmxu verify --faults --json docs/reference/faults.json
	@$(BIN)/openmxu board selftest --faults 10000 --simulate icebreaker
	@$(BIN)/python docs/records.py

bench: setup ## how fast all engines are on this machine, 15 minutes; the record behind the documentation
	@$(BIN)/openmxu bench --json docs/reference/speed.json --plot docs/images/speed.svg
	@$(BIN)/python docs/records.py

networks: $(VENV)/.all $(VENV)/.models ## networks on simulated accelerators up to 128x128, word for word, three quarters of an hour; the record
	@$(BIN)/openmxu study networks --full --json docs/reference/networks.json
	@$(BIN)/python docs/records.py

recipes: $(VENV)/.all $(VENV)/.models ## networks trained by recipes of formats, scales and sums, an hour of two cores; the record
	@$(BIN)/openmxu study recipes --full --json docs/reference/recipes.json --plot docs/images/recipes.svg
	@$(BIN)/python docs/records.py

# PDK=FOLDER or OPENMXU_PDK: the process; PEERS=FOLDER: others' elements beside ours, as of openmxu area --peers.
layouts: setup ## formats laid out on IHP's open process, and pictures of an element and a unit, an hour and a half; the record
	@$(BIN)/openmxu study layouts $(if $(PDK),--pdk $(PDK)) $(if $(PEERS),--peers $(PEERS)) --json docs/reference/layouts.json
	@$(BIN)/openmxu layout pe $(if $(PDK),--pdk $(PDK)) --utilisation 0.95 -o build/element
	@$(BIN)/openmxu layout mxu --rows 4 --columns 4 --stages 4 --depth 16 $(if $(PDK),--pdk $(PDK)) --utilisation 0.8 -o build/unit
	@cp build/element/layers.svg docs/_static/element.svg && cp build/unit/layout.png docs/images/unit-layout.png
	@$(BIN)/python docs/records.py

study: $(VENV)/.all $(VENV)/.models ## networks trained with each arithmetic, and published ones, an hour and three quarters; the records
	@$(BIN)/openmxu study training --full --json docs/reference/training.json --plot docs/images/training.svg
	@$(BIN)/openmxu study pretrained --full --json docs/reference/pretrained.json
	@$(BIN)/openmxu study training --full --terms 4 --json docs/reference/training-terms.json
	@$(BIN)/openmxu study pretrained --full --terms 4 --json docs/reference/pretrained-terms.json
	@$(BIN)/python docs/records.py

AREAS := docs/reference/areas
# LAYER=FILE.npz, as docs/examples/layer.py writes it: energies with the operands of a layer, too.
areas: setup ## a full area report in build/area, an hour; its headlines behind the documentation
	@$(BIN)/openmxu area --full $(if $(LAYER),--layer $(LAYER)) -o build/area && mkdir -p $(AREAS)
	@cp build/area/summary.md build/area/*.svg $(AREAS)
	@$(BIN)/python docs/records.py

clean: ## remove what the targets above made
	rm -rf $(VENV) build openmxu-demo docs/_build
