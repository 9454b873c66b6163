"""The C++ ABI of torch; its extension module has no more of what a setup.py asks for."""  # noqa: N999  (torch's name)

from __future__ import annotations

from typing import NoReturn

from torch._facts import FACTS, Refused, lacks

_GLIBCXX_USE_CXX11_ABI: bool = FACTS["cxx11"]
_PYBIND11_COMPILER_TYPE = "_gcc"
_PYBIND11_STDLIB = "_libstdcpp"
_PYBIND11_BUILD_ABI = "_cxxabi1011" if FACTS["cxx11"] else "_cxxabi1002"
_has_cuda: bool = FACTS["cuda"] is not None or FACTS["hip"] is not None


def parse_schema(schema: str) -> NoReturn:
    """The schema of an op: a project imports this to compare it with those of torch, which nothing here has."""
    raise Refused(f"`torch._C.parse_schema` asks for the ops of torch: {schema.partition('(')[0]}")


def __getattr__(name: str) -> object:
    return lacks(__name__, name)
