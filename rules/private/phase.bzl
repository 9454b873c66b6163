"""The action of one phase of a compile: the files that it makes, and how it is run."""

load("//rules/facts:phases.bzl", "PHASES")
load(":actions.bzl", "ACTION", "package_path")
load(":resources.bzl", "resources")

def phase_file(ctx, source, mnemonic, arch = None):
    """Declares the file by which an action of a source is known; see phases.bzl.

    Args:
        ctx: rule context.
        source: File to compile.
        mnemonic: string, of the action.
        arch: string, the architecture that it is for as a directory names it, or None if it is for the source.

    Returns:
        File.
    """
    made = PHASES[mnemonic]["makes"]
    return _beside_phases(ctx, source, "%s/%s" % (arch, made["arch"]) if arch else made["source"])

def _beside_phases(ctx, source, name):
    """Declares a file in the directory of a source's phases."""
    return ctx.actions.declare_file("%s.objects/%s.phases/%s" % (ctx.label.name, package_path(source), name))

def headers_file(ctx, source, name = "headers.txt"):
    """Declares a file that says with which of torch's headers a source was compiled: the driver's report has it.

    Args:
        ctx: rule context.
        source: File to compile.
        name: string; `tried.txt` for what an earlier action has tried.

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
        toolchain: Label of the type of the toolchain that it runs a program of.
        mnemonic: string, of the action; see phases.bzl.
        what: string, what it does, for people.
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
