"""build_ext without a compiler: each extension module is noted, and an empty file is put where its library goes."""

from __future__ import annotations

import itertools
import os
from distutils import dist, extension
from distutils.command import build_clib, build_ext
from distutils.errors import CompileError, DistutilsSetupError, LinkError
from distutils.sysconfig import customize_compiler
from distutils.unixccompiler import UnixCCompiler
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import setuptools  # noqa: F401  (its distutils takes the place of Python's, under that name)
from torch._facts import Refused

from .compiler import MODULE, content, output

if TYPE_CHECKING:
    from .places import Places

_CUDA = (".cu", ".cuh", ".hip")
_NDEBUG = "-DNDEBUG"
_COMPILERS = ("compiler_so", "compiler_so_cxx")
"""The commands for C, or with torch for all but CUDA, which contain CFLAGS; and for C++, which contain CXXFLAGS."""


class Modules:
    """The extension modules of a project, as its build_ext has them.

    Attributes:
        noted: what the driver makes a record of.

    Args:
        places: of the project.
    """

    def __init__(self, places: Places) -> None:
        self.noted: list[dict[str, Any]] = []
        self._places = places
        self._names: set[str] = set()
        usual = UnixCCompiler()
        customize_compiler(usual)
        self._usual = {name: list(getattr(usual, name, ())) for name in (*_COMPILERS, "linker_so")}
        plain = build_ext.build_ext(dist.Distribution())
        plain.ensure_finalized()
        self._own_includes, self._own_libraries = list(plain.include_dirs), list(plain.library_dirs)

    def install(self) -> None:
        """Replace what compiles, below all classes that a project may derive."""
        initialize, run_command = extension.Extension.__init__, dist.Distribution.run_command

        def created(itself: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  (as Extension)
            itself.created_at = self._places.caller(itself)
            initialize(itself, *args, **kwargs)

        def ran(distribution: Any, command: str) -> None:  # noqa: ANN401
            run_command(distribution, command)
            if command == "build_ext":
                self._check(distribution)

        def build(command: Any, module: Any) -> None:  # noqa: ANN401
            self._note(command, module)

        replaced: tuple[tuple[type, str, Any], ...] = (
            (extension.Extension, "__init__", created),
            (dist.Distribution, "run_command", ran),
            (build_ext.build_ext, "build_extension", build),
            (build_clib.build_clib, "build_libraries", _refuse_libraries),
            (UnixCCompiler, "_compile", _compile),  # each source goes through it
            (UnixCCompiler, "link", _link),
            (UnixCCompiler, "create_static_lib", _refuse_static),
            (UnixCCompiler, "preprocess", _refuse_preprocessor),
        )
        for owner, name, function in replaced:
            setattr(owner, name, function)

    def _check(self, distribution: Any) -> None:  # noqa: ANN401
        command = distribution.get_command_obj("build_ext")
        for module in command.extensions or distribution.ext_modules or ():
            name = command.get_ext_fullname(module.name)
            linked = content(command.get_ext_fullpath(module.name))
            if name not in self._names and linked is None:
                kind = type(command).__name__
                raise Refused(f"the project's `{kind}` builds `{module.name}` itself, not through setuptools")

    def _note(self, command: Any, module: Any) -> None:  # noqa: ANN401
        torch = getattr(module, "of_torch", {"kind": "cpp"})
        sources = module.sources
        if not isinstance(sources, (list, tuple)):
            raise DistutilsSetupError(f"'sources' of extension '{module.name}' must be a list of source filenames")
        if not sources:
            raise Refused(f"`{module.name}` has no sources: what builds it is no compiler")
        # In setuptools' order, which is also that of the objects in a link.
        sources = [os.fspath(source) for source in command.swig_sources(sorted(sources), module)]
        of_torch = hasattr(command, "no_python_abi_suffix")
        if not of_torch and any(source.endswith(_CUDA) for source in sources):
            raise DistutilsSetupError(
                f"`{module.name}` has CUDA sources; its `build_ext` is not torch's BuildExtension"
            )
        flags = module.extra_compile_args
        by_compiler = isinstance(flags, dict)
        if by_compiler and not of_torch:
            raise DistutilsSetupError(
                f"`extra_compile_args` of `{module.name}` is a dict; its `build_ext` is not torch's BuildExtension"
            )
        for value in flags.values() if by_compiler else (flags,):
            if isinstance(value, str):
                raise DistutilsSetupError(f"`extra_compile_args` of `{module.name}` has a string instead of a list")
        path = Path(command.get_ext_fullpath(module.name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(output({"kind": MODULE, "name": command.get_ext_fullname(module.name)}))
        compiler = command.compiler
        name = command.get_ext_fullname(module.name)
        macros = _macros((*module.define_macros, *((undone,) for undone in module.undef_macros), *compiler.macros))
        lists = {
            "sources": _absolute(sources),
            "include_dirs": _absolute(
                [
                    *_without(module.include_dirs, torch.get("include_dirs", ())),
                    *_without(compiler.include_dirs, self._own_includes),
                ]
            ),
            "undef_macros": [macro[0] for macro in macros if len(macro) == 1],
            "cxx_flags": [
                *self._added_flags(compiler, sources, of_torch=of_torch),
                *(flags.get("cxx", []) if by_compiler else flags),
            ],
            "nvcc_flags": _of_nvcc(flags.get("nvcc", []) if by_compiler else flags),
            "dlink_flags": flags.get("nvcc_dlink", []) if by_compiler else [],
            "libraries": [*_without(module.libraries, torch.get("libraries", ())), *compiler.libraries],
            "library_dirs": [
                *_without(module.library_dirs, torch.get("library_dirs", ())),
                *_without(compiler.library_dirs, self._own_libraries),
            ],
            "runtime_library_dirs": [*module.runtime_library_dirs, *compiler.runtime_library_dirs],
            "extra_objects": [*module.extra_objects, *compiler.objects],
            "extra_link_args": [*self._added(compiler, "linker_so"), *module.extra_link_args],
        }
        self._names.add(name)
        self.noted.append(
            {
                "name": name,
                "kind": torch["kind"],
                "file": os.path.relpath(path, command.build_lib),
                "place": getattr(module, "created_at", None),
                "define_macros": [
                    [str(macro[0]), None if macro[1] is None else str(macro[1])] for macro in macros if len(macro) > 1
                ],
                "limited_api": bool(module.py_limited_api),
                "dlink": by_compiler and "nvcc_dlink" in flags,
                "builder": "torch" if of_torch else "setuptools",
                **{key: [_text(word, key, name) for word in words] for key, words in lists.items()},
            }
        )

    def _added_flags(self, compiler: Any, sources: list[str], *, of_torch: bool) -> list[str]:  # noqa: ANN401
        """The flags of each compile that a project has added to the compiler, such as CFLAGS; and -DNDEBUG undone.

        torch adds a C++ standard behind these, whether they name one or not.
        """
        name = _COMPILERS[not of_torch and compiler.detect_language(sources) == "c++"]
        without = [word for word in self._added(compiler, name) if not (of_torch and word.startswith("-std="))]
        undone = _NDEBUG in self._usual[name] and _NDEBUG not in getattr(compiler, name)
        return [*(["-UNDEBUG"] if undone else []), *without]

    def _added(self, compiler: Any, name: str) -> list[str]:  # noqa: ANN401
        """The flags that a project has added to a command of the compiler; its program (`CC`) is none of them."""
        words = itertools.dropwhile(_is_program, getattr(compiler, name, None) or ())
        return _without(words, self._usual[name])


def _is_program(word: Any) -> bool:  # noqa: ANN401  (as below)
    """Whether the word of a command is a program, as those before the first flag are: `ccache g++`."""
    return not os.fspath(word).startswith("-")


def _without(words: Any, others: Any) -> list[Any]:  # noqa: ANN401  (lists of a project)
    """The words that are not among others."""
    left = {os.fspath(word) for word in others}
    return [word for word in words if os.fspath(word) not in left]


def _absolute(paths: list[Any]) -> list[str]:
    """Paths that do not depend on the directory to which a setup.py has changed."""
    return [os.path.abspath(path) for path in paths]  # noqa: PTH100  (strings, without symbolic links resolved)


def _text(word: Any, key: str, module: str) -> str:  # noqa: ANN401  (as above)
    """A word as a string, which a path may be as well."""
    text = os.fspath(word) if isinstance(word, os.PathLike) else word
    if not isinstance(text, str):
        raise TypeError(f"`{key}` of `{module}` has {text!r}, which is no string")
    return text


def _macros(macros: Any) -> list[tuple[Any, ...]]:  # noqa: ANN401
    """Macros as setuptools has them: (name, value) defines, (name,) undefines; of a name, the last one counts.

    Raises:
        TypeError: for any other value, in setuptools' words.
    """
    last: dict[Any, tuple[Any, ...]] = {}
    for macro in macros:
        if not (isinstance(macro, tuple) and 1 <= len(macro) <= 2):  # noqa: PLR2004
            raise TypeError(f"bad macro definition '{macro}': each element of 'macros' list must be a 1- or 2-tuple")
        last[macro[0]] = macro
    return list(last.values())


def _of_nvcc(flags: Any) -> list[str]:  # noqa: ANN401
    """The options of nvcc, with those that a setup.py leaves in the environment, which nvcc reads."""
    before, after = (os.environ.get(f"NVCC_{side}_FLAGS", "").split() for side in ("PREPEND", "APPEND"))
    return [*before, *flags, *after]


def _compile(_self: Any, obj: str, *_args: Any) -> None:  # noqa: ANN401
    """A project tries whether the compiler accepts a flag: gcc and clang do; if not, the build says so."""
    Path(obj).parent.mkdir(parents=True, exist_ok=True)
    Path(obj).write_bytes(b"")


def _link(_self: Any, target_desc: str, _objects: Any, output: str, *_args: Any, **_kwargs: Any) -> NoReturn:  # noqa: ANN401
    if target_desc == "executable":
        raise LinkError("nothing is linked while a setup.py is recorded")
    raise Refused(f"the project links `{os.path.basename(output)}` itself, not through setuptools")  # noqa: PTH119


def _refuse_libraries(_self: Any, libraries: Any) -> NoReturn:  # noqa: ANN401
    names = ", ".join(f"`{name}`" for name, _ in libraries)
    raise Refused(f"`libraries` of setup() has static libraries to compile: {names}")


def _refuse_static(_self: Any, _objects: Any, name: str, *_args: Any, **_kwargs: Any) -> NoReturn:  # noqa: ANN401
    raise Refused(f"the project makes the static library `{name}` itself")


def _refuse_preprocessor(_self: Any, source: str, *_args: Any, **_kwargs: Any) -> NoReturn:  # noqa: ANN401
    raise CompileError(f"nothing is preprocessed while a setup.py is recorded: {source}")
