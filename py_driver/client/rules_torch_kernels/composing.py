"""Calls of `cpp_extension.load_inline` as projects that they would build, for the driver, which builds many at once.

Run as `python -m rules_torch_kernels.composing`: stdin has a list of calls as JSON, the arguments of each; stdout gets
a list of projects, or of what is wrong with a call.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rules_torch_kernels.cpp_extension import HEADERS, inline_of

if TYPE_CHECKING:
    from collections.abc import Mapping


def composed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The project of a call, or `wrong` alone: why there is none.

    Bytes of files that are no UTF-8 are surrogates in the texts.

    Args:
        arguments: of `inline_of`.
    """
    try:
        inline = inline_of(**arguments)
    except (ValueError, TypeError, OSError) as problem:
        return {"wrong": str(problem)}
    before = 0 if arguments.get("no_implicit_headers") else 1
    return {
        "name": inline.name,
        "texts": {path: text.decode("utf-8", "surrogateescape") for path, text in inline.texts.items()},
        "sources": list(inline.sources),
        "include_dirs": list(inline.include_dirs),
        "flags": {kind: list(flags) for kind, flags in inline.flags.items()},
        "link_flags": list(inline.link_flags),
        "backend": inline.backend,
        "has_main": bool(arguments.get("cpp_sources") or arguments.get("functions") is not None),
        "lines_before": {path: before * len(HEADERS[path]) for path in inline.sources},
    }


if __name__ == "__main__":
    json.dump([composed(arguments) for arguments in json.load(sys.stdin)], sys.stdout)
