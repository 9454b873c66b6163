"""Prints, as JSON, what the classes of the module `shapes` answer: the same whoever made the module."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import re
import sys

import torch  # before the module, which finds its libraries through it

import shapes  # isort: skip

x = torch.ones(2)


class Sub(shapes.Point):
    """A class of Python's."""

    def __init__(self, a: float) -> None:
        """With an attribute of its own."""
        super().__init__(a, 2.0)
        self.extra = a


class Lazy(shapes.Point):
    """A class whose constructor does not call that of the base."""

    def __init__(self) -> None:
        """Do nothing."""


class Plain(shapes.Line):
    """A class without a constructor."""


def alive(make: object) -> tuple[int, int]:
    """How many objects live while the result of a function does, and afterwards, beside those before."""
    gc.collect()
    before = shapes.alive()
    result = make()
    during = shapes.alive() - before
    del result
    gc.collect()
    return during, shapes.alive() - before


def changed(target: object, **values: object) -> object:
    """An object with other attributes."""
    for name, value in values.items():
        setattr(target, name, value)
    return target


VALUES = {
    "None": None,
    "True": True,
    "0": 0,
    "1": 1,
    "-1": -1,
    "3": 3,
    "300": 300,
    "2**64 - 1": 2**64 - 1,
    "1.5": 1.5,
    "'text'": "text",
    "[]": [],
    "[1, 2]": [1, 2],
    "(1, 2)": (1, 2),
    "{}": {},
    "x": x,
    "Params()": shapes.Params(),
    "Point()": shapes.Point(),
    "Sub(1)": Sub(1.0),
    "Node()": shapes.Node(),
    "Dog()": shapes.Dog(),
    "Bird()": shapes.Bird(),
    "Bag()": shapes.Bag(),
    "[Params()]": [shapes.Params()],
    "[None]": [None],
    "(1, Params())": (1, shapes.Params()),
    "{'a': Params()}": {"a": shapes.Params()},
    "Kind.Square": shapes.Kind.Square,
    "Level.High": shapes.Level.High,
    "Flags.Write": shapes.Flags.Write,
    "Order.Second": shapes.Order.Second,
    "Wide.Huge": shapes.Wide.Huge,
    "[Kind.Round]": [shapes.Kind.Round],
    "[Node()]": [shapes.Node()],
    "Params": shapes.Params,
}

ONE_ARGUMENT = """kind_of kind_at level_of level_at wide_of kinds flags_or_text Kind Level Flags Order Wide Params Point
Line Node Dog Animal Bag Failing Empty Final Aggregate Only twice change pointer const_pointer not_none many table either
nested overloaded same_point same_pointer keep uses nodes maybe_node sound_of name_of new_animal""".split()

# What is left of the comparison: the address of an object, and the short name of a class where pybind11's has its module's.
ADDRESS = re.compile("0x[0-9a-f]+")

