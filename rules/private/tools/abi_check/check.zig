//! The ABI check of a shared library: every Linux system since glibc 2.28, every Python since 3.9 and the variant's
//! torch can load it, beside other kernels. With --python-symbols the library is for a single Python, and with
//! --torch-python also for that Python's torch. Prints all findings to stdout; with --report to stderr, because Bazel
//! shows the stderr of a failed action.
//!
//!   abi_check LIBRARY --versions FILE --python-abi FILE --libraries FILE --loading FILE --system FILE --weak FILE
//!             [--torch-shims FILE] [--json] [--report OUT] [--init NAME | --id ID.txt | --module NAME | --binding NAME] [--archs LIST] [--metadata-archs LIST]
//!             [--linker ZIG] [--framework tvm-ffi] [--cxx-abi ABI [--object PATH]...] [--torch-stable-abi M.N]
//!             [--python-symbols FILE [--torch-python FILE]]
//!             [--torch-exports FILE [--torch M.N [--torch-wheel SHA256]] [--gpu-symbols FILE]... [--backend NAME]]
//!
//! Exits with 0 without findings, with 1 if there are findings, and with 2 if the file cannot be checked.
const std = @import("std");
const common = @import("common");
const elf = @import("elf.zig");
const device = @import("device.zig");
const rules = @import("rules.zig");
const policies = @import("policy.zig");
const tables = @import("exports.zig");
const libraries = @import("libraries.zig");
const loading = @import("loading.zig");
const linkers = @import("linker.zig");
const undefined_symbols = @import("undefined.zig");
const systems = @import("system.zig");

const shown_of_a_rule = 20;
const found_something = 1;
const cannot_judge = 2;

const Options = struct {
    path: []const u8,
    linker: ?[]const u8 = null,
    report: ?[]const u8 = null,
    json: bool = false,
    wanted: rules.Wanted = .{},
    policy: policies.Policy,
    exports: ?tables.Exports = null,
    torch_python: ?tables.Exports = null,
    python: std.ArrayList(libraries.Library),
    system: systems.System = .{},
    lists: loading.Lists = .{},
    gpu_libraries: std.ArrayList(libraries.Library),
};

pub fn main() u8 {
    return common.run(run, cannot_judge);
}

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    if (try check(allocator, arguments)) std.process.exit(found_something);
}

fn check(allocator: std.mem.Allocator, arguments: *common.Arguments) !bool {
    const options = try parse(allocator, arguments);
    const data = try common.read(allocator, options.path);
    if (!elf.Library.isElf(data)) return common.fail("{s}: not an ELF file", .{options.path});
    var library = elf.Library{ .allocator = allocator, .bytes = .{ .data = data } };
    var work = rules.Check{
        .allocator = allocator,
        .library = &library,
        .policy = &options.policy,
        .wanted = options.wanted,
        .exports = options.exports,
        .torch_python = options.torch_python,
        .python = options.python.items,
        .system = options.system,
        .lists = options.lists,
        .gpu_libraries = options.gpu_libraries.items,
        .notes = std.ArrayList([]const u8).init(allocator),
        .findings = std.ArrayList(rules.Finding).init(allocator),
    };
    read(&library, &work) catch |err| switch (err) {
        error.Malformed => return common.fail("{s}: truncated or malformed: {s}", .{ options.path, library.reading }),
        else => return err,
    };
    if (options.linker) |program| try explain(program, options.report orelse options.path, &work);
    const as_json = try asJson(allocator, options.path, &work);
    if (options.report) |path| try common.write(path, as_json);
    const found = work.findings.items.len > 0;
    const text = if (options.json) as_json else try asText(allocator, options.path, &work);
    if (options.report == null) {
        try std.io.getStdOut().writeAll(text);
    } else if (found) try std.io.getStdErr().writeAll(text);
    return found;
}

fn read(library: *elf.Library, work: *rules.Check) elf.Error!void {
    try library.read();
    try work.run();
}

