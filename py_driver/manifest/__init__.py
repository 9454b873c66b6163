"""build.toml as one typed model, whatever its edition; `reader.read` is the way in."""
