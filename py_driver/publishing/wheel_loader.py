"""What makes a package or a module of a wheel the variant of it that fits the torch at hand.

Each wheel has a copy of this file, so it runs on Python 3.9 and needs nothing but torch. The rules are those of the
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
"""The directory in the package that has a directory for each variant."""

DEPENDS = "_depends"
"""The package in the package that has a package for each kernel that the wheel's own depends on."""

MODULE_PLACE = ".variants"
"""How the directory beside a module ends that has a directory for each variant of it."""

_RELEASED = re.compile(r"\d+\.\d+(\.\d+)?(\.post\d+)?(\+(cpu|cu\d+|rocm\d+(\.\d+)*|xpu)(\.cxx11\.abi)?)?")
"""The versions of the builds of torch in a release; another build is of other sources, or was made otherwise."""

_PRE_RELEASE = re.compile(r"\d+(\.\d+)*\.?(a|b|rc|dev)\d*")

_ABI3_WITHOUT_GIL = (3, 15)
"""The first Python in whose free-threaded build the client takes libraries of the stable ABI."""

NONE: Mapping[str, str] = MappingProxyType({})
"""What a kernel depends on that depends on no other."""


class Backend(NamedTuple):
    """A backend that has a toolkit, as the driver's facts have it.

    Attributes:
        title: its name in messages.
        torch_attribute: the attribute of `torch.version` with the toolkit that torch was built with.
        newer_toolkits: whether a variant runs with a later minor version of the toolkit than its own.
        device_arch: the attribute of torch's device properties with the architecture; empty if that is a number.
    """

    title: str
    torch_attribute: str
    newer_toolkits: bool
    device_arch: str


class Variant(NamedTuple):
    """A variant of a wheel.

    Attributes:
        name: its identifier, and its directory's name.
        id: the namespace of its ops; also the name of its extension.
        family: its backend without a version, such as `cpu`, or `universal`.
        torch: the release that it is for; empty if nothing in it is compiled.
        stable: whether it is for torch's stable ABI, and so for later releases as well.
        abi: the C++ ABI that it is for, or nothing.
        toolkit: the version of its backend's toolkit that it is for, if any.
        platform: the machine that it is for, `x86_64-linux`, or nothing.
        archs: the GPU architectures that it has code for: `9.0`, `12.0+PTX`, `gfx942`.
        part: the capability that it is a slice for, `sm90`; empty if it has all device code.
        abi3: whether its extension is for Python's stable ABI; else the wheel's tag says for which Python.
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
    """What a variant has to fit.

    Attributes:
        version: torch's version in full.
        family: torch's backend, as `Variant.family` but any that the `kernels` client knows.
        torch: torch's release.
        abi: torch's C++ ABI.
        toolkit: the version of the backend's toolkit, if any.
        platform: this machine.
        abi3: whether this Python loads libraries of the stable ABI.
        backends: those that have toolkits, by family.
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
    """Finds an extension that is there under another name: torch takes its ops once in a process.

    Attributes:
        id: the extension's own name; what it is in is another package in each wheel, and one of the `kernels` client.
    """

    id: str

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """What importlib asks first: the spec of an extension that is there."""
        there = name.endswith(f".{self.id}") and self._module() is not None
        return importlib.util.spec_from_loader(name, self) if there else None  # type: ignore[arg-type]

    def create_module(self, _spec: ModuleSpec) -> ModuleType | None:
        """What importlib asks next: the module, as it is."""
        return self._module()

    def exec_module(self, module: ModuleType) -> None:
        """What importlib asks last; the module was executed already."""

    def _module(self) -> ModuleType | None:
        return next((module for name, module in [*sys.modules.items()] if name.endswith(f".{self.id}")), None)


