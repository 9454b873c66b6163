"""The system: files, the environment, memory, virtual environments."""
