"""The rule that describes a CUDA SDK to the rules."""

CudaSdkInfo = provider(
    doc = "A CUDA compiler with its headers.",
    fields = {
        "files": "depset of File; what nvcc needs besides itself: its other programs and the headers",
        "headers": "depset of File; the headers alone, for host compiles",
        "include_marker": "File; stands in the include directory",
        "nvcc": "File; the compiler driver",
        "runtime": "File; stub of the CUDA runtime library",
        "version": "string; e.g. `13.0`",
    },
)

def _cuda_sdk_impl(ctx):
    headers = depset(ctx.files.headers + [ctx.file.include_marker])
    return [platform_common.ToolchainInfo(sdk = CudaSdkInfo(
        files = depset(ctx.files.compiler_files, transitive = [headers]),
        headers = headers,
        include_marker = ctx.file.include_marker,
        nvcc = ctx.file.nvcc,
        runtime = ctx.file.runtime,
        version = ctx.attr.version,
    ))]

cuda_sdk = rule(
    implementation = _cuda_sdk_impl,
    attrs = {
        "compiler_files": attr.label_list(allow_files = True, mandatory = True, doc = "cicc, ptxas, libdevice, ..."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "The toolkit's headers."),
        "include_marker": attr.label(allow_single_file = True, mandatory = True, doc = "A file beside the headers."),
        "nvcc": attr.label(allow_single_file = True, mandatory = True, doc = "The compiler driver."),
        "runtime": attr.label(allow_single_file = True, mandatory = True, doc = "Stub of libcudart."),
        "version": attr.string(mandatory = True, doc = "E.g. `13.0`."),
    },
    doc = "A hermetic CUDA SDK.",
)
