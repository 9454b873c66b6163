"""What `python -m` runs."""

from . import __version__
from .report import report

if __name__ == "__main__":
    print("main", __version__, report())
