"""build.toml as one typed model for all editions; `reader.read` is the entry point."""
