# Two commands: `make demo` shows the product at work, `make test` proves it. Both set up all they need.
# Needed on the machine: Linux x86_64, Python 3.11 or newer with venv, make; Bazel(isk) or Debian's package tools.

.PHONY: demo test test-all lint

demo:
	@./driver gen examples/relu
	@./driver demo examples/relu

test:
	@./driver --version >/dev/null
	@python3 tests/run.py

test-all:
	@python3 tests/run.py --all

lint:
	@python3 tests/run.py --lint
