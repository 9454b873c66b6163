"""The header that `driver tune --apply` writes: the configuration for each problem on each GPU. Pure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from py_driver.errors import Code, error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from py_driver.tuning.space import Case, Configuration, Space


MARK: Final = "// Written by `driver tune --apply`"
"""The first words of the header."""


class Chosen(NamedTuple):
    """The choice for a GPU.

    Attributes:
        cases: the configuration for each case.
        facts: the facts about the GPU that conditions may use, including `capability`.
    """

    cases: Mapping[Case, Configuration]
    facts: Mapping[str, int]


def header(space: Space, chosen: Sequence[Chosen]) -> str:
    """The header's text.

    For each measured GPU there are ranges of the key: a case's configuration is for keys above the previous case's, up
    to its own, if the conditions hold. The default is for all other problems, keys beyond the largest case, and other
    GPUs.

    Args:
        space: the tuning space.
        chosen: the choice for each GPU.

    Raises:
        DriverError: BAD_VALUE if a condition cannot be evaluated.
    """
    names = ", ".join(f"int kValue{number}" for number in range(len(space.parameters)))
    members = "\n".join(f"  static constexpr int {name} = kValue{at};" for at, name in enumerate(space.parameters))
    sizes = "".join(f", long long {name}" for name in space.sizes)
    unused = "".join(f"  (void){name};\n" for name in ("capability", *space.sizes))
    macros = [f"TUNE_{name}" for name in space.parameters]
    condition = " && ".join(f"defined({macro})" for macro in macros)
    lines = [
        *(line for gpu in sorted(chosen, key=_capability) for line in _ranges(space, gpu)),
        f"  return call({_config(space.default)});  // default",
    ]
    return f"""{MARK} from tuning/{space.name}.toml and its records; do not edit.
#pragma once

namespace {space.name}_tuned {{

template <{names}>
struct Config {{
{members}
}};

// As Python divides: rounded down.
constexpr long long floor_div(long long a, long long b) {{ return a / b - (a % b != 0 && (a < 0) != (b < 0)); }}
constexpr long long floor_mod(long long a, long long b) {{ return a - floor_div(a, b) * b; }}

// Calls `call` with the configuration for a problem, `call(Config<...>())`, which returns a Result. To deduce its type
// would make clang instantiate kernels too early.
template <class Result, class Call>
Result choose(int capability{sizes}, Call call) {{
{unused}#if {condition}
  return call(Config<{", ".join(macros)}>());
#else
{chr(10).join(lines)}
#endif
}}

}}  // namespace {space.name}_tuned
"""


def _capability(gpu: Chosen) -> int:
    return gpu.facts.get("capability", 0)


def _config(configuration: Configuration) -> str:
    return f"Config<{', '.join(map(str, configuration))}>()"


def _ranges(space: Space, chosen: Chosen) -> list[str]:
    """The lines of a GPU: adjacent cases with the same configuration are one range."""
    at = space.sizes.index(space.key)
    ranges: list[tuple[int, Configuration]] = []
    for case, config in sorted(chosen.cases.items(), key=lambda item: (item[0][at], item[0])):
        if ranges and (ranges[-1][0] == case[at] or ranges[-1][1] == config):
            # If two cases have the same key, the first one counts; `conflicts` returns such cases.
            ranges[-1] = (case[at], ranges[-1][1])
        else:
            ranges.append((case[at], config))
    lines = []
    for largest, config in ranges:
        guards = _guards(space, config, chosen.facts)
        held = f"if ({' && '.join(guards)}) " if guards else ""
        lines.append(f"  if (capability == {_capability(chosen)} && {space.key} <= {largest}) {{")
        lines.append(f"    {held}return call({_config(config)});")
        lines += [f"    return call({_config(space.default)});"] if guards else []
        lines.append("  }")
    return lines


def _guards(space: Space, config: Configuration, facts: Mapping[str, int]) -> list[str]:
    """The conditions of a configuration that a problem may break, in C++."""
    if config == space.default:
        return []
    values = {**facts, **space.named(config)}
    try:
        texts = [each.as_cpp(values) for each in space.constraints if each.names & {*space.sizes}]
    except ValueError as problem:
        raise error(Code.BAD_VALUE, f"tuning/{space.name}.toml: {problem}") from None
    return [text for text in texts if text != "true"]


def conflicts(space: Space, cases: Mapping[Case, Configuration]) -> list[tuple[Case, Case]]:
    """Cases with different configurations and the same key, which the header cannot distinguish."""
    at = space.sizes.index(space.key)
    ordered: Sequence[Case] = sorted(cases, key=lambda case: (case[at], case))
    return [
        (case, other)
        for case, other in itertools.pairwise(ordered)
        if case[at] == other[at] and cases[case] != cases[other]
    ]
