"""What files like ~/.bazelrc add to a build is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from py_driver.bazel.rc import Settings

# As Bazel 7.7.1 writes it.
_SAID = """\
INFO: Reading 'startup' options from {home}: --host_jvm_args=-Xmx1g
INFO: Options provided by the client:
  Inherited 'common' options: --isatty=0 --terminal_columns=80
INFO: Reading rc options for 'build' from /src/.bazelrc:
  Inherited 'common' options: --lockfile_mode=off
INFO: Reading rc options for 'build' from {home}:
  Inherited 'common' options: --color=no
INFO: Reading rc options for 'build' from /src/.bazelrc:
  'build' options: --experimental_output_paths=strip --strategy=ZigBuild=processwrapper-sandbox
INFO: Reading rc options for 'build' from {home}:
  'build' options: {options}
INFO: Found applicable config definition build:mine in file {home}: {config}
"""


def _notes(options: str, config: str = "--jobs=1", home: str = "/home/me/.bazelrc") -> tuple[str, ...]:
    settings = Settings()
    lines = _SAID.format(home=home, options=options, config=config).splitlines()
    assert {settings.feed(line) for line in lines} == {True}
    return settings.notes([Path("/src/.bazelrc"), Path("/opt/bazel")])


def test_options_that_matter_are_named_with_their_file() -> None:
    [note] = _notes("--spawn_strategy=local --jobs=3 --action_env=A=b c", "--sandbox_add_mount_pair=/home")
    assert note == (
        "note: /home/me/.bazelrc changes this build: --host_jvm_args=-Xmx1g --spawn_strategy=local --action_env=A=b c "
        "--sandbox_add_mount_pair=/home"
    )


def test_what_is_ours_is_not_named() -> None:
    assert _notes("--spawn_strategy=local", home="/opt/bazel/bazelrc") == ()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--jobs=4", False),
        ("--nocolor", False),
        ("--config=mine", False),
        ("--show_timestamps", False),
        ("--color=no -c dbg", True),
        ("--jobs=1 -k", True),
        ("--ui_event_filters=-info", True),
        ("--repository_cache=/r", False),
        ("--sandbox_debug", True),
        ("--noexperimental_use_hermetic_linux_sandbox", True),
        ("--jobs_of_another_kind=4", True),
        ("--remote_cache=grpc://x", True),
        ("--strategy=KernelLink=local", True),
        ("--@rules_torch_kernels//rules/settings:headers=full", True),
    ],
)
def test_only_what_changes_a_build_is_named(option: str, *, said: bool) -> None:
    [note] = _notes(option)
    assert (option.rpartition(" ")[2] in note) is said


@pytest.mark.parametrize("line", ["INFO: Analyzed 3 targets", "ERROR: no", "  note: here", "[1 / 2] Compiling", ""])
def test_other_lines_are_left(line: str) -> None:
    assert not Settings().feed(line)
