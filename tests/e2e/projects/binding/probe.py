"""Prints, as JSON, what the module `wide` answers to many calls: the same whoever made the module."""

from __future__ import annotations

import decimal
import fractions
import json
import pickle
import sys

import numpy
import torch
import wide
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

x = torch.tensor([1.0, 2.0])
grad = torch.tensor([1.0, 2.0], requires_grad=True)


class Index:
    """Something that is an index."""

    def __index__(self) -> int:
        return 6


class Sub(torch.Tensor):
    """A class of tensors."""


class Recorder(TorchDispatchMode):
    """A mode that sees the ops that are called."""

    def __init__(self) -> None:
        """With no op yet."""
        super().__init__()
        self.ops: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        """Note an op and call it."""
        self.ops.append(str(func))
        return func(*args, **(kwargs or {}))

    @classmethod
    def record(cls, call: object) -> list[str]:
        """The ops of a call."""
        with cls() as recorder:
            call()
        return recorder.ops


VALUES = {
    "None": None,
    "True": True,
    "0": 0,
    "1": 1,
    "5": 5,
    "-1": -1,
    "127": 127,
    "128": 128,
    "-129": -129,
    "255": 255,
    "65536": 65536,
    "2**31": 2**31,
    "2**32-1": 2**32 - 1,
    "2**63-1": 2**63 - 1,
    "2**63": 2**63,
    "-2**63": -(2**63),
    "2**64": 2**64,
    "1.5": 1.5,
    "2.0": 2.0,
    "nan": float("nan"),
    "1e300": 1e300,
    "'a'": "a",
    "'text'": "text",
    "'é'": "é",
    "''": "",
    "'5'": "5",
    "b'bytes'": b"bytes",
    "1j": 1j,
    "[]": [],
    "[1, 2, 3]": [1, 2, 3],
    "(1, 2)": (1, 2),
    "(1, 'a')": (1, "a"),
    "(1, 2.5, True)": (1, 2.5, True),
    "[1, 2.5]": [1, 2.5],
    "[[1, 2], [3.5]]": [[1, 2], [3.5]],
    "{1, 2}": {1, 2},
    "range(3)": range(3),
    "{'a': 1}": {"a": 1},
    "{'a': 1.5}": {"a": 1.5},
    "x": x,
    "[x, x]": [x, x],
    "(x, None)": (x, None),
    "tensor(3)": torch.tensor(3),
    "tensor(2.5)": torch.tensor(2.5),
    "tensor([1, 2])": torch.tensor([1, 2]),
    "Parameter": torch.nn.Parameter(x.clone()),
    "numpy.int64(4)": numpy.int64(4),
    "numpy.uint8(4)": numpy.uint8(4),
    "numpy.float32(0.5)": numpy.float32(0.5),
    "numpy.bool_(True)": numpy.bool_(True),
    "numpy.array([1, 2, 3])": numpy.array([1, 2, 3]),
    "Decimal('3')": decimal.Decimal(3),
    "Fraction(1, 2)": fractions.Fraction(1, 2),
    "Index()": Index(),
    "torch.float32": torch.float32,
    "torch.int8": torch.int8,
    "torch.bfloat16": torch.bfloat16,
    "torch.strided": torch.strided,
    "torch.device('cpu')": torch.device("cpu"),
    "torch.Generator()": torch.Generator(),
    "object": object,
}

ONE_ARGUMENT = """i8 u8 i16 u16 i32 u32 i64 u64 size address f32 f64 boolean letter text_of view_of c_text dtype_of
device_of is_generator identity ints int_ref nested three pair one triple tensors optional_tensors table
optional_int optional_ref optional_const strict no_none described kind twice shifted fails modes""".split()

