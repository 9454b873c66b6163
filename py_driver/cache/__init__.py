"""The driver's cache: its contents, and the server that shares it with other machines."""
