"""Where preprocessed text comes from, and equal PTX."""

from __future__ import annotations

import pytest
from compiler_texts import PTX, TEXT

from py_driver.reporting.preprocessed import header_share, ptx_code


def test_text_counts_for_the_header_that_the_source_includes() -> None:
    share = header_share(TEXT.encode(), "a.cu")
    found = [(amount.name, amount.lines) for amount in (*share.headers, share.compiler, share.source)]
    assert found == [
        ("torch/all.h", 6),
        ("cub/cub.cuh", 1),
        ("include/own.h", 1),
        ("the compiler and its command line", 3),
        ("the source itself", 2),
    ]
    assert (share.lines, share.size) == (13, sum(len(line) + 1 for line in TEXT.splitlines() if line[:2] != "# "))
    assert share.headers[0].size == len("all 1\naten 1\nitself\n#pragma once\naten 2\nall 2\n")
    assert share.headers[0].percent == 46.2
    assert share.advice == ""


def test_what_another_compiler_writes_counts_alike() -> None:
    text = """\
# 0 "a.cu"
# 0 "<built-in>"
# 0 "<command-line>"
# 1 "/usr/include/stdc-predef.h" 1 3 4
predef
# 0 "<command-line>" 2
# 1 "a.cu"
# 1 "a \\"b\\".h" 1
quoted
# 7 "grammar.y"
renamed
# 2 "a.cu" 2
source without an end"""
    share = header_share(text.encode(), "a.cu")
    found = [(amount.name, amount.lines) for amount in (*share.headers, share.compiler, share.source)]
    assert found == [('a "b".h', 2), ("the compiler and its command line", 1), ("the source itself", 1)]


def test_text_without_markers_is_the_source() -> None:
    share = header_share(b"int x;\n", "a.cu")
    assert (share.source.lines, share.source.percent, share.headers) == (1, 100.0, ())
    assert header_share(b"", "a.cu").source.percent == 0.0


def test_five_headers_are_shown() -> None:
    parts = [f'# 1 "h{n}.h" 1\n' + "x\n" * n + '# 1 "a.cu" 2\n' for n in range(1, 8)]
    share = header_share(('# 1 "a.cu"\n' + "".join(parts)).encode(), "a.cu")
    assert [header.name for header in share.headers] == ["h7.h", "h6.h", "h5.h", "h4.h", "h3.h"]
    assert share.lines == 28


@pytest.mark.parametrize("name", ["torch/all.h", "torch/extension.h", "torch/torch.h", "ATen/ATen.h", "c10/core/X.h"])
def test_advice_is_for_umbrella_headers_with_more_than_half(name: str) -> None:
    text = f'# 1 "p/a.cu"\n{{}}# 1 "t/include/{name}" 1\nx\nx\n# 2 "p/a.cu" 2\n'
    great = header_share(text.format("y\n").encode(), "a.cu").advice
    assert great.startswith(f"{name} is an umbrella header") == (name != "c10/core/X.h")
    assert header_share(text.format("y\ny\n").encode(), "a.cu").advice == ""


def test_ptx_is_equal_up_to_its_target_and_comments() -> None:
    same = [PTX.format(arch, "ret; // done\n /* really\n */").encode() for arch in ("80", "86")]
    assert ptx_code(same[0]) == ptx_code(same[1].replace(b"// NVVM", b"// Another"))
    assert ptx_code(same[0]) != ptx_code(PTX.format("80", "exit;").encode())
    assert ptx_code(b'.file 1 "a//b"') != ptx_code(b'.file 1 "a//c"')
