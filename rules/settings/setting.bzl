"""The rule behind the settings in this package."""

CellSettingInfo = provider(
    doc = "The value of a setting that names a part of a cell.",
    fields = {"value": "string; `none` where the target does not depend on this part of the cell"},
)

def _cell_setting_impl(ctx):
    return [CellSettingInfo(value = ctx.build_setting_value)]

cell_setting = rule(
    implementation = _cell_setting_impl,
    build_setting = config.string(),
    doc = "One part of a cell: a torch version (`2.13`), an ABI (`cxx11`; stable: `2.9`) or a backend (`cpu`, `cu130`).",
)

def _choice_setting_impl(ctx):
    value = ctx.build_setting_value
    if value not in ctx.attr.values:
        fail("%s: `%s` is not one of %s" % (ctx.label, value, ", ".join(ctx.attr.values)))
    return [CellSettingInfo(value = value)]

choice_setting = rule(
    implementation = _choice_setting_impl,
    attrs = {
        "values": attr.string_list(mandatory = True, doc = "What may be chosen."),
    },
    build_setting = config.string(flag = True),
    doc = "A choice for the whole build, made on the command line.",
)
