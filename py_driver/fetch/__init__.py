"""Pinned archives, fetched into the user's cache and unpacked; standard library only.

Runs in the driver and, by `toolchains/fetch.py`, in repository rules under the machine's own python3. The driver uses
`parse_entry` and `fetch_all`; a repository rule uses the command `get`.
"""
