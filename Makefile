# `make app`, `make notebook` and `make test` set everything up in .venv first.
# Only python3 >= 3.11 with venv is assumed. uv is used when it is on the PATH.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
# One BLAS thread a process: two test workers share two cores
ONE    := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
UV     := $(shell command -v uv 2>/dev/null)
# Tests start many interpreters: they may cache bytecode even where the environment forbids it
export PYTHONDONTWRITEBYTECODE :=

ifeq ($(UV),)
  MAKE_VENV = $(PYTHON) -m venv $(VENV)
  PIP       = $(PY) -m pip install --quiet --disable-pip-version-check
  # dependency groups need pip 25.1
  INSTALL   = $(PIP) "pip>=25.1" && $(PIP) -c constraints.txt
else
  MAKE_VENV = $(UV) venv --quiet --python $(PYTHON) $(VENV)
  INSTALL   = $(UV) pip install --quiet --python $(PY) -c constraints.txt
endif

.PHONY: app notebook test docs lint format bench audit peers constraints clean

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit("privgmm needs python3 >= 3.11, found " + sys.version.split()[0] + "; pass PYTHON=/path/to/python3.11") if sys.version_info < (3, 11) else None'
	$(MAKE_VENV)

$(VENV)/.app: pyproject.toml constraints.txt | $(PY)
	$(INSTALL) -e ".[app]"
	$(PY) -m privgmm.compile_kernels
	@touch $@

$(VENV)/.notebook: pyproject.toml constraints.txt | $(PY)
	$(INSTALL) -e ".[notebook]"
	$(PY) -m privgmm.compile_kernels
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(PY)
	$(INSTALL) -e ".[app,notebook,scale,sign]" --group test --group dev --group docs
	$(PY) -m privgmm.compile_kernels
	@touch $@

$(VENV)/.tables: $(VENV)/.test
	$(INSTALL) --group tables
	@touch $@

# The dashboard, on http://localhost:8501
app: $(VENV)/.app
	$(PY) -m privgmm.dashboard.launch

# The interactive notebook, in JupyterLab
notebook: $(VENV)/.notebook
	$(PY) -m jupyterlab notebooks/private_mixtures.ipynb

lint: $(VENV)/.test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy --num-workers 2
	$(VENV)/bin/lint-imports --no-cache

format: $(VENV)/.test
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

test: lint
	$(ONE) $(PY) -m pytest -n 2 --dist worksteal -m "not study"

# The documentation as a site, in site/index.html
docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# Statistical studies, slower than a test run should be
audit: $(VENV)/.test $(VENV)/.tables
	$(PY) -m privgmm.audit
	$(ONE) $(PY) -m pytest -n 2 -m study -s

# Speed, as ratios within one run against what one would use instead
bench: $(VENV)/.test $(VENV)/.tables
	$(PY) -m benchmarks

# Other tools on the same rows, each in an environment of its own; writes docs/comparison.md
peers: $(VENV)/.test $(VENV)/.tables
	$(ONE) $(PY) -m benchmarks.peers

# The newest versions that all extras and groups allow together, into constraints.txt
constraints: $(PY)
	$(PY) -m pip install --quiet --disable-pip-version-check uv
	sed -n '/^#/p' constraints.txt > constraints.new
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --upgrade --all-extras \
	  --group dev --group test --group docs --group tables --no-annotate --no-header --no-emit-index-url \
	  pyproject.toml >> constraints.new
	mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) benchmarks/peers/.venvs site .mypy_cache .ruff_cache .pytest_cache
