# make figures     every figure at the default scale  (SCALE=smoke CORES=2 FIGURES="spectra rank")
# make test        the test suite
# make faults      kills, damaged files, unusual circumstances (FAULTS_FLAGS=--short: few of each)
# make bench       ratios of time behind docs/benchmarks.md (15 minutes; after make figures)
# make slurm       the workflow on a real SLURM, as root, 40 minutes (SLURM_FLAGS=--short: six)
# make lint        Snakemake's lint, snakefmt, ruff
# make docs        config/README.md, config/schema.json and docs/cli.md from models and commands
# make images      the README's figures, from results at the default scale  (FROM=project folder)
# make environment, clean-environment      set up .venv (about 1.6 GB), remove it
# make lock        re-pin requirements.lock from the environment in .venv
SCALE ?= default
CORES ?= all
FIGURES ?= all
PYTHON ?= python3
JOBS ?= 2
FROM ?= .
VENV := .venv
BIN := $(VENV)/bin
SNAKEMAKE_FLAGS ?=

# One thread per process: tests and jobs run side by side.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
export MKL_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help figures test bench faults slurm lint docs images lock environment clean-environment

help:
	@sed -n '/^# /s/^# //p' Makefile

environment: $(VENV)/.installed

$(VENV)/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else \
	  "hdattn needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2])'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

figures: environment
	$(BIN)/snakemake --cores $(CORES) $(SNAKEMAKE_FLAGS) --config scale="$(SCALE)" figures="$(FIGURES)"
	@$(BIN)/hdattn figures --scale "$(SCALE)" --figures "$(FIGURES)" --times

test: environment
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_FLAGS)

faults: environment
	$(BIN)/python tests/faults $(FAULTS_FLAGS)

bench: environment
	$(BIN)/python -m benchmarks $(BENCH_FLAGS)

slurm: environment
	$(BIN)/python tests/slurm $(SLURM_FLAGS)

lint: environment
	$(BIN)/snakemake --lint
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

docs: environment
	$(BIN)/python -m hdattn.configuration_docs
	$(BIN)/python -m hdattn.commands.reference

images: environment
	$(BIN)/python -m hdattn.gallery.readme --directory "$(FROM)"

lock: environment
	{ sed -n '/^#/p' requirements.lock; \
	  $(BIN)/python -m pip freeze --all --exclude-editable --exclude pip | sed 's/+cpu//'; } > requirements.new
	mv requirements.new requirements.lock

clean-environment:
	rm -rf $(VENV)
