"""Write libraries/: tiny shared libraries, good ones and for each rule of the compliance check bad ones. Run by hand.

    python tests/abi/build.py ZIG     with the zig of the toolchain, 0.14.1, and GNU ld on PATH

What a library needs is given by stubs, so nothing of the machine comes in: the same linker writes the same bytes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
EXPORTS = HERE.parents[1] / "rules" / "private" / "include" / "exports.map"
_HARDENED = ("-z", "now", "-z", "relro", "-z", "noexecstack")
_OLD_STRING = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
_NEW_STRING = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """How a library is made.

    Attributes:
        sources: files of src/ besides module.s.
        calls: undefined symbols; `pthread_create libc.so.6 GLIBC_2.34` names the library and the version too.
        flags: options of the linker, after the usual ones.
        hidden: whether everything but PyInit functions is hidden.
        module: whether module.s is in it.
        target: of the compiler.
        gnu: whether GNU ld links it: that writes versions into the names of .symtab, which some checkers read.
    """

    sources: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    hidden: bool = True
    module: bool = True
    target: str = "x86_64-linux-gnu"
    gnu: bool = False


LIBRARIES = {
    "good": Library(calls=("memcpy libc.so.6 GLIBC_2.14", "_Znwm libstdc++.so.6 GLIBCXX_3.4", _NEW_STRING)),
    "good_stripped": Library(calls=("memcpy libc.so.6 GLIBC_2.14", "cudaMalloc libcudart.so.13"), flags=("-s",)),
    "good_sysv_hash": Library(calls=("cosf libm.so.6 GLIBC_2.2.5",), flags=("--hash-style=sysv",)),
    "good_stable": Library(calls=("torch_library_impl", "aoti_torch_get_data_ptr")),
    "good_static_tls": Library(sources=("static_tls",)),
    "good_dynamic_tls": Library(sources=("dynamic_tls",), calls=("__tls_get_addr ld-linux-x86-64.so.2 GLIBC_2.3",)),
    "good_flags": Library(flags=("-z", "nodelete", "-z", "origin", "-Bsymbolic")),
    "static_tls": Library(sources=("static_tls_big",)),
    "nodlopen": Library(flags=("-z", "nodlopen")),
    "initfirst": Library(flags=("-z", "initfirst")),
    "interpose": Library(flags=("-z", "interpose")),
    "global": Library(flags=("-z", "global")),
    "filter": Library(flags=("--filter=libother.so",)),
    "auxiliary": Library(flags=("--auxiliary=libother.so",)),
    "relr": Library(sources=("pointers",), flags=("--pack-dyn-relocs=relr",)),
    "android_rel": Library(sources=("pointers",), flags=("--pack-dyn-relocs=android",)),
    "pages": Library(flags=("-z", "max-page-size=512", "-z", "common-page-size=512")),
    "weak": Library(sources=("weak",)),
    "claims": Library(calls=("of_nobody libc.so.6 GLIBC_2.2.5",)),
    "torch_brings": Library(
        calls=("ncclAllReduce libnccl.so.2", "cusparseLtInit libcusparseLt.so.0", "nvshmem_malloc libnvshmem_host.so.3")
    ),
    "gpu": Library(sources=("nvcc130",)),
    "hip": Library(sources=("hip",)),
    "glibc_new": Library(calls=("pthread_create libc.so.6 GLIBC_2.34",)),
    "glibc_new_stripped": Library(calls=("pthread_create libc.so.6 GLIBC_2.34",), flags=("-s",)),
    "glibc_new_gnu": Library(calls=("pthread_create libc.so.6 GLIBC_2.34", "Py_Main"), gnu=True),
    "libatomic_gnu": Library(calls=("__atomic_load libatomic.so.1 LIBATOMIC_1.0",), gnu=True),
    "glibc_private": Library(calls=("__libc_alloca_cutoff libc.so.6 GLIBC_PRIVATE",)),
    "glibcxx_new": Library(calls=("_ZSt28__throw_bad_array_new_lengthv libstdc++.so.6 GLIBCXX_3.4.29",)),
    "cxxabi_tm": Library(calls=("_ITM_commitTransaction libstdc++.so.6 CXXABI_TM_1",)),
    "gcc_new": Library(calls=("__divmodti4 libgcc_s.so.1 GCC_12.0.0",)),
    "libatomic": Library(calls=("__atomic_load libatomic.so.1 LIBATOMIC_1.0",)),
    "python_newer": Library(calls=("PyIter_Send", "PyObject_GetAttrString")),
    "python_unstable": Library(calls=("PyRun_SimpleString", "_PyObject_GetDictPtr")),
    "needs_python": Library(calls=("PyList_New libpython3.12.so.1.0", "wrap libtorch_python.so")),
    "rpath": Library(flags=("-rpath", "/opt/lib", "--disable-new-dtags")),
    "runpath": Library(flags=("-rpath", "$ORIGIN/../lib", "--enable-new-dtags")),
    "unique": Library(sources=("unique",), hidden=False),
    "export": Library(sources=("export",), hidden=False),
    "two_modules": Library(sources=("other",)),
    "no_module": Library(sources=("export",), module=False),
    "binding": Library(sources=("binding",), module=False, hidden=False),
    "executable_stack": Library(flags=("-z", "execstack")),
    "no_relro": Library(flags=("-z", "norelro")),
    "lazy": Library(flags=("-z", "lazy")),
    "textrel": Library(sources=("textrel",), flags=("-z", "notext")),
    "old_string": Library(calls=(_OLD_STRING,)),
    "undefined": Library(calls=("_ZN5other9elsewhereEv", "_ZN2at6native8internalEv", "cublasCreate_v2", "PyList_New")),
    "gpu_calls": Library(
        calls=("custom_gemm", "cublasSgemm_v2", "cublasNonsense", "cudaMalloc libcudart.so.13", "cudaNonsense", "nvFoo")
    ),
    "gpu_versions": Library(
        calls=("cudaMalloc libcudart.so.13 libcudart.so.13", "cudaNonsense libcudart.so.13 libcudart.so.13")
    ),
    "gpu_unrecorded": Library(calls=("cublasNonsense libcublas.so.10",)),
    "hip_calls": Library(calls=("hipMalloc libamdhip64.so.7 hip_4.2", "hipFoo", "rocblas_sgemm", "rocblas_nonsense")),
    "shim_new": Library(calls=("torch_library_def_with_tags", "torch_library_impl")),
    "aarch64": Library(sources=("export",), module=False, target="aarch64-linux-gnu"),
    "aarch64_calls": Library(calls=("sgemm_", _NEW_STRING), module=False, target="aarch64-linux-gnu"),
    "i386": Library(sources=("export",), module=False, target="i386-linux-gnu"),
}


def emulation(target: str) -> str:
    """What linkers call a target of the compiler."""
    return {"aarch64": "aarch64linux", "i386": "elf_i386"}.get(target.partition("-")[0], "elf_x86_64")


@dataclass(slots=True)
class Builder:
    """Makes libraries in a directory for what comes in between.

    Attributes:
        zig: the compiler and linker.
        work: the directory.
        made: stubs that are there, by name, version and target.
    """

    zig: str
    work: Path
    made: dict[tuple[str, ...], Path] = field(default_factory=dict)

    def run(self, *command: str | Path) -> None:
        """Run a part of zig."""
        subprocess.run([self.zig, *map(str, command)], check=True, cwd=HERE / "src")

    def assemble(self, source: Path, target: str = "x86_64-linux-gnu") -> Path:
        """An object file."""
        made = self.work / f"{source.stem}.o"
        self.run("clang", f"--target={target}", "-c", source, "-o", made)
        return made

    def stub(self, symbol: str, soname: str, version: str, target: str) -> Path:
        """A library that has a symbol in a version."""
        key = (symbol, soname, version, target)
        if key not in self.made:
            base = self.work / f"stub{len(self.made)}"
            base.with_suffix(".s").write_text(f".globl {symbol}\n.type {symbol},@function\n{symbol}: ret\n")
            script = base.with_suffix(".map")
            script.write_text(f"{version} {{ global: {symbol}; }};\n" if version else "{ global: *; };\n")
            made = base.with_suffix(".so")
            compiled = self.assemble(base.with_suffix(".s"), target)
            named = ("-soname", soname, "--version-script", script)
            self.run("ld.lld", "-m", emulation(target), "-shared", "--build-id=none", *named, compiled, "-o", made)
            self.made[key] = made
        return self.made[key]

    def library(self, name: str, how: Library, directory: Path = HERE / "libraries") -> Path:
        """Write a library into a directory."""
        sources = [HERE / "src" / f"{name}.s" for name in ([*(["module"] if how.module else []), *how.sources])]
        stubs = []
        calls = self.work / f"{name}.calls.s"
        lines = [".data", '.section .note.GNU-stack,"",@progbits', ".data"]
        for call in how.calls:
            symbol, soname, version = [*call.split(), "", ""][:3]
            lines.append(f".quad {symbol}")
            stubs += [self.stub(symbol, soname, version, how.target)] if soname else []
        calls.write_text("\n".join(lines) + "\n")
        objects = [self.assemble(source, how.target) for source in [*sources, *([calls] if how.calls else [])]]
        script = ["--version-script", EXPORTS] if how.hidden else []
        flags = [
            "-m",
            emulation(how.target),
            "-shared",
            "--build-id=none",
            "--hash-style=gnu",
            *_HARDENED,
            *script,
            *how.flags,
        ]
        made = directory / f"{name}.so"
        linker = ["ld", "-z", "noseparate-code"] if how.gnu else [self.zig, "ld.lld"]
        command = [*linker, *map(str, [*flags, *objects, *stubs, "-o", made])]
        subprocess.run(command, check=True)
        made.chmod(0o644)
        return made


def main() -> None:
    """Write all libraries, and one without section headers."""
    with tempfile.TemporaryDirectory() as name:
        builder = Builder(zig=sys.argv[1], work=Path(name))
        for library, how in LIBRARIES.items():
            builder.library(library, how)
    whole = bytearray((HERE / "libraries" / "good.so").read_bytes())
    section_offset, section_count = slice(40, 48), slice(60, 64)
    whole[section_offset] = bytes(8)
    whole[section_count] = bytes(4)
    (HERE / "libraries" / "good_sectionless.so").write_bytes(whole)


if __name__ == "__main__":
    main()
