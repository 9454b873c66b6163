"""The action of one phase of a compile: its outputs, and how it runs."""

load("//rules/facts:phases.bzl", "PHASES")
load(":actions.bzl", "ACTION", "package_path")
load(":resources.bzl", "resources")

def phase_file(ctx, source, mnemonic, arch = None):
    """Declares the file by which the driver recognises an action of a source; see `makes` in phases.bzl.

    Args:
        ctx: rule context.
        source: File to compile.
        mnemonic: string, of the action.
        arch: string, the architecture as a name of a directory, or None if the action is for the whole source.

    Returns:
        File.
    """
    made = PHASES[mnemonic]["makes"]
    return _beside_phases(ctx, source, "%s/%s" % (arch, made["arch"]) if arch else made["source"])

def _beside_phases(ctx, source, name):
    """Declares a file in the directory of a source's phases."""
    return ctx.actions.declare_file("%s.objects/%s.phases/%s" % (ctx.label.name, package_path(source), name))

def headers_file(ctx, source, name = "headers.txt"):
    """Declares a file that names the set of torch's headers that a source was compiled with, for the driver's report.

    Args:
        ctx: rule context.
        source: File to compile.
        name: string; `tried.txt` for the attempt of an earlier action.

    Returns:
        File.
    """
    return _beside_phases(ctx, source, name)

def object_file(ctx, source):
    """Declares the object of a source.

    Args:
        ctx: rule context.
        source: File to compile.

    Returns:
        File.
    """
    return ctx.actions.declare_file("%s.objects/%s.o" % (ctx.label.name, package_path(source)))

def run_phase(ctx, job, source, toolchain, mnemonic, what, arguments, inputs, outputs, program):
    """Runs a phase.

    Args:
        ctx: rule context.
        job: struct of what all sources of a target have in common; see kernel_objects.bzl.
        source: File to compile.
        toolchain: Label, the type of the toolchain whose program it runs.
        mnemonic: string, of the action; see phases.bzl.
        what: string, what it does, for the progress message.
        arguments: list of Args.
        inputs: list or depset of File.
        outputs: list of File.
        program: dict, `executable` and perhaps `tools` of the action.
    """
    ctx.actions.run(
        arguments = arguments,
        inputs = inputs,
        outputs = outputs,
        mnemonic = mnemonic,
        progress_message = "%s %s for %%{label}" % (what, package_path(source)),
        resource_set = resources(mnemonic, job),
        toolchain = toolchain,
        **(program | ACTION)
    )
