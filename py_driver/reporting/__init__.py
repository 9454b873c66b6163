"""Reports of a build, for people and for programs."""
