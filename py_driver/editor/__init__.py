"""A project as an editor sees it: compile commands for clangd, the headers that they name, settings."""
