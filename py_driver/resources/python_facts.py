"""Writes as JSON what an interpreter knows of itself: its version, and where its headers and its library are."""

import json
import platform
import sys
import sysconfig

variables = sysconfig.get_config_vars()
paths = sysconfig.get_paths()
facts = {
    "implementation": platform.python_implementation(),
    "system": platform.system(),
    "machine": platform.machine(),
    "version": list(sys.version_info[:2]),
    "abiflags": getattr(sys, "abiflags", ""),
    "include": [paths["include"], paths.get("platinclude", paths["include"])],
    "multiarch": variables.get("MULTIARCH") or "",
    "shared": bool(variables.get("Py_ENABLE_SHARED")),
    "library": [variables.get("LIBDIR") or "", variables.get("INSTSONAME") or ""],
    "executable": sys.executable,
}
sys.stdout.write(json.dumps(facts))
