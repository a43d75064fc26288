# The work is done by scripts/bootstrap (the environment) and by the tools themselves; here are only their names.
# Variables: PYTHON=/path/to/python3, UV= (use pip although uv is there), VENV=.venv, ARGS='...' (handed to burnin demo or pytest).
VENV = .venv
BIN = $(VENV)/bin
export VENV PYTHON
ifneq ($(origin UV),undefined)
export UV
endif

.NOTPARALLEL:
.PHONY: help demo test molecule check docs lock clean run-environment dev-environment

help:
	@echo 'make demo    a simulated rack with planted faults, through real Ansible, to a report (no GPU needed)'
	@echo 'make test    all tests that this machine can run'
	@echo 'make molecule  the roles on test nodes: containers, so as root on Debian (ARGS=ROLE for one role)'
	@echo 'make check   lint, types, Ansible lint, house rules'
	@echo 'make docs    remake docs/reference.md from the code'
	@echo 'make lock    remake requirements.txt and requirements-dev.txt (UPGRADE=--upgrade for newer versions)'
	@echo 'make clean   remove the environment and what the tools left'

demo: run-environment
	'$(BIN)'/burnin demo --verify $(ARGS)

test: dev-environment
	@scripts/bootstrap browser
	'$(BIN)'/python -m pytest -n 2 --dist loadfile $(ARGS)

molecule: dev-environment
	@tests/lab/run_molecule $(ARGS) || [ $$? = 77 ]

check: dev-environment
	'$(BIN)'/ruff check .
	'$(BIN)'/ruff format --check .
	'$(BIN)'/mypy --strict
	PATH="$(CURDIR)/$(BIN):$$PATH" ansible-lint --offline --strict
	'$(BIN)'/python -m pytest -q tests/test_house.py

docs: dev-environment
	'$(BIN)'/python scripts/reference.py

lock: dev-environment
	UV_CUSTOM_COMPILE_COMMAND='make lock' '$(BIN)'/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url $(UPGRADE) requirements.in -o requirements.txt
	UV_CUSTOM_COMPILE_COMMAND='make lock' '$(BIN)'/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url $(UPGRADE) requirements-dev.in -o requirements-dev.txt

clean:
	rm -rf -- '$(VENV)' .venv-demo .ansible .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf -- {} +

run-environment:
	@scripts/bootstrap run

dev-environment:
	@scripts/bootstrap dev
