PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# The user's own case: LLaMA-13B on an A100-40GB, the Azure conversation hour. See README.
DEMO := azure-2023-conv --model llama-2-13b --gpu a100-40gb --request-rate 1.0 \
	--policy preallocation --policy sliding_window:window=1024,sinks=4 \
	--policy paging:block_size=16 --policy paging:block_size=1 --policy paging:block_size=128

.PHONY: demo test check bench gpu clean

demo: $(VENV)/simulation
	$(BIN)/kvtwin simulate $(DEMO) -o out/demo

test: $(VENV)/tests
	$(BIN)/pytest -n 2

check: $(VENV)/tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# On a machine with an NVIDIA GPU and the executor's packages; REHEARSE=--rehearse runs it on a CPU.
gpu:
	$(PYTHON) -m executor.gpu $(REHEARSE) -o executor/results

clean:
	rm -rf $(VENV) out build *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("kvtwin needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/simulation: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/tests: pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/simulation
