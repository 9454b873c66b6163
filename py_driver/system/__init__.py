"""What the machine gives: files, the environment, memory, virtual environments."""
