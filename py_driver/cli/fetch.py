"""`driver fetch`: downloads archives into the store, or into a mirror for builds without network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from py_driver.cli import add_command
from py_driver.cli.arguments import add_matrix, globs, listed, releases_of
from py_driver.errors import Code, ExitCode, error
from py_driver.output import counted

if TYPE_CHECKING:
    import argparse

    from py_driver.cli import Subparsers
    from py_driver.output import Output


def add(subparsers: Subparsers) -> None:
    """Add the command's parser."""
    parser = add_command(subparsers, "fetch", "'torch213-*-cu130-*'", "--mirror /srv/archives --gcc")
    parser.add_argument(
        "variants",
        metavar="GLOB",
        nargs="*",
        type=globs,
        help="variants as in `driver build --variant`; no project is needed (default: all default variants)",
    )
    parser.add_argument(
        "--mirror", metavar="DIR", type=Path, help="also copy the archives into DIR, for RULES_TORCH_KERNELS_MIRROR"
    )
    parser.add_argument(
        "--depends",
        metavar="NAME",
        action="extend",
        type=listed,
        default=[],
        help="also fetch this library of a section's `depends`, e.g. cutlass_3_6, or python for sources that include "
        "Python's headers; repeatable",
    )
    parser.add_argument(
        "--gcc", action="store_true", help="also fetch gcc, for sections with OpenMP and for `driver build --cxx gcc`"
    )
    add_matrix(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace, output: Output) -> int:
    """Fetch; returns the exit code.

    Raises:
        DriverError: NO_SUCH_VARIANT; UNSUPPORTED for a `--depends` that is not locked; what `fetch_all` and
            `fill_mirror` raise.
    """
    from py_driver.fetch.prefetch import fetch_all, fill_mirror
    from py_driver.matrix.configurations import USUAL_CPU, parse, spell
    from py_driver.matrix.lock_update import check_user_lock
    from py_driver.matrix.matrix import TVM_FFI_PART
    from py_driver.matrix.select import select
    from py_driver.spelling import did_you_mean

    releases = releases_of(args)
    check_user_lock(releases)
    for name in args.depends:
        if name not in ("torch", *(known := releases.lock.depends)):
            advice = did_you_mean(name, known) or f"the lock has {', '.join(known)}"
            raise error(Code.UNSUPPORTED, f"`--depends {name}`: the lock has no archive of it", help=advice)
    every = (
        *releases.matrix.configurations(),
        *((configuration, False) for configuration, _ in releases.matrix.tvm_ffi_configurations()),
    )
    default = {configuration for configuration, is_default in every if is_default}
    usual, cpus = {configuration._replace(cpu=None) for configuration in default}, releases.matrix.cpus
    groups: tuple[list[str], ...] = ([], [], [], [])
    for configuration, _ in every:
        far, rare = configuration.cpu not in cpus, configuration._replace(cpu=None) not in usual
        groups[2 * far + rare].append(spell(configuration))
    names = select([glob for words in args.variants for glob in words], *groups)
    lock = releases.lock
    chosen = [parse(name) for name in names]
    implied = [TVM_FFI_PART] if any(configuration.tvm_ffi for configuration in chosen) else []
    wanted = [*lock.entries_for(chosen), *lock.library_entries([*args.depends, *implied])]
    wanted += lock.gcc_entries({configuration.cpu or USUAL_CPU for configuration in chosen}) if args.gcc else []
    fetched = fetch_all(list({entry.key: entry for entry in wanted}.values()), output, check=True)
    if args.mirror is not None:
        fill_mirror(fetched, args.mirror)
    sizes = [archive.path.stat().st_size for archive in fetched]
    network = sum(archive.bytes_fetched for archive in fetched)
    if args.json:
        output.json(
            {
                "variants": list(names),
                "mirror": None if args.mirror is None else str(args.mirror),
                "bytes": sum(sizes),
                "bytes-fetched": network,
                "archives": [
                    {
                        "name": archive.entry.name,
                        "version": archive.entry.version,
                        "file": archive.entry.mirror_name,
                        "bytes": size,
                        "from": archive.source,
                    }
                    for archive, size in zip(fetched, sizes, strict=True)
                ],
            }
        )
        return ExitCode.OK
    location = "in the store" if args.mirror is None else f"in {args.mirror}"
    output.data(
        f"{counted(len(names), 'variant')}: {counted(len(fetched), 'archive')}, {sum(sizes) / 1e6:.1f} MB {location}; "
        f"{network / 1e6:.1f} MB came from the network"
    )
    return ExitCode.OK
