# `make demo` shows the product at work, `make test` proves it; CONTRIBUTING.md has the other tiers. All set up what they need.
# Needed on the machine: Linux on x86_64 (or Arm), Python 3.11 or newer with venv, make; Bazel(isk) or Debian's package tools.

.PHONY: demo test test-ci test-all lint pages site bench release

demo:
	@./driver gen examples/relu
	@./driver demo examples/relu

test:
	@./driver --version >/dev/null
	@python3 tests/run.py

test-ci:
	@./driver --version >/dev/null
	@python3 tests/run.py ci

test-all:
	@python3 tests/run.py all

lint:
	@python3 tests/run.py lint

# The generated pages, and the generated parts of others, written anew.
pages:
	@python3 tests/run.py pages

# The pages as a searchable site, in docs/_build/html.
site:
	@python3 docs/site/build.py

# Hours, with ninja on PATH; cmake, ccache and sccache for their columns. WORK is an empty directory, not below /tmp.
bench:
	@test -n "$(WORK)" || { echo "make bench WORK=DIR: name an empty directory, not below /tmp"; exit 2; }
	@python3 bench/benchmark.py --work "$(WORK)" --out bench/results.json
	@python3 bench/page.py

# The wheel, the source archive, the Bazel module and its registry, an SBOM and checksums, in dist/release.
release:
	@rm -rf dist/release
	@python3 tests/run.py release
