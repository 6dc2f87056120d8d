# Everything that a fresh machine with Python 3.11, gcc and make needs, and nothing twice:
#   make demo      trains the digits CNN on ftm and compares it with the CPU
#   make test      all tests, or those of ARGS, in JOBS (2) processes
#   make test-ops  PyTorch's own databases of ops, modules and optimizers, whole, against the CPU; resumable
#   make test-strangers  campaigns of generated programs, expressions, values, strides and tool calls; counts at the end
#   make bench     recording cost and step times beside eager's, and products modelled on the real target
#   make lint      ruff (rules and format), mypy and clang-format: the rules are in pyproject.toml and .clang-format
#   make format    ruff over Python, clang-format over the recorder and the machine
#   make tidy      clang-tidy over recorder and machine, or over ARGS, files and folders; it is fetched the first time
#   make coverage  the tests of ARGS, and which lines of Python they did not reach
#   make sanitize  tests with the machine, and then those of RECORDED with recorder and machine, under address and
#                  undefined-behaviour sanitizers
#   make fuzz      damaged images, texts and cache files against the machine under address, undefined-behaviour and thread
#                  sanitizers, compiled programs of several cores, and random recorded programs against the CPU, with recorder
#                  and machine under sanitizers and without, for SECONDS (60) each
#   make build     only what the others need: .venv, the pinned packages, the C++ parts

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps

RECORDER_SOURCES := $(shell find csrc -name '*.cpp' -o -name '*.h' -o -name '*.inc')
MACHINE_SOURCES := $(shell find backend/ftm_backend/machine -name '*.cpp' -o -name '*.h') \
                   backend/ftm_backend/machine/sources.txt backend/ftm_backend/machine/build.py
FORMATTED := $(filter %.cpp %.h,$(RECORDER_SOURCES) $(MACHINE_SOURCES)) $(wildcard tests/locks/*.cpp)

.PHONY: demo test test-ops test-strangers bench lint format tidy coverage sanitize fuzz build clean
.DELETE_ON_ERROR:

demo: build
	$(BIN)/python examples/demo.py

# A file's tests stay in one process: they share what they compiled. A process that ends in a test, as after a timeout, would be
# started again with that test.
JOBS ?= 2
PARALLEL := --numprocesses $(JOBS) --dist loadfile --max-worker-restart 0
NONE := 5# what pytest ends with where ARGS names no such test
test: build
	$(BIN)/python -m pytest $(PARALLEL) -m "not alone" $(ARGS) || test $$? = $(NONE)
	$(BIN)/python -m pytest -m alone $(ARGS) || test $$? = $(NONE)

test-ops: build
	$(BIN)/python tests/opdb/run.py $(ARGS)

test-strangers: build
	$(BIN)/python tests/strangers/run.py --jobs $(JOBS) $(ARGS)

bench: build
	$(BIN)/python benchmarks/recording.py $(ARGS)
	$(BIN)/python benchmarks/step_time.py $(ARGS)
	$(BIN)/python benchmarks/torch_xla_overhead.py $(ARGS)
	$(BIN)/python benchmarks/target.py
	$(BIN)/python benchmarks/target_steps.py
	$(BIN)/python benchmarks/compile_time.py $(ARGS)

lint: $(STAMPS)/packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(FORMATTED)

format: $(STAMPS)/packages
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

# Not among the pinned packages: 140 MB that only this needs.
tidy: build
	$(BIN)/python -m pip install --quiet --disable-pip-version-check clang-tidy==22.1.8
	$(BIN)/python csrc/tidy.py $(ARGS)

# Subprocesses (the compiling worker, tools) count as well.
coverage: build
	COVERAGE_PROCESS_START=pyproject.toml $(BIN)/coverage run -m pytest $(ARGS)
	$(BIN)/coverage combine
	$(BIN)/coverage report --skip-covered --skip-empty

# Recording, views, writes, autograd, recurrent layers, attention, threads and faults.
RECORDED := tests/recorder tests/autograd/test_functions.py tests/autograd/test_outside.py tests/e2e/test_recurrent.py \
            tests/e2e/test_sharing.py tests/e2e/test_threads.py tests/e2e/test_index_faults.py tests/e2e/test_saving.py \
            tests/e2e/test_quantized.py tests/e2e/test_loops.py
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

# The packages: exact versions, PyTorch among them (one large download).
$(STAMPS)/packages: requirements.txt
	@mkdir -p $(STAMPS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ftm needs Python 3.11 or newer; set PYTHON=")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -r requirements.txt
	@touch $@

# The package itself, in place: Python sources are used where they lie.
$(STAMPS)/package: $(STAMPS)/packages pyproject.toml
	$(BIN)/python setup.py --quiet build_ext --inplace
	$(BIN)/python -m pip install --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

# The C++ parts; only what has changed is compiled.
$(STAMPS)/native: $(STAMPS)/package setup.py $(RECORDER_SOURCES) $(MACHINE_SOURCES)
	$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

clean:
	rm -rf $(VENV) $(STAMPS) build backend/ftm_backend/machine/build *.egg-info
	find ftm_lazy backend -name '*.so' -delete