CALLS = """
wide.__doc__
wide.__version__, wide.number, wide.ratio, wide.flag, wide.nothing, wide.wrapped, wide.text
wide.Mode.Sum, wide.Mode.Max, wide.Sum is wide.Mode.Sum, int(wide.Mode.Max), wide.Mode(1), wide.Mode.Mean.name
str(wide.Mode.Mean), repr(wide.Mode.Mean), wide.Mode.Mean.value, wide.Mode.__name__, wide.Mode.__module__
wide.mode_name(), wide.mode_name(wide.Max), wide.mode_name(mode=wide.Sum)
wide.mode_name('a')
wide.mode_name(1.5)
wide.mode_of(5), wide.modes([wide.Sum, wide.Max])
wide.mode_name(1)
wide.Mode.Sum == 0, wide.Mode.Sum == wide.Mode(0), isinstance(wide.Mode.Sum, int), wide.Mode(7), hash(wide.Mode.Max), wide.Mode.__members__
s := wide.Settings(), s.factor, s.sizes, s.mode, s.area(), s.area(unit=2), wide.apply(x, s), wide.larger(s).factor, s.factor
s := wide.Settings(), setattr(s, 'factor', 2), setattr(s, 'sizes', (3, 4)), setattr(s, 'mode', wide.Sum), s.factor, s.sizes, s.mode, s.area(), wide.apply(x=x, settings=s)
setattr(wide.Settings(), 'factor', 'a')
setattr(wide.Settings(), 'sizes', [1])
setattr(wide.Settings(), 'mode', 1)
wide.Settings(1)
wide.apply(x, None)
wide.apply(x, wide.Mode.Sum)
wide.Settings.area('a')
type(wide.Settings).__name__, wide.Settings.__module__, wide.Settings.__doc__, wide.Settings.area.__doc__, wide.Settings.__init__.__doc__
wide.fwd(x, x, None, 2.0, True, 3, None)
wide.fwd(x, x, None, 2, True, 3, None)
wide.fwd(x, x, x.clone(), 2, True, 3, torch.Generator())
wide.fwd(x, x, None, 2.0, True, 3)
wide.fwd(x, x, None, 2.0, True, 3, None, 1)
wide.fwd(x, None, None, 2.0, True, 3, None)
wide.fwd(arg0=x)
wide.fwd(q=x)
wide.fwd()
out := torch.zeros(2), wide.add_(x, out), out
out := torch.zeros(2), wide.add_(x, out=out, n=5), out
wide.add_(n=1, out=torch.zeros(2), x=x)
wide.add_(x)
wide.add_(x, x, m=1)
wide.add_(x, x, x=x)
wide.add_(x, x, 1, 2)
wide.add_(x, [1.0, 2.0])
wide.several(x), wide.several(x, 3), wide.several(scale=4.0, x=x), type(wide.several(x))
wide.scaled(2.0, 3), wide.scaled(x, 3), wide.scaled(2, 3), wide.scaled(n=3, x=x)
wide.scaled('a', 3)
wide.scaled(x, 2.5)
wide.scaled(x)
wide.scaled(x, n=None)
wide.shifted(2), wide.shifted(x=3)
wide.calls(), wide.calls()
wide.calls(1)
wide.fails('invalid')
wide.fails('range')
wide.fails('runtime')
wide.fails('overflow')
wide.fails('value')
wide.fails('index')
wide.fails('type')
wide.fails('check')
wide.fails('check_value')
wide.fails('check_index')
wide.fails('check_not')
wide.fails('view')
wide.undefined(), wide.list_with_undefined()
wide.identity(x) is x, wide.tensors([x])[0] is x
wide.layout_of(x), wide.dtype_tuple(x), wide.dtype_of()
wide.optional_int(), wide.optional_ref(), wide.is_generator()
wide.one(3), type(wide.ints([1])), type(wide.three([1, 2, 3])), type(wide.tensors((x,)))
wide.defaults()
wide.defaults(2, 0.5, False, 'b', 3, [])
wide.defaults(f=(1,), e=None)
wide.defaults(e=2.5)
wide.described()
wide.keywords(1), wide.keywords(1, b=3), wide.keywords(a=1, b=3)
wide.keywords(1, 3)
wide.keywords(b=3)
wide.positional(1), wide.positional(1, 3), wide.positional(1, b=3)
wide.positional(a=1)
wide.strict(1)
wide.no_none(None)
wide.no_none()
wide.without_lock(x), wide.released(x), wide.policy(x) is x
wide.below.twice(3), wide.below.twice(x=3), wide.below.level, wide.below.__doc__, wide.below.__name__
wide.below.twice('a')
sys.modules['wide.below'] is wide.below
wide.also_twice(4), wide.also_twice.__name__
(wide.identity(grad) * 3).sum().backward(), grad.grad
wide.several(grad)[1].requires_grad, wide.several(grad)[1].grad_fn.name()
type(wide.without_lock(x.as_subclass(Sub))), type(wide.identity(x.as_subclass(Sub)))
wide.tensors([x, None])
wide.tensors(x)
torch.func.vmap(lambda t: wide.several(t)[1])(torch.ones(2, 3))
torch.func.grad(lambda t: wide.several(t, 3.0)[1].sum())(x)
torch.func.vmap(torch.func.grad(lambda t: wide.several(t, 3.0)[1].sum()))(torch.ones(3, 2))
torch.func.jvp(lambda t: wide.several(t, 3.0)[1], (x,), (x,))
torch.func.functionalize(lambda t: (wide.add_(t, out := torch.zeros(2)), out)[1])(x)
make_fx(lambda t: wide.several(t)[1])(x).code
torch.inference_mode()(wide.several)(x), torch.inference_mode()(wide.several)(torch.ones(2))[1].is_inference()
torch.no_grad()(wide.several)(grad)[1].requires_grad
wide.several(x.to("meta")), wide.several(x.to_sparse()), wide.several((x + 1j).conj()), wide.identity((x + 1j).conj()).is_conj()
wide.several(torch.nested.nested_tensor([x, x], layout=torch.jagged))[0]
Recorder.record(lambda: wide.several(x))
torch.jit.trace(lambda t: wide.several(t, 3.0)[1], (x,))(x * 2)
pickle.loads(pickle.dumps(wide.add_)) is wide.add_
pickle.loads(pickle.dumps(wide.Mode.Max)) == wide.Mode.Max
[name for name in dir(wide) if not name.startswith('__')]
[(name, value.__name__, value.__module__) for name, value in sorted(vars(wide).items()) if callable(value)]
""".strip().splitlines()


def answer(expression: str, names: dict[str, object]) -> str:
    """What an expression is, or its error."""
    try:
        return repr(eval(f"({expression})", globals(), names))  # noqa: S307
    except Exception as problem:  # noqa: BLE001  (every kind is an answer)
        return f"{type(problem).__name__}: {problem}".partition("\nException raised from")[0]


def main() -> None:
    """Print the answers."""
    answers = {expression: answer(expression, {}) for expression in CALLS}
    for name in ONE_ARGUMENT:
        answers |= {
            f"wide.{name}({spelled})": answer(f"wide.{name}(value)", {"value": value})
            for spelled, value in VALUES.items()
        }
    answers |= {f"{name}.__doc__": str(value.__doc__) for name, value in sorted(vars(wide).items()) if callable(value)}
    json.dump(answers, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
