"""Files for editors: compile commands for clangd, the headers that they name, settings."""
