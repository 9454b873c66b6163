"""What is made of the words of cuobjdump and nvdisasm."""

from __future__ import annotations

import dataclasses
import json

import pytest

from py_driver.inspecting.assembly import (
    Kernel,
    difference,
    kernels_of,
    matching,
    mix_of,
    pairs,
    plain,
    ptx_of,
    with_source,
)
from py_driver.inspecting.disassembler import arch_of, demangled

USAGE = """
Resource usage:
 Common:
  GLOBAL:0
 Function _Z1av:
  REG:21 STACK:8 SHARED:1024 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _Z1bv:
  REG:255 STACK:0 SHARED:0 LOCAL:0 CONSTANT[0]:560 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
LISTING = """\t.target\tsm_90

//--------------------- .text._Z1av --------------------------
\t.section\t.text._Z1av,"ax",@progbits
        .other          _Z1av,@"STO_CUDA_ENTRY STV_DEFAULT"
_Z1av:
\t//## File "/csrc/x/a.cu", line 2
        /*0000*/                   LDC R1, c[0x0][0x28] ;
\t//## File "/csrc/x/a.cu", line 2
        /*0010*/                   EXIT ;
\t//## File "/include/cuda_fp16.hpp", line 7 inlined at "/csrc/x/a.cu", line 3
        /*0020*/                   NOP;

//--------------------- .text._Z1bv            --------------------------
\t.section\t.text._Z1bv,"ax",@progbits
_Z1bv:
        /*0000*/                   EXIT ;
"""


def told(**opcodes: list[str]) -> str:
    steps = {name: [{"opcode": opcode, "operands": ""} for opcode in own] for name, own in opcodes.items()}
    return json.dumps([{}, [{"function-name": name, "sass-instructions": own} for name, own in steps.items()]])


@pytest.fixture
def kernels() -> list[Kernel]:
    text = told(_Z1av=["LDG.E.128.CONSTANT", "STL.64", "NOP"], _Z1bv=["EXIT"])
    return kernels_of(text, USAGE, LISTING, "9.0a", {"_Z1av": "void n::a<int>()"})


def test_what_a_kernel_uses(kernels: list[Kernel]) -> None:
    a, b = kernels
    assert a.as_json() == {
        "symbol": "_Z1av",
        "name": "void n::a<int>()",
        "arch": "9.0a",
        "registers": 21,
        "shared": 1024,
        "stack": 8,
        "spills": 1,
        "instructions": 2,
        "is_entry": True,
        "mix": {"memory": {"LDG.128": 1}, "spills": {"STL.64": 1}},
    }
    assert (b.registers, b.name, b.sass) == (255, "_Z1bv", "        /*0000*/                   EXIT ;\n")


def test_a_source_without_kernels() -> None:
    assert kernels_of(told(), "", "\t.target\tsm_90\n\n\t.elftype\tET_EXEC\n", "9.0", {}) == []


@pytest.mark.parametrize("text", ["", "[]", "[{}]", '[{}, [{"function-name": "x"}]]', "{}"])
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises((ValueError, LookupError, TypeError)):
        kernels_of(text, USAGE, LISTING, "9.0", {})


def test_mix() -> None:
    opcodes = ["HGMMA.64x128x16.F32.BF16", "HMMA.16816.F32", "HMMA.16816.F32", "UTMALDG.2D", "LDS", "LDS.U.128", "ZZZ"]
    assert mix_of([*opcodes, "LDG.E.U16.CONSTANT", "STG.E", "LDGSTS.E.BYPASS.128", "LDL.LU"]) == {
        "tensor cores": {"HGMMA": 1, "HMMA": 2},
        "copies without registers": {"UTMALDG": 1, "LDGSTS": 1},
        "memory": {"LDG.16": 1, "STG.32": 1, "LDS.128": 1, "LDS.32": 1},
        "spills": {"LDL.32": 1},
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("void n::(anonymous namespace)::f<float, (int)4>(float*, g<int>(*)(int))", "n::f<float, (int)4>"),
        ("f(int)", "f"),
        ("kernel", "kernel"),
        ("unsigned int a::b<std::pair<int, int> >::c(int) const", "a::b<std::pair<int, int> >::c"),
    ],
)
def test_plain_names(name: str, expected: str) -> None:
    assert plain(name) == expected


def test_names_by_a_part(kernels: list[Kernel]) -> None:
    hidden = dataclasses.replace(kernels[0], name="void (anonymous namespace)::f<(anonymous namespace)::T<4, 2> >(int)")
    assert matching([hidden], "f<T<4") == [hidden]
    assert [kernel.symbol for kernel in matching(kernels, "n::a<int>")] == ["_Z1av"]
    assert [kernel.symbol for kernel in matching(kernels, "_Z1")] == ["_Z1av", "_Z1bv"]
    assert matching(kernels, "other") == []


def test_source_lines(kernels: list[Kernel]) -> None:
    shown = with_source(kernels[0].sass, {"x/a.cu": ["first", "  second();"]}).splitlines()
    assert shown == [
        "// x/a.cu:2  second();",
        "        /*0000*/                   LDC R1, c[0x0][0x28] ;",
        "        /*0010*/                   EXIT ;",
        '// cuda_fp16.hpp:7 inlined at "/csrc/x/a.cu", line 3',
        "        /*0020*/                   NOP;",
    ]


def test_ptx_of_one_function() -> None:
    text = (
        ".visible .func (.param .b32 r) g(\n.param .b32 a\n)\n;\n.visible .entry f(\n.param .u64 f_0\n)\n"
        ".maxntid 256\n{\nret;\n\n}\n.visible .func (.param .b32 r) g(\n)\n{\n{\nadd;\n}\nret;\n}\n"
    )
    assert ptx_of(text, "f") == ".visible .entry f(\n.param .u64 f_0\n)\n.maxntid 256\n{\nret;\n\n}\n"
    assert ptx_of(text, "g").endswith("add;\n}\nret;\n}\n")
    assert ptx_of(text, "h") == ""


def test_two_builds(kernels: list[Kernel]) -> None:
    a, b = kernels
    assert pairs([a], [b]) == [(None, b), (a, None)]
    assert pairs([b, a], [a]) == [(a, a), (b, None)]
    assert difference(a.sass, a.sass.replace("0x28", "0x30"), ("old", "new")).splitlines()[:2] == ["--- old", "+++ new"]
    assert difference(a.sass, a.sass.replace("/*0010*/", "/*0110*/"), ("old", "new")) == ""


def test_archs_and_names() -> None:
    assert [arch_of(f"x.{n}.cubin") for n in ("1.sm_90a", "2.sm_121", "sm_75")] == ["9.0a", "12.1", "7.5"]
    assert demangled("no_cpp") == "no_cpp"
    assert demangled("_ZN1nL1fIfEEvPT_") == "void n::f<float>(float*)"
