"""Schemas of ops: what torch takes is taken, and what is wrong with others is named where it stands."""

from __future__ import annotations

import pytest

from py_driver.plan.op_schema import name_problem, schema_problem


@pytest.mark.parametrize(
    "text",
    [
        "f(Tensor x) -> Tensor",
        "ns::f.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "f(Tensor! out, Tensor? x=None, int[] y=[], SymInt[2]? z=None, float eps=1e-5, bool b=True) -> ()",
        "f(Dict(str, Tensor)[] x, (int, float)? y, Future(int) z) -> (Tensor a, Tensor[] b)",
        "f(Tensor(a! -> a|b) x, str s='none', str t=\"it's\", ScalarType d=float, int m=-1) -> ...",
        "\n  f(Tensor x,\n    int y) -> Tensor\n",
        "f() -> __torch__.torch.classes.ns.Class",
        "f(Tensor self, int n=0x10, int[2] more) -> (Tensor, ...)",
        "f(int[] a=[1, long], int[2] b=3, int[2] c=[], bool[2] d=True, int[2]? e=None, float f=None, str s=1) -> ()",
        "f._x(int? x=Mean, ScalarType d=bfloat16, float[] y=[-1.5], int[] z) -> ()",
        "f(int y, *, int z, ...) -> Any # what follows is a comment",
        "aten::f(t x) -> t",
    ],
)
def test_what_torch_takes(text: str) -> None:
    assert schema_problem(text) is None


@pytest.mark.parametrize(
    ("text", "part", "message"),
    [
        ("f(double x) -> ()", "double", "there is no type `double`: write `float`"),
        ("f(int64_t x) -> ()", "int64_t", "there is no type `int64_t`: write `int`"),
        ("f(Tensor x) -> void", "void", "there is no type `void`: write `()`"),
        ("f(at::Tensor x) -> ()", "at", "there is no type `at`: write `Tensor`"),
        ("f(std::string x) -> ()", "std", "there is no type `std`: write `str`"),
        ("f(foo x) -> ()", "foo", "there is no type `foo`"),
        ("f(Tensor x)", "", "`->` is expected after the arguments, not the end"),
        ("f", "", "the arguments are expected in brackets, not the end"),
        ("f(Tensor) -> ()", ")", "the name of an argument is expected, not `)`"),
        ("f(Tensor x, ) -> ()", ")", "a type is expected, not `)`"),
        ("f(Tensor& x) -> ()", "&", "the name of an argument is expected, not `&`"),
        ("f(Tensor in) -> ()", "in", "`in` is a reserved word of torch and cannot be the name of an argument"),
        ("f(Tensor x Tensor y) -> ()", "Tensor y", "`,` or `)` is expected, not `Tensor`"),
        ("f(Tensor x=1) -> ()", "1", "a Tensor can only be `None` by default, not `1`"),
        ("f(bool x=false) -> ()", "false", "`false` is not a value: write `False`"),
        ("f(int[] x=None) -> ()", "None", "`int[]` can only be `[...]` by default, not `None`"),
        ("f(int[] x=1) -> ()", "1", "`int[]` can only be `[...]` by default, not `1`"),
        ("f(int[2] x=None) -> ()", "None", "`None` cannot be in a list of `int`"),
        ("f(int[2] x=inf) -> ()", "inf", "`int[N]` can only be `[...]` or a number by default, not `inf`"),
        ("f(int[] x=[1, -1.5]) -> ()", "1.5", "`1.5` cannot be in a list of `int`"),
        ("f(bool[2] x=1) -> ()", "1", "`1` cannot be in a list of `bool`"),
        ("f(float[] x=[True]) -> ()", "True", "`True` cannot be in a list of `float`"),
        ("f(float[] x=['a']) -> ()", "'a'", "`'a'` cannot be in a list of `float`"),
        ("f(Tensor? x=[]) -> ()", "[]", "only a list without `?` can be `[...]` by default"),
        ("f(int[]? x=[]) -> ()", "[]", "only a list without `?` can be `[...]` by default"),
        ("f(float y=inf) -> ()", "inf", "torch knows no value `inf`"),
        ("f(Tensor[] x=None) -> ()", "None", "torch accepts no default for `Tensor[]`"),
        ("f.default(int x) -> ()", "default", "torch reserves `default`; it cannot be the name of an overload"),
        ("f.__x(int x) -> ()", "__x", "torch reserves `__x`; it cannot be the name of an overload"),
        ("f(..., int x) -> ()", ",", "`...` must be the last, and `,` follows"),
        ("f() -> (..., int)", ",", "`...` must be the last, and `,` follows"),
        ("f(str[] x=[]) -> ()", "[]) ", "torch accepts no default for `str[]`"),
        ("f(int x=1, int y) -> ()", "y", "`y` needs a default, as an argument before it has one"),
        ("f(Tensor x) -> Tensor, Tensor", ", Tensor", "the end is expected, not `,`"),
        ("f(Tensor x)\n -> Tensor", "\n", "`->` is expected after the arguments, not the end of the line"),
        ("f(Tensor x) -> (Tensor", "", "`,` or `)` is expected, not the end"),
        ("f-g(Tensor x) -> ()", "-g", "the arguments are expected in brackets, not `-`"),
    ],
)
def test_what_torch_refuses(text: str, part: str, message: str) -> None:
    found = schema_problem(text)
    assert found is not None
    assert found.message == message
    assert text.startswith(part, found.start)
    assert found.end <= len(text)


def test_names() -> None:
    assert [name_problem(name) for name in ("f", "ns::f", "f.out", "_f2")] == [None] * 4
    assert all(name_problem(name) for name in ("", "f.", "a::b::c", "f(int x)", "2f", "is"))
