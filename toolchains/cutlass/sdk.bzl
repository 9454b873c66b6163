"""The rule that describes the headers of a CUTLASS release to the rules."""

CutlassSdkInfo = provider(
    doc = "What including one CUTLASS release needs.",
    fields = {
        "headers": "depset of File; all headers",
        "include_markers": "list of File; each stands in an include directory, in the order of the search",
        "name": "string; what a section's `depends` calls it, e.g. `cutlass_3_6`",
    },
)

def _cutlass_sdk_impl(ctx):
    headers = depset(ctx.files.headers + ctx.files.include_markers)
    return [CutlassSdkInfo(
        headers = headers,
        include_markers = ctx.files.include_markers,
        name = ctx.attr.depends,
    )]

cutlass_sdk = rule(
    implementation = _cutlass_sdk_impl,
    attrs = {
        "depends": attr.string(mandatory = True, doc = "What a section's `depends` calls it, e.g. `cutlass_3_6`."),
        "headers": attr.label_list(allow_files = True, mandatory = True, doc = "All headers."),
        "include_markers": attr.label_list(allow_files = True, mandatory = True, doc = "A file in each directory."),
    },
    provides = [CutlassSdkInfo],
    doc = "The headers of a CUTLASS release.",
)