def load(
    name: str, variants: Sequence[Variant], backends: Mapping[str, Backend], depends: Mapping[str, str] = NONE
) -> None:
    """Make a package the variant that fits, as if the variant's directory were the package's own.

    Args:
        name: of the package, which is being imported.
        variants: that the wheel has.
        backends: those that have toolkits, by family.
        depends: the packages of the kernels that it depends on, by the names that it asks the `kernels` client for.

    Raises:
        ImportError: none fits, or there is no torch, or it depends on kernels and there is no client.
        Exception: whatever the variant raises.
    """
    package = vars(sys.modules[name])
    torch = importlib.import_module("torch")
    here = look(torch, backends)
    variant = choose(name, variants, here)
    # While the package's path is its own yet: they are beside the variants.
    others = {repository: importlib.import_module(module) for repository, module in depends.items()}
    if doubt := doubt_of(variant, here):
        warnings.warn(f"{name}: {doubt}", RuntimeWarning, stacklevel=3)
    _watch_gpus(name, variant, torch, here.backends.get(variant.family))
    if variant.torch and (twin := Twin(variant.id)) not in sys.meta_path:
        sys.meta_path.insert(0, twin)
    init = Path(package["__file__"]).parent / PLACE / variant.name / "__init__.py"
    loader = SourceFileLoader(name, str(init))
    # The spec stays the one that importlib is at work with: by it other threads see that the package is not complete.
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
    """Make a module the variant that fits, as if the variant's file lay in its place.

    A reload loads a Python file again, and leaves a library as it is, as Python does with one.

    Args:
        name: of the module, which is being imported.
        directory: with a directory for each variant.
        variants: that the wheel has.
        backends: those that have toolkits, by family.
        files: the module's file in the directory of each variant, by the variant's name; empty if that has no such
            module.

    Raises:
        ImportError: none fits, the one that fits has no such module, or there is no torch.
        Exception: whatever the variant raises.
    """
    module = vars(sys.modules[name])
    torch = importlib.import_module("torch")
    here = look(torch, backends)._replace(abi3=True)  # the tag of the wheel says for which Pythons it is
    variant = choose(name, variants, here)
    if not files[variant.name]:
        raise ModuleNotFoundError(f"No module named {name!r}: {variant.name} of this wheel has none", name=name)
    if doubt := doubt_of(variant, here):
        warnings.warn(f"{name}: {doubt}", RuntimeWarning, stacklevel=4)
    _watch_gpus(name, variant, torch, here.backends.get(variant.family))
    path = str(Path(directory, variant.name, files[variant.name]))
    if path.endswith(".py"):
        code = SourceFileLoader(name, path)
        # The spec stays the one that importlib is at work with: by it other threads see that it is not complete.
        spec: ModuleSpec = module["__spec__"]
        spec.loader, spec.origin, spec.cached = code, path, None
        module.update(__loader__=code, __file__=path, __cached__=spec.cached)
        code.exec_module(sys.modules[name])
        return
    loader = ExtensionFileLoader(name, path)
    of_library = importlib.util.spec_from_file_location(name, path, loader=loader)
    if of_library is None:
        raise ImportError(f"{path} is no library that Python imports", name=name, path=path)
    if any(not word.startswith("__") for word in module):
        module.update(__loader__=loader, __file__=path, __spec__=of_library)
        for word in ("__cached__", "__builtins__"):
            module.pop(word, None)
        return
    library = importlib.util.module_from_spec(of_library)
    loader.exec_module(library)
    sys.modules[name] = library


def look(torch: Any, backends: Mapping[str, Backend]) -> Here:  # noqa: ANN401  (a module)
    """What a torch and this Python are.

    Args:
        torch: the module.
        backends: those that have toolkits, by family.
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
    """The variant that the `kernels` client would take.

    First come those for torch's stable ABI, the newest before others, then compiled ones, then those of this backend,
    then universal ones; of two that are equal in this, the one for the newer toolkit.

    Args:
        name: of the package.
        variants: of the wheel.
        here: what it has to fit.

    Raises:
        ImportError: none fits.
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
    """Why nobody knows whether a variant that fits agrees with the installed torch; nothing if it is known.

    A variant is compiled for what a release of torch consists of. Its C++ ABI is that of each build of the release; a
    build of other sources, such as NVIDIA's `2.13.0a0+0123abcd.nv26.8`, has that of its sources. Torch's stable ABI is
    the same in all of them, but for a build from before the release.

    Args:
        variant: that was chosen.
        here: what it is to fit.
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
    """Warn of GPUs that a variant has no code for, once torch uses GPUs: to ask before would begin to use them."""
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
                    text += f". This wheel is the slice for {variant.part}: install that of this GPU, or the whole one"
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    if later is not None:
        later(tell)


def has_code(archs: Sequence[str], gpu: str) -> bool:
    """Whether a GPU can run the code for some of several architectures.

    SASS runs on GPUs of the same major and at least its minor version; PTX is compiled for any later GPU. Code for
    `9.0a` runs on 9.0 alone, and code for `10.0f` on those of its family: the rules of NVIDIA's CUDA C++ Programming
    Guide, "Compute Capabilities". Code for an AMD GPU runs on that.

    Args:
        archs: `9.0`, `9.0a`, `12.0+PTX`, `gfx942`.
        gpu: `9.0`, `gfx942`.
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
    """What comes first, is taken."""
    newest = tuple(-number for number in (*variant.torch, *variant.toolkit))
    return not variant.stable, not variant.torch, newest, variant.family == "universal"


def refusal(variant: Variant, here: Here) -> str:
    """Why a variant does not fit, as the rest of a sentence; nothing if it does.

    Args:
        variant: of a wheel.
        here: what it has to fit.
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
    """A backend in words: `CUDA 13.0`."""
    if family in here.backends:
        return f"{here.backends[family].title} {_dots(toolkit)}"
    return "CPU only" if family == "cpu" else f"the backend {family}"


def _dots(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
