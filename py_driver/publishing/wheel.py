"""`driver wheel`: built variants as one Python wheel, whose package loads the one for the installed torch.

Formats: binary distribution format and core metadata of the Python packaging specifications; platform tag PEP 600.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver import __version__
from py_driver.building.variant_dir import BUILD
from py_driver.errors import Code, error
from py_driver.matrix.backends import TOOLKITS, version_of
from py_driver.matrix.configurations import Configuration, parse
from py_driver.matrix.toolkits import numbers
from py_driver.plan.metadata import SLICE, minver
from py_driver.publishing import wheel_loader
from py_driver.publishing.release import make_file
from py_driver.publishing.wheel_archive import GENERATOR, PLATFORM, STABLE_ABI, write_wheel
from py_driver.publishing.wheel_loader import DEPENDS, PLACE, Backend, Variant
from py_driver.publishing.wheel_others import depends_of
from py_driver.publishing.wheel_variants import VARIANT, label_of, properties_of, variant_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from py_driver.manifest.model import Manifest
    from py_driver.matrix.pythons import Python
    from py_driver.publishing.release import BuiltVariant, File
    from py_driver.publishing.wheel_others import Other

_ANY = "py3-none-any"

DISTRIBUTIONS = {"tvm-ffi": "apache-tvm-ffi"}
"""Names on the package index of those `python-depends` that are named differently there.

Source: kernels/python_depends.json of the client, 0.17.
"""

LOADER = "_rules_torch_kernels"
"""The module that a wheel's package imports first; variants cannot see it."""


def wheel_name(  # noqa: PLR0913  (the project, the variants, the Python, and the form of the name)
    manifest: Manifest,
    variants: Sequence[str],
    part: str = "",
    *,
    labelled: bool = False,
    python: Python | None = None,
    others: Sequence[str] = (),
) -> str:
    """The file name of the wheel of variants.

    A single variant is named in the local version, `1.0+torch213.cxx11.cu130`, as in torch's own wheels. The tag has
    what the variants require: Python's stable ABI of 3.9 and glibc 2.28, or nothing if no code was compiled.

    Args:
        manifest: the manifest of the project.
        variants: the identifiers of the variants.
        part: the capability of slices, `sm90`, for the local version; empty for variants with all device code.
        labelled: whether it is a wheel variant: backend and capability are a label after the tag instead of a part of
            the version. There is one variant then.
        others: the variants of further kernels in the wheel.
        python: the Python that the variants are for; None for every Python.
    """
    configurations = [parse(variant) for variant in variants]
    label = f"-{label_of(configurations[0], part)}" if labelled else ""
    version = _version(manifest, configurations, part, labelled=labelled)
    tag = _tag([*configurations, *map(parse, others)], python)
    return f"{manifest.module}-{version}-{tag}{label}.whl"


def _version(manifest: Manifest, configurations: Sequence[Configuration], part: str, *, labelled: bool) -> str:
    if labelled:
        [configuration] = configurations
        local = _local(configuration).removesuffix(configuration.backend).removesuffix(".")
        return f"{manifest.version}.0" + (f"+{local}" if local else "")
    labels = [*([_local(configurations[0])] if len(configurations) == 1 else []), *([part] if part else [])]
    return f"{manifest.version}.0" + (f"+{'.'.join(labels)}" if labels else "")


def _tag(configurations: Sequence[Configuration], python: Python | None) -> str:
    """The tag of a wheel.

    Raises:
        DriverError: UNSUPPORTED if the variants are for several CPUs.
    """
    if not _compiled(configurations):
        return _ANY
    cpus = sorted({configuration.cpu for configuration in configurations if configuration.cpu})
    if len(cpus) > 1:
        message = f"a wheel is for one CPU, and these variants are for {' and '.join(cpus)}"
        raise error(Code.UNSUPPORTED, message, help=f"make one for each: --cpu {cpus[0]}, then --cpu {cpus[1]}")
    return f"{python.wheel_tag if python else STABLE_ABI}-{PLATFORM}_{cpus[0]}"


def _compiled(configurations: Sequence[Configuration]) -> bool:
    return any(not configuration.is_noarch for configuration in configurations)


