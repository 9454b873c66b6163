"""An author's daily work: new projects, builds for this machine, tests, benchmarks."""
