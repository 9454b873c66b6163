"""A build from beginning to end."""