def make_wheel(  # noqa: PLR0913  (as `wheel_name`, with the contents)
    manifest: Manifest,
    built: Sequence[BuiltVariant],
    target: Path,
    *,
    labelled: bool = False,
    others: Sequence[Other] = (),
    python: Python | None = None,
) -> None:
    """Write the wheel of variants; equal variants give equal bytes.

    Args:
        manifest: the manifest of the project.
        built: the variants, or slices of them for one capability.
        target: the file, named by `wheel_name`.
        labelled: whether it is a wheel variant; see `wheel_name`.
        others: all kernels that the wheel's kernel and these depend on; the wheel contains them, too.
        python: the Python that the variants are for; None for every Python.

    Raises:
        DriverError: UNSUPPORTED if a variant depends on a kernel that is not among `others`, or if a wheel variant is
            for ROCm.
        OSError: it cannot be written.
    """
    known = {repository: other for other in others for repository in other.repositories}
    packages = [(manifest, built), *((other.manifest, other.built) for other in others)]
    for asking, variants in packages:
        if missing := [repository for repository in depends_of(variants) if repository not in known]:
            name = asking.name.value
            message = f"{name} loads other kernels when it is imported ({', '.join(missing)}); its wheel needs them"
            advice = "name their directories: --with DIR; or publish it: `kernels.get_kernel` loads them as well"
            raise error(Code.UNSUPPORTED, message, help=advice)
    configurations = [parse(variant.name) for variant in built]
    if any(configuration.tvm_ffi for configuration in configurations):
        advice = "publish it: `kernels.get_kernel` loads it"
        raise error(Code.UNSUPPORTED, "there is no wheel of a kernel that is bound with tvm-ffi", help=advice)
    part = built[0].metadata.get(SLICE, "")
    version = _version(manifest, configurations, part, labelled=labelled)
    module = manifest.module
    files = _variant_files(module, built)
    info = f"{module}-{version}.dist-info"
    modules = {repository: f"{module}.{DEPENDS}.{other.manifest.module}" for repository, other in known.items()}
    texts = _package_files(module, built, modules, python)
    for other in others:
        inner = f"{module}/{DEPENDS}/{other.manifest.module}"
        texts |= {f"{module}/{DEPENDS}/__init__.py": b"", **_package_files(inner, other.built, modules)}
        files |= _variant_files(inner, other.built)
    every = [*configurations, *(parse(variant.name) for other in others for variant in other.built)]
    texts |= {
        f"{info}/METADATA": _metadata(manifest, version, configurations, others),
        f"{info}/WHEEL": _wheel(_tag(every, python), compiled=_compiled(every)),
    }
    if labelled:
        properties = properties_of(configurations[0], part, built[0].metadata.get("backend", {}).get("archs", ()))
        texts[f"{info}/{VARIANT}"] = variant_text(label_of(configurations[0], part), properties)
    files |= {name: make_file(name, text) for name, text in texts.items()}
    write_wheel(files, info, target)


def _local(configuration: Configuration) -> str:
    """The part of a version that names a variant: `torch213.cxx11.cu130`."""
    if configuration.torch is None:
        return configuration.backend
    torch = configuration.torch.replace(".", "")
    return ".".join(
        [
            f"stable{torch}" if configuration.stable else f"torch{torch}",
            *([configuration.abi] if configuration.abi else []),
            configuration.backend,
        ]
    )


def check_unclaimed(path: Path, directory: Path, taken: Mapping[Path, Path]) -> None:
    """Refuse to write a wheel over the wheel of another project of the same command.

    Args:
        path: the path of the wheel.
        directory: the directory of its project.
        taken: the projects of the wheels written before, by the paths of the wheels.

    Raises:
        DriverError: FOREIGN_FILE.
    """
    if path in taken:
        message = f"the wheel {path} of {taken[path]} would be overwritten by the wheel of {directory}"
        raise error(Code.FOREIGN_FILE, message, help="give the projects different names, or use another --out")


def _variant_files(directory: str, built: Sequence[BuiltVariant]) -> dict[str, File]:
    """The files of variants, by their paths in a wheel.

    Args:
        directory: the directory of their package.
        built: the variants.
    """
    return {
        f"{directory}/{file.path.removeprefix(f'{BUILD}/').replace(variant.name, f'{PLACE}/{variant.name}', 1)}": file
        for variant in built
        for file in variant.files
    }


