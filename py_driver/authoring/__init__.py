"""An author's daily work: a project to begin with, a build for this machine, tests, benchmarks."""
