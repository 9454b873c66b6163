"""The environment of actions.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# It is complete: no variable of the host's reaches a tool. PATH names no existing directory, so nothing is found by
# accident. clang uses SOURCE_DATE_EPOCH for `__DATE__`, `__TIME__` and `__TIMESTAMP__`.
ENVIRONMENT = {
    "LANG": "C",
    "PATH": "/nonexistent",
    "SOURCE_DATE_EPOCH": "0",
}
