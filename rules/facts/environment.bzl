"""The environment of actions.

The driver reads this file as text (py_driver/matrix/facts.py): everything is a literal.
"""

# It is complete: nothing of the host's reaches a tool. PATH names nothing that could be found by accident.
# SOURCE_DATE_EPOCH is what clang takes for `__DATE__`, `__TIME__` and `__TIMESTAMP__`.
ENVIRONMENT = {
    "LANG": "C",
    "PATH": "/nonexistent",
    "SOURCE_DATE_EPOCH": "0",
}
