"""Turns a package or a module of a wheel into its variant for the installed torch.

Each wheel has a copy of this file, so it runs on Python 3.9 and needs only torch. The rules are those of the
`kernels` client 0.17 (kernels/backends.py, kernels/variants.py).
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
import sys
import sysconfig
import warnings
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

PLACE = "_variants"
"""The directory in the package with a directory for each variant."""

DEPENDS = "_depends"
"""The subpackage with a package for each kernel that the wheel's kernel depends on."""

MODULE_PLACE = ".variants"
"""The suffix of the directory beside a module with a directory for each of its variants."""

_RELEASED = re.compile(r"\d+\.\d+(\.\d+)?(\.post\d+)?(\+(cpu|cu\d+|rocm\d+(\.\d+)*|xpu)(\.cxx11\.abi)?)?")
"""The versions of torch's released builds; any other build has other sources, or was built differently."""

_PRE_RELEASE = re.compile(r"\d+(\.\d+)*\.?(a|b|rc|dev)\d*")

_ABI3_WITHOUT_GIL = (3, 15)
"""The first Python whose free-threaded build loads libraries of the stable ABI, according to the client."""

NONE: Mapping[str, str] = MappingProxyType({})
"""The dependencies of a kernel without any."""


class Backend(NamedTuple):
    """A backend with a toolkit, from the driver's facts.

    Attributes:
        title: its name in messages.
        torch_attribute: the attribute of `torch.version` with the toolkit that torch was built with.
        newer_toolkits: whether a variant runs with a later minor version of the toolkit than its own.
        device_arch: the attribute of torch's device properties with the architecture; empty for a numeric one.
    """

    title: str
    torch_attribute: str
    newer_toolkits: bool
    device_arch: str


class Variant(NamedTuple):
    """A variant of a wheel.

    Attributes:
        name: its identifier, and its directory's name.
        id: the namespace of its ops, and the name of its extension.
        family: its backend without a version, such as `cpu`, or `universal`.
        torch: its release of torch; empty if it has no compiled code.
        stable: whether it is for torch's stable ABI, and thus also for later releases.
        abi: its C++ ABI; empty if it has no compiled code.
        toolkit: the version of its backend's toolkit; empty if there is none.
        platform: its machine, `x86_64-linux`; empty if it has no compiled code.
        archs: the GPU architectures that it has code for: `9.0`, `12.0+PTX`, `gfx942`.
        part: the capability that it is a slice for, `sm90`; empty if it has all device code.
        abi3: whether its extension is for Python's stable ABI; else the wheel's tag names the Python.
    """

    name: str
    id: str
    family: str
    torch: tuple[int, ...] = ()
    stable: bool = False
    abi: str = ""
    toolkit: tuple[int, ...] = ()
    platform: str = ""
    archs: tuple[str, ...] = ()
    part: str = ""
    abi3: bool = True


class Here(NamedTuple):
    """The installed torch and this Python, which a variant has to fit.

    Attributes:
        version: torch's version in full.
        family: torch's backend, as in `Variant.family`; any that the `kernels` client knows.
        torch: torch's release.
        abi: torch's C++ ABI.
        toolkit: the version of the backend's toolkit; empty if there is none.
        platform: this machine.
        abi3: whether this Python loads libraries of the stable ABI.
        backends: the backends with toolkits, by family.
    """

    version: str
    family: str
    torch: tuple[int, ...]
    abi: str
    toolkit: tuple[int, ...]
    platform: str
    abi3: bool
    backends: Mapping[str, Backend]


class Twin(NamedTuple):
    """Finds an extension that is loaded under another name: torch registers its ops once in a process.

    Attributes:
        id: the extension's own name; its package differs between wheels and in the `kernels` client.
    """

    id: str

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """First call of importlib: the spec of an extension that is loaded."""
        there = name.endswith(f".{self.id}") and self._module() is not None
        return importlib.util.spec_from_loader(name, self) if there else None  # type: ignore[arg-type]

    def create_module(self, _spec: ModuleSpec) -> ModuleType | None:
        """Second call of importlib: the loaded module."""
        return self._module()

    def exec_module(self, module: ModuleType) -> None:
        """Third call of importlib; nothing to do, since the module was executed before."""

    def _module(self) -> ModuleType | None:
        return next((module for name, module in [*sys.modules.items()] if name.endswith(f".{self.id}")), None)


