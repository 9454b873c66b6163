"""The lock for a machine: archives with programs for the default CPU are replaced by archives for the machine's CPU."""

load("//toolchains/cc:flags.bzl", "CPU")

def _named(entry):
    return (entry["name"], entry["version"])

def _release_for(entry, archives):
    """A release of CUDA with the programs for a machine; None if the lock has no such programs."""
    programs = {_named(archive): archive for archive in archives}
    known = [_named(archive) for archive in entry["archives"]]
    if not programs or [one for one in programs if one not in known]:
        return None
    return entry | {"archives": [programs.get(_named(archive), archive) for archive in entry["archives"]]}

def lock_for(machine, lock):
    """The lock for a machine. `for_machine` of py_driver/matrix/lock.py does the same.

    Args:
        machine: string, its CPU.
        lock: dict, the content of toolchains/lock, with the user's own releases.

    Returns:
        dict; without the releases of CUDA whose programs are not locked for the machine.
    """
    if machine == CPU:
        return lock
    own = lock["machines"][machine]
    cuda = {version: _release_for(entry, own["cuda"].get(version, [])) for version, entry in lock["cuda"].items()}
    return lock | {
        "cc": lock["cc"] | {"zig": own["zig"]},
        "cuda": {version: entry for version, entry in cuda.items() if entry},
        "gcc": {
            "cross": {cpu: packages for cpu, packages in own["gcc"].items() if cpu != CPU},
            "packages": own["gcc"][CPU],
        },
        "hipify": lock["hipify"] | {"python": own["hipify"]},
    }