fn parse(allocator: std.mem.Allocator, arguments: *common.Arguments) !Options {
    const path = arguments.next() orelse return common.fail("check: the library is missing", .{});
    var options = Options{
        .path = path,
        .policy = policies.Policy.init(allocator),
        .gpu_libraries = std.ArrayList(libraries.Library).init(allocator),
        .python = std.ArrayList(libraries.Library).init(allocator),
    };
    var objects = std.ArrayList(linkers.Object).init(allocator);
    var python: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--json")) {
            options.json = true;
            continue;
        }
        const value = try arguments.value(flag);
        if (common.is(flag, "--init")) {
            options.wanted.module = value;
        } else if (common.is(flag, "--id")) {
            options.wanted.module = try common.read(allocator, value);
        } else if (common.is(flag, "--module") or common.is(flag, "--binding")) {
            options.wanted.module = value;
            options.wanted.entry = if (common.is(flag, "--module")) .module else .binding;
        } else if (common.is(flag, "--cpu")) {
            if (!common.is(value, "x86_64") and !common.is(value, "aarch64"))
                return common.fail("check: --cpu is x86_64 or aarch64, not {s}", .{value});
            options.wanted.cpu = value;
        } else if (common.is(flag, "--cxx-abi")) {
            if (!common.is(value, "cxx11") and !common.is(value, "cxx98"))
                return common.fail("check: --cxx-abi is cxx11 or cxx98, not {s}", .{value});
            options.wanted.cxx_abi = value;
        } else if (common.is(flag, "--torch-stable-abi")) {
            if (policies.newer(value, "0") == null)
                return common.fail("check: --torch-stable-abi is a version, not {s}", .{value});
            options.wanted.stable_abi = value;
        } else if (common.is(flag, "--torch")) {
            options.wanted.torch = value;
        } else if (common.is(flag, "--torch-wheel")) {
            options.wanted.torch_wheel = value;
        } else if (common.is(flag, "--torch-exports")) {
            options.exports = try tables.Exports.read(allocator, value);
        } else if (common.is(flag, "--torch-python")) {
            options.torch_python = try tables.Exports.read(allocator, value);
        } else if (common.is(flag, "--python-symbols")) {
            try libraries.read(allocator, value, &options.python);
        } else if (common.is(flag, "--system")) {
            options.system = try systems.System.read(allocator, value);
        } else if (common.is(flag, "--loading")) {
            options.lists = try loading.Lists.read(allocator, value);
        } else if (common.is(flag, "--weak")) {
            options.policy.weak = try policies.readLines(allocator, value);
        } else if (common.is(flag, "--gpu-symbols")) {
            try libraries.read(allocator, value, &options.gpu_libraries);
        } else if (common.is(flag, "--backend")) {
            options.wanted.gpu = !common.is(value, "cpu");
            options.wanted.rocm = std.mem.startsWith(u8, value, "rocm");
        } else if (common.is(flag, "--framework")) {
            if (!common.is(value, "tvm-ffi")) return common.fail("check: --framework is tvm-ffi, not {s}", .{value});
            options.wanted.tvm_ffi = true;
        } else if (common.is(flag, "--archs")) {
            options.wanted.code = try codes(allocator, flag, value);
        } else if (common.is(flag, "--metadata-archs")) {
            options.wanted.stated = try codes(allocator, flag, value);
        } else if (common.is(flag, "--versions")) {
            try policies.readTable(allocator, value, &options.policy.families);
        } else if (common.is(flag, "--python-abi")) {
            python = value;
        } else if (common.is(flag, "--torch-shims")) {
            try policies.readTable(allocator, value, &options.policy.shims);
        } else if (common.is(flag, "--libraries")) {
            options.policy.libraries = try policies.readLibraries(allocator, value);
        } else if (common.is(flag, "--object")) {
            try objects.append(try readObject(allocator, value));
        } else if (common.is(flag, "--linker")) {
            options.linker = value;
        } else if (common.is(flag, "--report")) {
            options.report = value;
        } else return common.fail("check: unknown flag: {s}", .{flag});
    }
    options.wanted.objects = objects.items;
    if (python.len > 0) {
        const table = &options.policy.python;
        try policies.readTable(allocator, python, table);
        const oldest = table.fetchRemove("oldest") orelse return common.fail("{s}: no line `oldest`", .{python});
        options.policy.oldest_python = oldest.value;
    }
    const policy = &options.policy;
    const complete = policy.families.count() > 0 and policy.python.count() > 0 and policy.libraries.len > 0 and
        policy.weak.len > 0 and options.system.libraries.len > 0 and options.lists.entries.len > 0;
    if (!complete) return common.fail(
        "check: the policy needs --versions, --python-abi, --libraries, --loading, --system and --weak",
        .{},
    );
    return options;
}