def load(
    name: str, variants: Sequence[Variant], backends: Mapping[str, Backend], depends: Mapping[str, str] = NONE
) -> None:
    """Turn a package into its fitting variant, as if the variant's directory were the package's own.

    Args:
        name: the package, which is being imported.
        variants: the variants in the wheel.
        backends: the backends with toolkits, by family.
        depends: the packages of the kernels that it depends on, by the names under which it gets them from the
            `kernels` client.

    Raises:
        ImportError: no variant fits, torch is missing, or it depends on kernels and the client is missing.
        Exception: whatever the variant raises.
    """
    package = vars(sys.modules[name])
    torch = importlib.import_module("torch")
    here = look(torch, backends)
    variant = choose(name, variants, here)
    # Before the package's path changes: the packages are beside the variants.
    others = {repository: importlib.import_module(module) for repository, module in depends.items()}
    if doubt := doubt_of(variant, here):
        warnings.warn(f"{name}: {doubt}", RuntimeWarning, stacklevel=3)
    _watch_gpus(name, variant, torch, here.backends.get(variant.family))
    if variant.torch and (twin := Twin(variant.id)) not in sys.meta_path:
        sys.meta_path.insert(0, twin)
    init = Path(package["__file__"]).parent / PLACE / variant.name / "__init__.py"
    loader = SourceFileLoader(name, str(init))
    # The spec object stays, since importlib is using it: it shows other threads that the package is incomplete.
    spec: ModuleSpec = package["__spec__"]
    spec.loader, spec.origin, spec.submodule_search_locations = loader, str(init), [str(init.parent)]
    spec.cached = None  # it follows from the origin
    package.update(__loader__=loader, __file__=spec.origin, __path__=spec.submodule_search_locations)
    package.update(__cached__=spec.cached, __doc__=None)
    del sys.modules[__name__], package[__name__.rpartition(".")[2]]
    if not depends:
        loader.exec_module(sys.modules[name])
        return
    with importlib.import_module("kernels.deps").use_kernel_deps(others):
        loader.exec_module(sys.modules[name])


def load_module(
    name: str, directory: str, variants: Sequence[Variant], backends: Mapping[str, Backend], files: Mapping[str, str]
) -> None:
    """Turn a module into its fitting variant, as if the variant's file lay in its place.

    A reload loads a Python file again and leaves a library unchanged, as Python does.

    Args:
        name: the module, which is being imported.
        directory: the directory with a directory for each variant.
        variants: the variants in the wheel.
        backends: the backends with toolkits, by family.
        files: the module's file in the directory of each variant, by the variant's name; empty if the variant has no
            such module.

    Raises:
        ImportError: no variant fits, the fitting variant has no such module, or torch is missing.
        Exception: whatever the variant raises.
    """
    module = vars(sys.modules[name])
    torch = importlib.import_module("torch")
    here = look(torch, backends)._replace(abi3=True)  # the wheel's tag names its Pythons
    variant = choose(name, variants, here)
    if not files[variant.name]:
        raise ModuleNotFoundError(f"No module named {name!r}: {variant.name} of this wheel has none", name=name)
    if doubt := doubt_of(variant, here):
        warnings.warn(f"{name}: {doubt}", RuntimeWarning, stacklevel=4)
    _watch_gpus(name, variant, torch, here.backends.get(variant.family))
    path = str(Path(directory, variant.name, files[variant.name]))
    if path.endswith(".py"):
        code = SourceFileLoader(name, path)
        # The spec object stays, since importlib is using it: it shows other threads that the module is incomplete.
        spec: ModuleSpec = module["__spec__"]
        spec.loader, spec.origin, spec.cached = code, path, None
        module.update(__loader__=code, __file__=path, __cached__=spec.cached)
        code.exec_module(sys.modules[name])
        return
    loader = ExtensionFileLoader(name, path)
    of_library = importlib.util.spec_from_file_location(name, path, loader=loader)
    if of_library is None:
        raise ImportError(f"{path} is not a library that Python imports", name=name, path=path)
    if any(not word.startswith("__") for word in module):
        module.update(__loader__=loader, __file__=path, __spec__=of_library)
        for word in ("__cached__", "__builtins__"):
            module.pop(word, None)
        return
    library = importlib.util.module_from_spec(of_library)
    loader.exec_module(library)
    sys.modules[name] = library


