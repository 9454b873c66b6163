"""Prints as JSON what an interpreter knows of itself: its version, and where its headers and its library are."""

import json
import os
import platform
import sys
import sysconfig


def facts():
    """What a build for this interpreter needs to know."""
    variables = sysconfig.get_config_vars()
    paths = sysconfig.get_paths()
    name = variables.get("INSTSONAME") or variables.get("LDLIBRARY") or ""
    return {
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "version": list(sys.version_info[:2]),
        "abiflags": getattr(sys, "abiflags", ""),
        "include": [paths["include"], paths.get("platinclude", paths["include"])],
        "multiarch": [os.path.dirname(paths["include"]), variables.get("MULTIARCH") or ""],
        "library": os.path.join(variables.get("LIBDIR") or "", name) if variables.get("Py_ENABLE_SHARED") else "",
        "executable": os.path.realpath(sys.executable),
    }


print(json.dumps(facts()))