def _package_files(
    directory: str, built: Sequence[BuiltVariant], modules: Mapping[str, str], python: Python | None = None
) -> dict[str, bytes]:
    """The files of a package that becomes one of its variants, by their paths in a wheel.

    Args:
        directory: the directory of the package.
        built: the variants.
        modules: the packages of further kernels, by the repositories that kernels name them with.
        python: the Python that the variants are for; None for every Python.
    """
    variants = [describe(parse(variant.name), variant)._replace(abi3=python is None) for variant in built]
    depends = {repository: modules[repository] for repository in depends_of(built)}
    return {
        f"{directory}/__init__.py": _package(variants, depends),
        f"{directory}/{LOADER}.py": Path(wheel_loader.__file__).read_bytes(),
    }


def _package(variants: Sequence[Variant], depends: Mapping[str, str]) -> bytes:
    """The package's `__init__.py`; every value is written as a Python literal."""
    listed = "".join(f"        {LOADER}.{variant!r},\n" for variant in variants)
    known = "".join(f"        {family!r}: {LOADER}.{backend!r},\n" for family, backend in backends().items())
    doc = '"""Becomes the variant of this package that fits the installed torch."""'
    arguments = f"    __name__,\n    (\n{listed}    ),\n    {{\n{known}    }},\n"
    arguments += f"    {depends!r},\n" if depends else ""
    return f"{doc}\n\nfrom . import {LOADER}\n\n{LOADER}.load(\n{arguments})\n".encode()


def backends() -> dict[str, Backend]:
    """The facts about backends with toolkits that the package of a wheel needs, by name."""
    return {
        backend.family: Backend(
            title=backend.title,
            torch_attribute=backend.torch_attribute,
            newer_toolkits=backend.newer_toolkits,
            device_arch=backend.device_arch,
        )
        for backend in TOOLKITS
    }


def describe(configuration: Configuration, built: BuiltVariant) -> Variant:
    """The facts about a variant that the package of a wheel needs.

    Args:
        configuration: the configuration that it was built for.
        built: the variant.
    """
    toolkit = version_of(configuration.backend)
    return Variant(
        name=built.name,
        id=built.metadata["id"],
        family=configuration.family,
        torch=numbers(configuration.torch) if configuration.torch else (),
        stable=configuration.stable,
        abi=configuration.abi or "",
        toolkit=numbers(toolkit) if toolkit else (),
        platform=f"{configuration.cpu}-{configuration.os}" if configuration.torch else "",
        archs=tuple(built.metadata.get("backend", {}).get("archs", ())) if configuration.torch else (),
        part=built.metadata.get(SLICE, ""),
    )


def _metadata(
    manifest: Manifest, version: str, configurations: Sequence[Configuration], others: Sequence[Other]
) -> bytes:
    torches = {configuration.torch for configuration in configurations}
    [only] = torches if len(torches) == 1 else [None]
    exact = only is not None and not any(configuration.stable for configuration in configurations)
    requirements = dict.fromkeys(_requirements(manifest, configurations))
    for other in others:
        requirements |= dict.fromkeys(_requirements(other.manifest, [parse(variant.name) for variant in other.built]))
    if others:
        requirements[f"Requires-Dist: kernels>={minver()['kernel-depends']}"] = None
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {manifest.name.value}",
        f"Version: {version}",
        f"Summary: A kernel for PyTorch, made with rules_torch_kernels {__version__}",
        f"License: {manifest.license}",
        "Requires-Python: >=3.9",
        f"Requires-Dist: torch{f'=={only}.*' if exact else ''}",
        *requirements,
        *([f"Project-URL: Source, {manifest.source}"] if manifest.source else []),
    ]
    return ("\n".join(lines) + "\n").encode()


def _requirements(manifest: Manifest, configurations: Sequence[Configuration]) -> Iterator[str]:
    """The requirements of a wheel besides torch; a requirement of one backend among several is an extra of its name."""
    families = sorted({configuration.family for configuration in configurations})
    for family in ("", *families):
        depends = manifest.depends.get(family)
        names = [DISTRIBUTIONS.get(name, name) for name in depends.python] if depends else []
        extra = family if len(families) > 1 else ""
        if names and extra:
            yield f"Provides-Extra: {extra}"
        yield from (f"Requires-Dist: {name}" + (f'; extra == "{extra}"' if extra else "") for name in names)


def _wheel(tag: str, *, compiled: bool) -> bytes:
    pure = "false" if compiled else "true"
    lines = ["Wheel-Version: 1.0", f"Generator: {GENERATOR}", f"Root-Is-Purelib: {pure}"]
    return ("\n".join([*lines, f"Tag: {tag}"]) + "\n").encode()
