"""A C++ compiler of the user's own, through the ordinary way of Bazel: a target of our toolchain type, registered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from clone import CPU, digests

if TYPE_CHECKING:
    from clone import Built

pytestmark = pytest.mark.e2e

_RULE = """
load("//toolchains/cc:sdk.bzl", "CcSdkInfo")

def _impl(ctx):
    sdk = ctx.attr.base[platform_common.ToolchainInfo].sdk
    fields = {name: getattr(sdk, name) for name in dir(sdk) if name not in ["flags", "to_json", "to_proto"]}
    return [platform_common.ToolchainInfo(sdk = CcSdkInfo(flags = sdk.flags + ["-DMY_COMPILER"], **fields))]

my_cc = rule(_impl, attrs = {"base": attr.label()})
"""
_BUILD = """
load(":my.bzl", "my_cc")

my_cc(name = "sdk", base = "@@{repository}//:sdk")

toolchain(
    name = "toolchain",
    toolchain = ":sdk",
    toolchain_type = "@rules_torch_kernels//toolchains/cc:toolchain_type",
)
"""


def test_registered_toolchain_comes_before_ours(relu: Built) -> None:
    root = relu.driver.root
    base = relu.driver.bazel("info", "output_base").strip()
    [repository] = [path.name for path in root.joinpath(base, "external").glob("*torch_kernels_cc") if path.is_dir()]
    (root / "my").mkdir()
    (root / "my" / "my.bzl").write_text(_RULE)
    (root / "my" / "BUILD.bazel").write_text(_BUILD.format(repository=repository))
    options = ["--extra_toolchains=//my:toolchain"]
    label = f"//examples/relu:{CPU}"
    query = f'mnemonic("KernelCxxCompile", deps({label}))'
    said = relu.driver.bazel("aquery", *options, "--output=jsonproto", "--noinclude_artifacts", query)
    actions = json.loads(said)["actions"]
    assert len(actions) == 2
    assert all("-DMY_COMPILER" in action["arguments"] for action in actions)
    relu.driver.bazel("build", *options, label)
    assert digests(relu.driver.place(label, *options)) == digests(relu.build / CPU)
