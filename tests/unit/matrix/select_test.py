"""Variants, their names, their archs, and choosing among them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from py_driver.errors import Code, DriverError
from py_driver.matrix.backends import BUILT, backend_of, version_of
from py_driver.matrix.backends.cuda import loose_intersection
from py_driver.matrix.configurations import Configuration, parse, spell
from py_driver.matrix.releases import Releases
from py_driver.matrix.select import Words, expand, is_for, narrow, select

CUDA = next(toolkit for toolkit in Releases().matrix.toolkits if toolkit.backend == "cu130")
choose = BUILT["cuda"].choose
OLD = "7.0;7.2;7.5;8.0;8.6;8.7;8.9;9.0"


@pytest.mark.parametrize(
    ("requested", "toolkit", "expected"),
    [
        # What upstream's CMake function answers; it was run for these.
        ("7.5;8.0;8.6;9.0;9.0a", "8.0;8.9;9.0", "8.0;8.6;9.0a"),
        ("9.0;9.0a", "9.0;10.0", "9.0a"),
        ("8.0+PTX", "9.0", "8.0+PTX"),
        ("9.0a", OLD, "9.0a"),
        ("5.0;7.5;8.0;9.0", OLD, "7.5;8.0;9.0"),
        ("8.0;9.0;10.0;12.0", OLD, "8.0;9.0"),
        ("8.0;10.3a", "7.0;7.5;8.0;9.0;10.0", "8.0"),
        ("10.3a", "7.0;7.5;8.0;9.0;10.0", ""),
        (OLD, "5.0;6.0;7.0;7.5;8.0;8.6;9.0", "7.0;7.5;8.0;8.6;9.0"),
    ],
)
def test_loose_intersection_is_upstreams(requested: str, toolkit: str, expected: str) -> None:
    archs = loose_intersection(requested.split(";"), toolkit.split(";"))
    assert ";".join(archs.kept) == expected


def test_every_dropped_arch_has_its_reason() -> None:
    archs = choose(["7.0", "8.0", "9.0", "9.0a", "10.1a", "12.1+PTX"], CUDA)
    assert archs.kept == ("8.0", "9.0a", "12.1+PTX")
    assert {exclusion.arch: exclusion.reason for exclusion in archs.dropped} == {
        "9.0": "replaced by 9.0a",
        "10.1a": "the toolkit does not compile for 10.1",
        "7.0": "nvcc 13.0 does not compile for 7.0",
    }


_ARCH = st.builds(
    lambda major, minor, tail: f"{major}.{minor}{tail}",
    st.integers(5, 12),
    st.integers(0, 9),
    st.sampled_from(["", "a", "f", "+PTX", "a+PTX"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(_ARCH, max_size=8))
def test_no_arch_is_lost_silently(requested: list[str]) -> None:
    archs = choose(requested, CUDA)
    bare = {arch.removesuffix("+PTX") for arch in requested}
    kept = [arch.removesuffix("+PTX") for arch in archs.kept]
    dropped = [exclusion.arch.removesuffix("+PTX") for exclusion in archs.dropped]
    assert sorted(kept + dropped) == sorted(bare)
    assert all(exclusion.reason for exclusion in archs.dropped)


def test_default_archs_are_all_built() -> None:
    for cuda in Releases().matrix.toolkits_of("cuda"):
        assert choose(None, cuda).kept == cuda.default_archs
        assert choose(None, cuda).dropped == ()


@pytest.mark.parametrize(
    ("identifier", "configuration"),
    [
        (
            "torch213-cxx11-cu130-x86_64-linux",
            Configuration(torch="2.13", abi="cxx11", backend="cu130", cpu="x86_64", os="linux"),
        ),
        (
            "torch26-cxx98-cpu-aarch64-linux",
            Configuration(torch="2.6", abi="cxx98", backend="cpu", cpu="aarch64", os="linux"),
        ),
        (
            "torch-stable-abi210-cu130-x86_64-linux",
            Configuration(torch="2.10", stable=True, backend="cu130", cpu="x86_64", os="linux"),
        ),
        (
            "torch215-cxx11-cu1310-x86_64-linux",
            Configuration(torch="2.15", abi="cxx11", backend="cu1310", cpu="x86_64", os="linux"),
        ),
        ("torch-cpu", Configuration(backend="cpu")),
        ("torch-cuda", Configuration(backend="cuda")),
        ("torch-universal", Configuration(backend="universal")),
    ],
)
def test_names_go_both_ways(identifier: str, configuration: Configuration) -> None:
    assert spell(configuration) == identifier
    assert parse(identifier) == configuration


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("cu118", "11.8"),
        ("cu130", "13.0"),
        ("cu132", "13.2"),
        ("cu1310", "13.10"),
        ("cu1312", "13.12"),
        ("rocm72", "7.2"),
        ("rocm710", "7.10"),
    ],
)
def test_a_minor_version_may_have_two_digits(name: str, version: str) -> None:
    backend = backend_of(name)
    assert backend is not None
    assert (backend.version_of(name), backend.name_of(version)) == (version, name)


@pytest.mark.parametrize(
    "name", ["cu013", "cu0130", "cu13", "cu1300", "cu1301", "cu13100", "rocm7", "rocm700", "rocm7100"]
)
def test_no_other_name_means_a_toolkit(name: str) -> None:
    assert backend_of(name) is None


def test_what_was_built_for_an_earlier_minor_version_runs() -> None:
    names = ["cu128", "cu130", "cu139", "cu1310", "cu1311"]
    assert [name for name in names if BUILT["cuda"].runs_with(name, "cu1310")] == ["cu130", "cu139", "cu1310"]
    assert [backend for backend in ("rocm71", "rocm710", "rocm711") if BUILT["rocm"].runs_with(backend, "rocm710")] == [
        "rocm710"
    ]


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "torch",
        "torch-noarch",
        "torch213",
        "torch213-cxx11-cu130-x86_64-linux.sig",
        "torch-stable-abi29-cxx11-cu130-x86_64-linux",
        "torch-stable-abi-cpu-x86_64-linux",
    ],
)
def test_names_that_spell_no_variant(identifier: str) -> None:
    with pytest.raises(DriverError) as caught:
        parse(identifier)
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT


def test_every_variant_of_the_matrix_has_a_name_and_a_toolkit() -> None:
    matrix = Releases().matrix
    configurations = list(matrix.configurations())
    assert all(parse(spell(configuration)) == configuration for configuration, _ in configurations)
    assert len({spell(configuration) for configuration, _ in configurations}) == len(configurations)
    assert [default for _, default in configurations] == sorted(
        (default for _, default in configurations), reverse=True
    )
    for configuration, _ in configurations:
        toolkit = matrix.toolkit(configuration.backend)
        assert (toolkit.version if toolkit else None) == version_of(configuration.backend)


DEFAULT = tuple(
    f"torch{torch}-cxx11-{backend}-x86_64-linux" for torch in ("213", "215") for backend in ("cpu", "cu130", "cu132")
)
OTHERS = ("torch211-cxx11-cpu-x86_64-linux", "torch211-cxx11-cu130-x86_64-linux")


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ([], DEFAULT),
        (["torch213-*-{cpu,cu130}-*"], DEFAULT[:2]),
        (["*-cu132-*", "torch213-cxx11-cpu-*"], (DEFAULT[0], DEFAULT[2], DEFAULT[5])),
        (["*-cpu-*"], (DEFAULT[0], DEFAULT[3])),
        (["torch211-*"], OTHERS),
        (["torch21{1,3}-*-cu130-*"], (DEFAULT[1], OTHERS[1])),
        ([OTHERS[0], DEFAULT[0]], (DEFAULT[0], OTHERS[0])),
    ],
)
def test_select(patterns: list[str], expected: tuple[str, ...]) -> None:
    assert select(patterns, DEFAULT, OTHERS) == expected


def test_select_names_what_matches_nothing() -> None:
    with pytest.raises(DriverError) as caught:
        select(["torch213-cxx11-cu131-x86_64-linux", "*-cpu-*", "x"], DEFAULT)
    first, second = caught.value.diagnostics
    assert first.code is Code.NO_SUCH_VARIANT
    near = f"did you mean `{DEFAULT[1]}` or `{DEFAULT[2]}`?"
    assert first.help == f"{near} the variants are {', '.join(DEFAULT)}"
    assert second.help.startswith("the variants are torch213-cxx11-cpu-x86_64-linux, ")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("torch213-cu130", (DEFAULT[1],)),
        ("cu132", (DEFAULT[2], DEFAULT[5])),
        ("torch211-cpu", (OTHERS[0],)),
        ("torch213-linux", DEFAULT[:3]),
        ("torch21{1,3}-cpu", (DEFAULT[0], OTHERS[0])),
        (DEFAULT[1], (DEFAULT[1],)),
    ],
)
def test_words_in_their_order_mean_each_identifier_that_has_them(pattern: str, expected: tuple[str, ...]) -> None:
    assert select([pattern], DEFAULT, OTHERS) == expected


@pytest.mark.parametrize("pattern", ["cu130-torch213", "torch21-cu130", "torch213-*-cu130", "torch213-", ""])
def test_other_words_and_parts_of_globs_mean_nothing(pattern: str) -> None:
    with pytest.raises(DriverError) as caught:
        select([pattern], DEFAULT, OTHERS)
    assert caught.value.diagnostics[0].code is Code.NO_SUCH_VARIANT


def test_an_identifier_whose_words_another_has_means_itself() -> None:
    known = ["torch-universal", "torch-ext-universal"]
    assert select(["torch-universal"], known) == ("torch-universal",)


def test_a_near_miss_among_many_is_one_short_line() -> None:
    many = [f"torch2{minor}-cxx11-{backend}-x86_64-linux" for minor in range(30) for backend in ("cpu", "cu130")]
    with pytest.raises(DriverError) as caught:
        select(["torch213-cu131", "nonsense"], many)
    near, far = caught.value.diagnostics
    assert (
        near.help == "did you mean `torch213-cxx11-cu130-x86_64-linux`? `driver variants --all` lists all 60 variants"
    )
    assert far.help == "`driver variants --all` lists all 60 variants"


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a", ("a",)),
        ("{a,b}{c,d}", ("ac", "ad", "bc", "bd")),
        ("a{b,c{d,e}}", ("ab", "acd", "ace")),
        ("a{b", ("a{b",)),
        ("{a,a}", ("a",)),
    ],
)
def test_braces(pattern: str, expected: tuple[str, ...]) -> None:
    assert sorted(expand(pattern)) == sorted(expected)


def test_braces_do_not_explode() -> None:
    with pytest.raises(DriverError):
        expand("{a,b}" * 30)
    thousand = [str(number) for number in range(1000)]
    assert expand(f"{{{','.join(thousand)}}}") == tuple(thousand)
    with pytest.raises(DriverError, match="expands to more than 1000 patterns"):
        expand(f"{{{','.join(thousand)},x}}")


STABLE = "torch-stable-abi29-cu130-x86_64-linux"


@pytest.mark.parametrize(
    ("torch", "backends", "expected"),
    [
        (["2.13"], [], (DEFAULT[0], DEFAULT[1], DEFAULT[2])),
        (["2.13"], ["cu130"], (DEFAULT[1],)),
        ([], ["cuda"], (DEFAULT[1], DEFAULT[2], DEFAULT[4], DEFAULT[5])),
        (["2.11"], ["cuda"], (OTHERS[1],)),
        (["2.11", "2.13"], ["cpu"], (DEFAULT[0], OTHERS[0])),
        (["2.13"], ["cpu", "cu132"], (DEFAULT[0], DEFAULT[2])),
    ],
)
def test_plain_words(torch: list[str], backends: list[str], expected: tuple[str, ...]) -> None:
    words = Words(tuple(torch), tuple(backends))
    default, others = narrow(words, [*map(parse, DEFAULT)], [*map(parse, OTHERS)])
    assert tuple(map(spell, (*default, *others))) == expected
    assert words.given


@pytest.mark.parametrize(
    ("identifier", "torch", "backend", "expected"),
    [
        (STABLE, "2.9", "cu130", True),
        (STABLE, "2.13", "cuda", True),
        (STABLE, "2.8", None, False),
        (STABLE, "2.13", "cpu", False),
        ("torch-cuda", "2.13", "cuda", True),
        ("torch-cuda", "2.13", "cu130", True),
        ("torch-cuda", None, "rocm72", False),
        ("torch-universal", "2.13", "cu130", True),
        ("torch-universal", None, "nonsense", False),
    ],
)
def test_what_a_variant_is_for(identifier: str, torch: str | None, backend: str | None, expected: object) -> None:
    assert is_for(parse(identifier), torch, backend) is expected


def test_words_that_mean_nothing_say_what_there_is() -> None:
    with pytest.raises(DriverError) as caught:
        narrow(Words(("2.133",), ("cu31", "cpu")), [*map(parse, DEFAULT)], [*map(parse, OTHERS)])
    first, second = caught.value.diagnostics
    assert first.message == "no variant is for torch `2.133`"
    assert first.help == "did you mean `2.13`? there are variants for torch 2.11, 2.13, 2.15"
    assert second.message == "no variant is for the backend `cu31`"
    assert caught.value.exit_code == 3


def test_words_about_several_projects_may_mean_nothing_in_one() -> None:
    configurations = [parse(DEFAULT[0])]
    narrowed = narrow(Words((), (configurations[0].backend, "cu132"), in_any=True), configurations, [])
    assert narrowed == (configurations, [])
    for backends in (("cu132",), (configurations[0].backend, "cu31x")):
        with pytest.raises(DriverError):
            narrow(Words((), backends, in_any=True), configurations, [])


def test_words_that_mean_nothing_together() -> None:
    with pytest.raises(DriverError) as caught:
        narrow(Words(("2.11", "2.13"), ("cu132",)), [parse(DEFAULT[0]), parse(DEFAULT[5])], [*map(parse, OTHERS)])
    assert [diagnostic.message for diagnostic in caught.value.diagnostics] == [
        "no variant is for torch `2.11` with `cu132`",
        "no variant is for torch `2.13` with `cu132`",
        "no variant is for the backend `cu132` with `2.11` or `2.13`",
    ]


_STABLE = [f"torch-stable-abi29-{backend}-x86_64-linux" for backend in ("cpu", "cu130", "cu132")]


@pytest.mark.parametrize(
    ("pattern", "known", "said"),
    [
        ("torch211-*-cu130-*", _STABLE, f"this project is for torch's stable ABI: do you mean `{_STABLE[1]}`? "),
        ("torch213-cxx11-{cpu,cu132}-x86_64-linux", _STABLE, f"do you mean `{_STABLE[0]}` or `{_STABLE[2]}`? "),
        ("torch28-*-cpu-*", _STABLE, "this project is for torch's stable ABI, from torch 2.9 on; "),
        ("torch213-*-cu130-*", ["torch-cuda", "torch-cpu"], "of Python files only: do you mean `torch-cuda`? "),
        ("torch213-*-cu130-*", ["torch-universal"], "of Python files only: do you mean `torch-universal`? "),
        ("torch213-*-cu124-*", ["torch213-cxx11-cu130-x86_64-linux"], ""),
    ],
)
def test_a_pattern_for_a_release_of_variants_that_are_for_all(pattern: str, known: list[str], said: str) -> None:
    with pytest.raises(DriverError) as caught:
        select([pattern], known)
    [one] = caught.value.diagnostics
    assert said in one.help
    assert one.help.endswith(f"the variants are {', '.join(known)}")
