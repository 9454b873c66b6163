"""Wheel variants, from which an installer chooses the wheel of a version for the machine's GPU. Experimental.

Formats: PEP 825, as in uv 0.13.9 and variantlib 0.2.2: a label at the end of the file name, `variant.json` in
the wheel's `.dist-info`, and `<name>-<version>-variants.json` beside the wheels. Namespace and features are those of
NVIDIA's `nvidia-variant-provider`, which uv has built in.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from py_driver.errors import Code, error
from py_driver.matrix.backends import version_of
from py_driver.matrix.configurations import spell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from py_driver.matrix.configurations import Configuration

VARIANT: Final = "variant.json"
"""The file of a variant in a wheel's `.dist-info`."""

VARIANTS: Final = "-variants.json"
"""The suffix of the file beside the wheels of a version."""

_SCHEMA: Final = "https://variants-schema.wheelnext.dev/peps/825/v0.1.1.json"
"""The schema that uv 0.13.9 accepts; variantlib 0.2.2 accepts any."""
_NO_PROPERTIES: Final = "null"
_NVIDIA: Final = "nvidia"
_PROVIDERS: Final = {
    _NVIDIA: {
        "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
        "requires": ["nvidia-variant-provider>=0.0.1"],
    }
}
"""Providers by namespace, for variantlib; uv has its own. PyPI has only an empty 0.0.0a0, which is refused."""

_LABELLED: Final = re.compile(r"([^-]+-[^-]+(?:-\d[^-]*)?-[^-\d][^-]*-[^-]+-[^-]+)-([0-9a-z._]+)\.whl")
_CAPABILITY: Final = re.compile(r"(\d+)\.(\d+)([af]?)(\+PTX)?")


def properties_of(
    configuration: Configuration, part: str = "", archs: Sequence[str] = ()
) -> dict[str, dict[str, list[str]]]:
    """The properties of a variant, by namespace and feature; empty if it runs on every machine of its tag.

    Torch is not a property: variantlib 0.2.2 requires a provider for each namespace, and has none for packages. The
    version has the torch instead.

    Args:
        configuration: the configuration that it was built for.
        part: the capability of a slice, `sm90`; empty for a variant with all device code.
        archs: the architectures of the slice. Code for `9.0a` or `10.0f` runs on fewer GPUs, so the property has the
            suffix.

    Raises:
        DriverError: UNSUPPORTED for ROCm, for which there is no provider, and for Python files of one backend.
    """
    if configuration.family == "cpu":
        return {}
    if configuration.family != "cuda" or configuration.torch is None:
        message = f"there is no wheel variant of {spell(configuration)}"
        raise error(Code.UNSUPPORTED, message, help="choose others with --backend, or call without --variants")
    features = {"cuda_version_lower_bound": [str(version_of(configuration.backend))]}
    if part:
        name = part.removeprefix("sm")
        found = [match for arch in archs if (match := _CAPABILITY.fullmatch(arch)) and match[1] + match[2] == name]
        suffixes = {match[3] for match in found}
        suffix = next((letter for letter in "af" if letter in suffixes), "")
        features["sm_arch"] = [f"{name}{suffix}_real"]
    return {_NVIDIA: features}


def label_of(configuration: Configuration, part: str = "") -> str:
    """The label of a variant: `cu130`, `cu130.sm90`; `null`, reserved by the format for a variant without properties.

    Args:
        configuration: the configuration that it was built for.
        part: the capability of a slice.
    """
    if configuration.family == "cpu":
        return _NO_PROPERTIES
    return ".".join([configuration.backend, *([part] if part else [])])


def backend_in(label: str) -> str:
    """The backend in a label; see `label_of`.

    Args:
        label: the label of a variant.
    """
    return "cpu" if label == _NO_PROPERTIES else label.partition(".")[0]


def variant_text(label: str, properties: Mapping[str, Mapping[str, Sequence[str]]]) -> bytes:
    """The `variant.json` of a wheel.

    Args:
        label: the label of its variant.
        properties: see `properties_of`.
    """
    return _text({label: properties})


def label_in(filename: str) -> tuple[str, str]:
    """The name of a wheel without the label of its variant, and the label; empty if it has none.

    Args:
        filename: the filename of the wheel.
    """
    match = _LABELLED.fullmatch(filename)
    return (f"{match[1]}.whl", match[2]) if match else (filename, "")


def merge(texts: Iterable[tuple[str, bytes]]) -> bytes:
    """The index of the variants of a version.

    Args:
        texts: the label in each wheel's file name, and its `variant.json`.

    Raises:
        ValueError: a text is not a `variant.json` of this driver; two variants have the same properties, so that an
            installer could not choose; or two wheels have the same label and different properties.
    """
    variants: dict[str, Any] = {}
    for label, text in texts:
        listed = json.loads(text)
        own = listed.get("variants", {}) if isinstance(listed, dict) else {}
        if list(own) != [label] or text != _text(own):
            message = f"its {VARIANT} is not that of a variant `{label}` of this driver"
            raise ValueError(message)
        if other := next((name for name, known in variants.items() if known == own[label] and name != label), None):
            message = f"the variants `{other}` and `{label}` have the same properties"
            raise ValueError(message)
        if variants.setdefault(label, own[label]) != own[label]:
            message = f"two wheels of the variant `{label}` have different properties"
            raise ValueError(message)
    return _text(variants)


def is_own(text: bytes) -> bool:
    """Whether an index has the form that `merge` writes.

    Args:
        text: the content of a file.
    """
    try:
        return text == _text(json.loads(text)["variants"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return False


def _text(variants: Mapping[str, Mapping[str, Any]]) -> bytes:
    # A variant without properties lists the provider, too: variantlib accepts no empty list and merges equal ones only.
    listed = {
        "$schema": _SCHEMA,
        "default-priorities": {"namespace": sorted(_PROVIDERS)},
        "providers": _PROVIDERS,
        "variants": variants,
    }
    return (json.dumps(listed, indent=4, sort_keys=True) + "\n").encode()
