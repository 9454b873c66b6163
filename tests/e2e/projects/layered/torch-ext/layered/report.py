"""What `python -m layered.report` prints."""

import sys
from importlib import resources


def report() -> str:
    limits = resources.files(__package__).joinpath("data", "limits.json").read_text()
    return f"{__package__} {limits.strip()} {sys.argv[1:]}"


if __name__ == "__main__":
    print("report", report())