def look(torch: Any, backends: Mapping[str, Backend]) -> Here:  # noqa: ANN401  (a module)
    """The properties of a torch and of this Python.

    Args:
        torch: the module.
        backends: the backends with toolkits, by family.
    """
    version = torch.version
    of_a_plugin = getattr(torch._C, "_get_privateuse1_backend_name", str)()  # noqa: SLF001  (as the client does)
    toolkits = {family: getattr(version, backend.torch_attribute, None) for family, backend in backends.items()}
    families = {
        "tpu": hasattr(torch.backends, "tpu"),
        "neuron": hasattr(torch, "neuron"),
        **{family: toolkit is not None for family, toolkit in toolkits.items()},
        "metal": torch.backends.mps.is_available(),
        "xpu": getattr(version, "xpu", None) is not None,
        "npu": of_a_plugin == "npu",
    }
    family = next((name for name, is_it in families.items() if is_it), "cpu")
    toolkit = toolkits.get(family)
    return Here(
        version=torch.__version__,
        family=family,
        torch=_release(torch.__version__),
        abi="cxx11" if torch.compiled_with_cxx11_abi() else "cxx98",
        toolkit=_release(toolkit) if toolkit else (),
        platform=f"{platform.machine()}-{platform.system().lower()}",
        abi3=sys.version_info >= _ABI3_WITHOUT_GIL or not sysconfig.get_config_var("Py_GIL_DISABLED"),
        backends=backends,
    )


def _release(version: str) -> tuple[int, ...]:
    """The first two numbers of a version: (2, 13) for `2.13.0a0+git1`."""
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


def choose(name: str, variants: Sequence[Variant], here: Here) -> Variant:
    """The variant that the `kernels` client would choose.

    Variants for torch's stable ABI come first, the newest before others, then compiled variants, then those of this
    backend, then universal ones; among equals, the one for the newest toolkit.

    Args:
        name: the package.
        variants: the variants in the wheel.
        here: the installed torch and this Python.

    Raises:
        ImportError: no variant fits.
    """
    reasons = {variant.name: refusal(variant, here) for variant in variants}
    fitting = [variant for variant in variants if not reasons[variant.name]]
    if not fitting:
        listed = "".join(f"\n  {variant} is {reason}" for variant, reason in reasons.items())
        backend = _backend(here, here.family, here.toolkit)
        torch = f"torch {here.version} ({backend}, C++ ABI {here.abi}, {here.platform})"
        advice = "Install a torch that matches one of them, or a wheel for this torch."
        raise ImportError(f"this wheel of {name} has no variant for {torch}:{listed}\n{advice}", name=name)
    return min(fitting, key=_rank)


def doubt_of(variant: Variant, here: Here) -> str:
    """Why it is unknown whether a fitting variant agrees with the installed torch; empty if it is known.

    A variant is compiled for a release of torch, and all builds of the release have its C++ ABI. A build of other
    sources, such as NVIDIA's `2.13.0a0+0123abcd.nv26.8`, may have another ABI. Torch's stable ABI is the same in all of
    them, except in builds from before the release.

    Args:
        variant: the chosen variant.
        here: the installed torch and this Python.
    """
    if not variant.torch or _RELEASED.fullmatch(here.version):
        return ""
    if variant.stable and not (variant.torch == here.torch and _PRE_RELEASE.match(here.version)):
        return ""
    release = _dots(variant.torch)
    return (
        f"the installed torch is {here.version}, and {variant.name} is for the release {release}. This build is not of "
        "the release, so its C++ ABI may differ: then the kernel crashes or computes something else. "
        f"Use the release {release}, or build the kernel for torch's stable ABI."
    )


