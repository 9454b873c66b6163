"""The output of compilers and checks, as messages about an author's files."""