/// Adds the linker's explanation to findings about undefined symbols.
fn explain(program: []const u8, beside: []const u8, work: *rules.Check) !void {
    const linker = linkers.Linker{
        .allocator = work.allocator,
        .program = program,
        .objects = work.wanted.objects,
        .machine = work.library.machine,
        .scratch = try std.mem.concat(work.allocator, u8, &.{ beside, ".o" }),
    };
    var count: usize = 0;
    for (work.findings.items) |*finding| {
        if (!common.is(finding.rule, undefined_symbols.name)) continue;
        count += 1;
        if (count > shown_of_a_rule) break;
        const explanation = try linker.explain(finding.subject) orelse continue;
        finding.name = try rules.clean(work.allocator, explanation.name);
        const lines = try work.allocator.alloc([]const u8, explanation.lines.len);
        for (lines, explanation.lines) |*line, text| line.* = try rules.clean(work.allocator, text);
        finding.context = lines;
    }
}

fn readObject(allocator: std.mem.Allocator, path: []const u8) !linkers.Object {
    const data = try common.read(allocator, path);
    if (!elf.Library.isElf(data)) return common.fail("{s}: not an ELF file", .{path});
    var object = elf.Library{ .allocator = allocator, .bytes = .{ .data = data } };
    const symbols = object.linkerSymbols() catch |err| switch (err) {
        error.Malformed => return common.fail("{s}: truncated or malformed: {s}", .{ path, object.reading }),
        else => return err,
    };
    return .{ .path = path, .symbols = symbols };
}

fn codes(allocator: std.mem.Allocator, flag: []const u8, list: []const u8) ![]const device.Code {
    if (common.is(list, "none")) return &.{};
    return try device.declared(allocator, list) orelse
        common.fail("check: {s} is `none` or a list like 8.0,9.0a,12.0+PTX or gfx942, not {s}", .{ flag, list });
}

fn asJson(allocator: std.mem.Allocator, path: []const u8, work: *const rules.Check) ![]const u8 {
    const text = try std.json.stringifyAlloc(allocator, .{
        .file = try rules.clean(allocator, path),
        .compliant = work.findings.items.len == 0,
        .findings = work.findings.items,
        .notes = work.notes.items,
        .@"gpu-code" = try spellAll(allocator, work.code),
    }, .{ .whitespace = .indent_2 });
    return std.mem.concat(allocator, u8, &.{ text, "\n" });
}

fn asText(allocator: std.mem.Allocator, path: []const u8, work: *const rules.Check) ![]const u8 {
    const found = work.findings.items;
    var text = std.ArrayList(u8).init(allocator);
    const writer = text.writer();
    const name = try rules.clean(allocator, path);
    if (found.len == 0) {
        const spelled = try spellAll(allocator, work.code);
        try writer.print("{s}: passes the ABI check; device code: {s}\n", .{
            name,
            if (spelled.len == 0) "none" else try std.mem.join(allocator, " ", spelled),
        });
        for (work.notes.items) |note| try writer.print("  note: {s}\n", .{note});
        return text.items;
    }
    try writer.print("error[E402]: {s} fails the ABI check: {d} {s}\n", .{
        name, found.len, if (found.len == 1) "finding" else "findings",
    });
    var same: usize = 0;
    for (found, 0..) |finding, i| {
        const last = i + 1 == found.len or !common.is(found[i + 1].rule, finding.rule) or
            !common.is(found[i + 1].help, finding.help);
        same += 1;
        if (same <= shown_of_a_rule) {
            try writer.print("  {s}: ", .{finding.rule});
            const subject = if (finding.name.len > 0) finding.name else finding.subject;
            if (subject.len > 0) try writer.print("{s}: ", .{subject});
            try writer.print("{s}\n", .{finding.message});
            for (finding.context) |line| try writer.print("    {s}\n", .{line});
        }
        if (!last) continue;
        if (same > shown_of_a_rule) try writer.print("  {s}: and {d} more\n", .{ finding.rule, same - shown_of_a_rule });
        try writer.print("    help: {s}\n", .{finding.help});
        same = 0;
    }
    return text.items;
}

fn spellAll(allocator: std.mem.Allocator, list: []const device.Code) ![]const []const u8 {
    var texts = std.ArrayList([]const u8).init(allocator);
    for (list) |code| try texts.append(try code.spell(allocator));
    return texts.items;
}