def _watch_gpus(name: str, variant: Variant, torch: Any, backend: Backend | None) -> None:  # noqa: ANN401  (a module)
    """Warn of GPUs without code in a variant, once torch initializes GPUs: a check before would initialize them."""
    later = getattr(torch.cuda, "_lazy_call", None) if variant.torch and variant.archs else None

    def tell() -> None:
        for number in range(torch.cuda.device_count()):
            about = torch.cuda.get_device_properties(number)
            named = getattr(about, backend.device_arch).partition(":")[0] if backend and backend.device_arch else ""
            arch = named or f"{about.major}.{about.minor}"
            if not has_code(variant.archs, arch):
                code = f"{variant.name} has code for {', '.join(variant.archs)}"
                gpu = f"the GPU {number} ({about.name}, {arch})"
                text = f"{name}: {code}, and none that {gpu} can run: its kernels fail there"
                if variant.part:
                    text += f". This wheel is the slice for {variant.part}: use that for this GPU, or the whole wheel"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    if later is not None:
        later(tell)


def has_code(archs: Sequence[str], gpu: str) -> bool:
    """Whether a GPU can run code for one of several architectures.

    SASS runs on GPUs of the same major version and at least its minor version; PTX is compiled for any later GPU. Code
    for `9.0a` runs only on 9.0, and code for `10.0f` only on GPUs of its family: the rules of NVIDIA's CUDA C++
    Programming Guide, "Compute Capabilities". Code for an AMD GPU runs only on that architecture.

    Args:
        archs: the architectures of the code: `9.0`, `9.0a`, `12.0+PTX`, `gfx942`.
        gpu: the architecture of the GPU: `9.0`, `gfx942`.
    """
    if gpu in archs:
        return True
    here = _release(gpu)
    for arch in archs:
        known = re.fullmatch(r"(\d+\.\d+)([af]?)(\+PTX)?", arch)
        if known is None:
            continue
        there = _release(known[1])
        newer = there <= here if known[3] and not known[2] else there[0] == here[0] and there <= here
        if there == here if known[2] == "a" else newer:
            return True
    return False


def _rank(variant: Variant) -> tuple[object, ...]:
    """The sort key of fitting variants: the first one is chosen."""
    newest = tuple(-number for number in (*variant.torch, *variant.toolkit))
    return not variant.stable, not variant.torch, newest, variant.family == "universal"


def refusal(variant: Variant, here: Here) -> str:
    """Why a variant does not fit, as the rest of a sentence; empty if it fits.

    Args:
        variant: the variant of a wheel.
        here: the installed torch and this Python.
    """
    if not variant.torch:
        return "" if variant.family in (here.family, "universal") else f"for the backend {variant.family}"
    family, toolkit = variant.family, variant.toolkit
    newer = family in here.backends and here.backends[family].newer_toolkits
    checks = (
        (variant.abi3 and not here.abi3, "for Python's stable ABI, which this free-threaded Python does not have"),
        (variant.platform != here.platform, f"for {variant.platform}"),
        (variant.stable and variant.torch > here.torch, f"for torch {_dots(variant.torch)} or later"),
        (not variant.stable and variant.torch != here.torch, f"for torch {_dots(variant.torch)}"),
        (not variant.stable and variant.abi != here.abi, f"for the C++ ABI {variant.abi}"),
        (family != here.family, f"for the backend {family}"),
        (toolkit[:1] != here.toolkit[:1], f"for {_backend(here, family, toolkit[:1])}"),
        (newer and toolkit > here.toolkit, f"for {_backend(here, family, toolkit)} or later"),
        (not newer and toolkit != here.toolkit, f"for {_backend(here, family, toolkit)}"),
    )
    return next((reason for is_so, reason in checks if is_so), "")


def _backend(here: Here, family: str, toolkit: tuple[int, ...]) -> str:
    """A backend for messages: `CUDA 13.0`."""
    if family in here.backends:
        return f"{here.backends[family].title} {_dots(toolkit)}"
    return "CPU only" if family == "cpu" else f"the backend {family}"


def _dots(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