CALLS = """
[name for name in dir(shapes) if not name.startswith('__')]
[(name, type(value).__name__) for name, value in sorted(vars(shapes).items()) if isinstance(value, type)]
[(kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__) for kind in vars(shapes).values() if isinstance(kind, type)]
[kind.__name__ for kind in shapes.Bird.__mro__], [kind.__module__ for kind in shapes.Dog.__mro__]
shapes.Kind.Round, str(shapes.Kind.Round), int(shapes.Kind.Square), shapes.Kind.Other.value, shapes.Kind.Other.name
shapes.Kind.__members__, list(shapes.Kind.__members__), shapes.Level.__members__['Low'], shapes.Kind.__doc__
shapes.Kind(1), shapes.Kind(1) == shapes.Kind.Square, shapes.Kind(77), shapes.Kind(77).name, hash(shapes.Kind(77))
shapes.Kind(value=200), shapes.Kind.Round == 0, shapes.Kind.Round != 0, shapes.Kind.Round == None, shapes.Kind.Round == 'a'
shapes.Kind(300)
shapes.Kind(-1)
shapes.Kind()
shapes.Kind.Round < shapes.Kind.Square
shapes.Kind.Round & 1
shapes.Kind.Round.Square
isinstance(shapes.Kind.Round, shapes.Kind), isinstance(shapes.Kind.Round, int), isinstance(1, shapes.Kind)
list(shapes.Kind)
{shapes.Kind.Round: 1}[shapes.Kind(0)], shapes.Kind.Square in [shapes.Kind.Square], [1, 2, 3][shapes.Kind.Square]
setattr(shapes.Kind.Round, 'value', 3)
setattr(shapes.Kind.Round, 'other', 3)
shapes.Low, shapes.High is shapes.Level.High, shapes.Level.Low == -1, -1 == shapes.Level.Low, shapes.Level.Low != -1, shapes.Level(5)
shapes.Level.Low < shapes.Level.High
shapes.Level.Low == shapes.Flags.Read, shapes.Flags.Read == True
shapes.Read | shapes.Write, shapes.Read | 6, 6 & shapes.Write, shapes.Read ^ 3, ~shapes.Write, shapes.Read < 2, shapes.Write >= shapes.Read
shapes.Read | 'a'
shapes.Read + 1
shapes.Flags(shapes.Read | shapes.Write), shapes.Flags(3).name
shapes.Order.First < shapes.Order.Second, shapes.Order.First >= shapes.Order.First
shapes.Order.First < 1
shapes.Order.First & shapes.Order.Second
shapes.Order.First.next(), shapes.Order.First.is_first, shapes.Order.last(), shapes.Order.Second.next().is_first
shapes.Wide.Huge, int(shapes.Wide.Huge), shapes.wide_of(shapes.Wide.Huge), shapes.Wide(2**64 - 1) == shapes.Wide.Huge, shapes.Wide.Huge.value
shapes.kind_of(), shapes.kind_of(shapes.Kind.Other), shapes.kind_of(kind=shapes.Kind.Round), shapes.kind_at(1) == shapes.Kind.Square
shapes.kind_at(9), shapes.kind_at(9).name, shapes.level_at(-1), shapes.kind_of(shapes.kind_at(200))
shapes.level_of(shapes.Kind.Round)
pickle.loads(pickle.dumps(shapes.Kind.Square)), copy.deepcopy(shapes.Level.Low), copy.copy(shapes.Wide.Huge)
shapes.Params.Mode.Fast, shapes.Params.Exact, shapes.Params.Mode.__qualname__, shapes.Params.Mode.__module__, shapes.Params().mode
p := shapes.Params(), p.alpha, p.count, p.flag, p.name, p.poly, p.sizes, p.limit, p.mode, p.weight
p := changed(shapes.Params(), alpha=2, count=True, flag=1, name='new', poly=(3, 4, 5), sizes=[], limit=3, mode=shapes.Params.Fast, weight=x), p.alpha, p.count, p.flag, p.name, p.poly, p.sizes, p.limit, p.mode, p.weight is x
changed(shapes.Params(), limit=None).limit, changed(shapes.Params(), poly=torch.tensor([1, 2, 3])).poly
changed(shapes.Params(), alpha='a')
changed(shapes.Params(), count=2.5)
changed(shapes.Params(), count=2**40)
changed(shapes.Params(), poly=[1, 2])
changed(shapes.Params(), name=None)
changed(shapes.Params(), mode=1)
changed(shapes.Params(), mode=shapes.Kind.Round)
changed(shapes.Params(), weight=[1])
p := shapes.Params(), p.sizes.append(5), p.sizes
delattr(shapes.Params(), 'alpha')
shapes.Params.version, changed(shapes.Params, version=8) is shapes.Params, shapes.Params().version, shapes.Params.doubled, shapes.Params.fixed
p := changed(shapes.Params(), version=9), shapes.Params.version, changed(shapes.Params, version=7).version
changed(shapes.Params, version='a')
changed(shapes.Params, fixed=3)
changed(shapes.Params, doubled=3)
shapes.Params.CONSTANT, shapes.AlsoParams is shapes.Params, shapes.default_params.count, changed(shapes.Params, CONSTANT=6).CONSTANT
type(shapes.Params.alpha).__name__, shapes.Params.alpha.__doc__, shapes.Params.count.__doc__, shapes.Params.alpha.fget.__doc__, shapes.Params.alpha.fset.__doc__
shapes.Params.alpha.fget(3)
shapes.Params(1)
shapes.Params(a=1)
shapes.apply(x, shapes.Params()), shapes.apply(x, shapes.Params(), None), shapes.apply(params=shapes.Params(), x=x, other=changed(shapes.Params(), count=8))
shapes.apply(x, None)
shapes.apply(x, shapes.Point())
shapes.apply(x)
shapes.apply.__doc__, shapes.twice.__doc__, shapes.pointer.__doc__, shapes.const_pointer.__doc__, shapes.many.__doc__, shapes.either.__doc__
p := shapes.Params(), shapes.twice(p).count, p.count, shapes.change(p), p.count
shapes.pointer(None), shapes.pointer(shapes.Params()), shapes.const_pointer(), shapes.not_none(shapes.Params())
shapes.many((shapes.Params(), shapes.Params())), shapes.table({'a': shapes.Params()}), shapes.either(None)
shapes.both(changed(shapes.Params(), count=4), 5)[0].count, shapes.nested((1, shapes.Params()))[0][1].count
shapes.overloaded(shapes.Params()), shapes.overloaded(x), shapes.overloaded(3), shapes.overloaded.__doc__
shapes.Point(), shapes.Point(1), shapes.Point(x=2), shapes.Point(1, y=3), shapes.Point('four'), shapes.Point((5, 6)), shapes.Point(7, 'a')
shapes.Point(-1, 'a')
shapes.Point(y=3)
shapes.Point(1, 2, 3)
shapes.Point.__init__.__doc__, shapes.Point.__init__.__name__, shapes.Point.norm2.__doc__, shapes.Point.scale.__doc__, shapes.Point.unit.__doc__
shapes.Point.mixed.__doc__, shapes.Point.only_keyword.__doc__, shapes.Point.__add__.__doc__, shapes.Point.x.__doc__, shapes.Point.x.fget.__doc__
shapes.Point(3, 4).norm2(), shapes.Point.norm2(shapes.Point(1, 1)), shapes.Point(1, 2).distance(shapes.Point(3, 3)), shapes.Point(1, 2).distance(other=shapes.Point(3, 3))
shapes.Point(3, 4).norm2(1)
shapes.Point.norm2()
shapes.Point.norm2(3)
shapes.Point.norm2(shapes.Params())
shapes.Point().distance(3)
shapes.Point().distance(None)
shapes.Point().missing
changed(shapes.Point(), missing=1)
p := shapes.Point(1, 2), p.scale() is p, p, p.scale(factor=3), p.scale_copy(1) is p, p.scale_copy(1)
shapes.Point().only_keyword(1), shapes.Point().only_keyword(1, b=2), shapes.Point().only_keyword(a=3)
shapes.Point().only_keyword(1, 2)
shapes.Point().mixed(1), shapes.Point().mixed('a'), shapes.Point().mixed(text='b')
shapes.Point().mixed([])
shapes.Point.unit(), shapes.Point().unit(), shapes.Point.of(3), shapes.Point.of(x=4)
shapes.Point.of('a')
p := changed(shapes.Point(1, 2), x=5, y=6), p.x, p.y, p.both, p.sum, changed(p, sum=20).y
changed(shapes.Point(), both=(1, 2))
changed(shapes.Point(), x='a')
repr(shapes.Point(1, 2)), len(shapes.Point()), shapes.Point(3)(4), shapes.Point(3)(factor=5), bool(shapes.Point()), bool(shapes.Point(1)), float(shapes.Point(2))
list(shapes.Point(1, 2)), shapes.Point(1, 2)[1], 2.0 in shapes.Point(1, 2), 5 in shapes.Point(1, 2), shapes.Point(1, 2).__setitem__(0, 9)
shapes.Point(1, 2)[2]
shapes.Point(1, 2)['a']
p := shapes.Point(1, 2), p.__enter__() is p
shapes.Point(1, 2) + shapes.Point(3, 4), shapes.Point(1, 2) * 3, 3 * shapes.Point(1, 2), -shapes.Point(1, 2), shapes.Point(1, 2) - shapes.Point(3, 4)
shapes.Point(1, 2) == shapes.Point(1, 2), shapes.Point(1, 2) != shapes.Point(1, 2), shapes.Point(1, 2) == 3, shapes.Point(1) < shapes.Point(2), shapes.Point(1) > shapes.Point(2)
p := shapes.Point(1, 2), q := p, p.__iadd__(shapes.Point(1, 1)) is p, q
shapes.Point(1, 2) + 3
shapes.Point(1, 2) - 'a'
shapes.Point(1, 2) * 'a'
shapes.Point.__add__(shapes.Point(), 3)
hash(shapes.Point())
pickle.loads(pickle.dumps(shapes.Point(1, 2))), copy.copy(shapes.Point(3, 4)), copy.deepcopy([shapes.Point(5, 6)]), shapes.Point(1, 2).__getstate__()
pickle.dumps(shapes.Node())
copy.copy(shapes.Bag())
s := Sub(3), s, s.extra, s.norm2(), shapes.Point(1, 1).distance(s), isinstance(s, shapes.Point), shapes.same_point(s) is s, type(s + s).__name__
changed(Sub(3), more=1).more, type(shapes.points(1)[0]).__name__, pickle.loads(pickle.dumps(Sub(3))).norm2()
Lazy()
Plain().start, Plain(shapes.Point(9, 9)).start, changed(Plain(), other=1).other
type('A', (shapes.Final,), {})
type('A', (shapes.Empty,), {})()
p := shapes.Point(1, 2), p.__init__(3, 4), p
shapes.Empty()
shapes.Animal()
shapes.Only()
line := shapes.Line(), line.start, line.end, line.start is line.start, changed(line, anything=3).anything, line.__dict__
line := shapes.Line(shapes.Point(1, 2)), changed(line.start, x=8), line.start, line.start_ref() is line.start, line.start_pointer() is line.start
line := shapes.Line(from_=shapes.Point(1, 2)), changed(line.start_copy(), x=8), line.start, line.start_copy() is line.start_copy()
line := shapes.Line(), start := line.start, line.start is start, line.start_copy() is start, changed(line, start=shapes.Point(4, 4)).start, start
changed(shapes.Line(), start=3)
changed(shapes.Line(), start=None)
changed(shapes.Line(), end=shapes.Point())
changed(shapes.Line(), points=[shapes.Point(1, 1)]).points, shapes.Line().points
line := shapes.Line(), point := shapes.Point(2, 3), line.set_far(point), line.get_far() is point, line.far is point, line.far
shapes.Line().far, shapes.Line().get_far(), changed(shapes.Line(), far=None).far
line := shapes.Line(), everything := line.all(), everything, everything[0] is line.start, line.copies(), line.copies()[0] is line.start
shapes.Line().all()[1], shapes.Line().start, shapes.Line(shapes.Point(3, 3)).start.norm2()
shapes.new_point(), shapes.unique_point(), shapes.no_point(), shapes.points(2)
p := shapes.Point(), shapes.same_point(p) is p, shapes.same_pointer(p) is p, shapes.same_pointer(None)
shapes.same_point(None)
shapes.Node().label, shapes.Node('a').label, shapes.Node(3).label, shapes.Node(label='b').label, shapes.Node().next
n := shapes.Node('a'), shapes.keep(n), shapes.get_kept() is n, shapes.keep(None), shapes.get_kept()
shapes.keep(shapes.Node('b')), shapes.get_kept().label, shapes.get_kept() is shapes.get_kept(), first := shapes.get_kept(), first is shapes.get_kept(), shapes.keep(node=None)
a := shapes.Node('a'), b := shapes.Node('b'), changed(a, next=b).next is b, a.next.label, changed(a, next=None).next
a := changed(shapes.Node('a'), next=shapes.Node('c')), a.next.label, a.next is a.next
shapes.new_node().label, shapes.uses(shapes.Node()), shapes.uses(None), shapes.nodes([a := shapes.Node(), None, a])[0] is a
shapes.maybe_node(None), shapes.maybe_node(shapes.Node())
changed(shapes.Node(), label='a')
changed(shapes.Node(), next=3)
d := shapes.Dog(), d.sound(), d.legs, d.tricks, d.legs_of(), shapes.sound_of(d), shapes.legs_of(d), changed(d, legs=3).legs, shapes.Animal.sound(d)
b := shapes.Bird(), b.sound(), b.legs, b.name, shapes.sound_of(b), shapes.legs_of(b), shapes.name_of(b), changed(b, name='tit', legs=2).name, shapes.legs_of(b), shapes.name_of(b)
isinstance(shapes.Dog(), shapes.Animal), issubclass(shapes.Bird, shapes.Named), shapes.Dog.__bases__[0].__name__
type(shapes.new_animal(True)).__name__, type(shapes.new_animal(False)).__name__, shapes.new_animal(True).tricks, shapes.new_animal(False).name
shapes.sound_of(shapes.Named())
shapes.name_of(shapes.Dog())
shapes.Dog.sound(shapes.Named())
o := shapes.Only.instance(), o is shapes.Only.instance(), changed(o, value=4).value, shapes.Only.instance().value, shapes.copy_only() is o
bag := shapes.Bag(), len(bag), bag.add(1).add(2) is bag, list(bag), bag[1], bag.without_lock(), hash(bag), bag == shapes.Bag([1, 2]), {bag: 1}[shapes.Bag([1, 2])]
shapes.Bag()[0]
shapes.Bag(['a'])
shapes.Bag() == 3
shapes.Bag().add('a')
bool(shapes.Bag()), bool(shapes.Bag([1]))
shapes.Failing(1)
shapes.Failing(2)
type(shapes.Failing(0)).__name__
shapes.Aggregate(1), shapes.Aggregate(1, b=2).b, shapes.Aggregate(a=3).a, shapes.Aggregate(1).b
changed(shapes.Aggregate(1), a=3)
shapes.sub.Inner().value, shapes.sub.Inner.__module__, shapes.sub.Inner.Deep.__qualname__, str(shapes.sub.Inner.Deep()), shapes.sub.inner().value, shapes.sub.Inner.Deep.__module__
alive(lambda: shapes.Point(1, 2)), alive(lambda: [shapes.Point(1, 2) for _ in range(10)]), alive(lambda: shapes.new_point())
alive(lambda: shapes.points(5)), alive(lambda: shapes.unique_point()), alive(lambda: shapes.Line()), alive(lambda: shapes.Line().start)
alive(lambda: (line := shapes.Line(), line.start, line.all(), line.copies())), alive(lambda: shapes.Point(1, 2).scale()), alive(lambda: shapes.Point(1, 2).scale_copy(2))
alive(lambda: shapes.Point(1, 2) + shapes.Point(2, 3)), alive(lambda: Sub(1)), alive(lambda: shapes.Dog()), alive(lambda: shapes.Bird()), alive(lambda: shapes.new_animal(True))
alive(lambda: changed(a := shapes.Node(), next=a) and a and changed(a, next=None)), alive(lambda: shapes.keep(shapes.Node())), alive(lambda: shapes.get_kept()), alive(lambda: shapes.keep(None))
alive(lambda: pickle.loads(pickle.dumps(shapes.Point(1, 2)))), alive(lambda: shapes.same_point(shapes.Point())), alive(lambda: shapes.nodes([shapes.Node(), shapes.Node()]))
alive(lambda: (line := shapes.Line(), line.set_far(shapes.Point(1, 2)), line)), alive(lambda: (line := shapes.Line(), line.set_far(shapes.Point(1, 2)), line.get_far())[2])
(line := shapes.Line(), line.set_far(shapes.Point(6, 7)), gc.collect() * 0, line.get_far())
shapes.fails(1)
shapes.fails(2)
shapes.fails(3)
shapes.Problem.__mro__, shapes.Worse.__mro__, shapes.Problem.__doc__
torch.func.vmap(lambda t: shapes.apply(t, shapes.Params()))(torch.ones(2, 3))
(lambda t: (shapes.apply(t, shapes.Params()).sum().backward(), t.grad))(torch.ones(2, requires_grad=True))
""".strip().splitlines()


def answer(expression: str, names: dict[str, object]) -> str:
    """What an expression is, or its error."""
    try:
        text = repr(eval(f"({expression})", globals(), names))  # noqa: S307
    except Exception as problem:  # noqa: BLE001  (every kind is an answer)
        text = f"{type(problem).__name__}: {problem}".partition("\nException raised from")[0]
    return ADDRESS.sub("0x", text).replace("'shapes.", "'")


def main() -> None:
    """Print the answers."""
    answers = {expression: answer(expression, {}) for expression in CALLS}
    for name in ONE_ARGUMENT:
        answers |= {
            f"shapes.{name}({spelled})": answer(f"shapes.{name}(value)", {"value": value})
            for spelled, value in VALUES.items()
        }
    answers |= {
        f"{name}.__doc__": ADDRESS.sub("0x", str(value.__doc__)) for name, value in sorted(vars(shapes).items()) if callable(value)
    }
    json.dump(answers, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
