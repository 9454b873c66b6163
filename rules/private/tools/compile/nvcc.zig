//! Runs nvcc's commands: a whole monolithic compile, or the preprocessors. The commands are those that nvcc itself
//! names, with changes that no flag of nvcc offers: names that depend on the directory, the process or the order of the
//! architectures are replaced by names that depend only on the source and the target.
const std = @import("std");
const common = @import("common");
const comparison = @import("comparison.zig");
const dryrun = @import("dryrun.zig");
const editor = @import("editor.zig");
const inputs = @import("inputs.zig");
const needed = @import("needed.zig");
const phases = @import("phase.zig");
const shared = @import("shared.zig");
const texts = @import("texts.zig");

/// Runs all commands in order.
///
/// The module id, which makes the names of internal symbols unique among the files of a program, is our own: nvcc's
/// contains the absolute path of the source and, for a file without external symbols, the process id.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var work = phases.Work.init(allocator);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        if (!try work.takes(flag, try arguments.value(flag))) return common.fail("nvcc: no such flag: {s}", .{flag});
    }
    const call = try needed.full(allocator, arguments.items[arguments.at..]);
    const id = try phases.moduleId(allocator, work.section, work.name);
    const plan = try dryrun.ask(allocator, call, true);
    for (plan.commands) |command| {
        var words = std.ArrayList([]const u8).init(allocator);
        var i: usize = 0;
        while (i < command.len) : (i += 1) {
            const word = command[i];
            if (common.is(word, "--gen_module_id_file")) continue;
            try words.append(if (std.mem.startsWith(u8, word, phases.ident_flag)) try phases.ident(allocator, work.name) else word);
            if (i + 1 == command.len) break;
            if (common.is(word, "--module_id_file_name")) try common.write(command[i + 1], id);
            if (editor.namesSource(word)) {
                try words.append(work.name);
                i += 1;
            }
        }
        const phase = phases.phaseOf(command);
        const preprocesses = phase == .@"host-preprocess" or phase == .@"device-preprocess";
        const out = words.items[words.items.len - 1];
        const inner = if (preprocesses)
            try inputs.listing(allocator, words.items, out)
        else if (phase == .fatbinary) try work.compressed(words.items) else words.items;
        if (phase == .cicc) {
            const at_root = optimizedLater(inner);
            const called = if (at_root) try fromRoot(allocator, inner, &plan.environment) else inner;
            const ended = try dryrun.tried(if (at_root) "/" else null, allocator, called, &plan.environment);
            try std.io.getStdErr().writeAll(ended.messages);
            if (ended.code != 0) std.process.exit(ended.code);
            for (inner) |word| {
                if (!std.mem.endsWith(u8, word, ".ii")) continue;
                if (try shared.find(allocator, ended.messages, word)) |name| return shared.fail(name);
            }
        } else try dryrun.execute(null, allocator, inner, &plan.environment);
        if (preprocesses) try inputs.check(allocator, out, null);
        if (phase == .cicc) {
            const at_root = optimizedLater(inner);
            for (inner, 1..) |word, next| {
                if (at_root and common.is(word, "--stub_file_name")) try relative(allocator, inner[next]);
                if (common.is(word, "-o") and !std.mem.endsWith(u8, inner[next], ".ltoir"))
                    try phases.leaveDirectory(allocator, inner[next]);
            }
        }
    }
    for (plan.temporary) |path| std.fs.cwd().deleteFile(path) catch {};
}

/// Options of cicc whose value is a file that it reads or writes.
const of_files = [_][]const u8{
    "--gen_c_file_name", "--gen_device_file_name", "--module_id_file_name", "--stub_file_name", "-o", "-olto",
};

/// Whether cicc's output is optimised at the device link. Such an output contains the working directory's name.
fn optimizedLater(command: []const []const u8) bool {
    for (command) |word| if (common.isAny(word, &.{ "-lto", "-olto" })) return true;
    return false;
}

/// A command to run in the root directory, whose name is the same everywhere.
fn fromRoot(allocator: std.mem.Allocator, command: []const []const u8, environment: *const std.process.EnvMap) ![][]const u8 {
    const program = try dryrun.program(allocator, command[0], environment.get("PATH") orelse "");
    const words = try allocator.dupe([]const u8, command);
    words[0] = try dryrun.absolute(allocator, program);
    for (words[1..], command[0 .. command.len - 1]) |*word, before| {
        if (common.isAny(before, &of_files) or std.mem.endsWith(u8, word.*, ".ii")) word.* = try dryrun.absolute(allocator, word.*);
    }
    return words;
}

/// Changes the file names in a file to those relative to the working directory.
fn relative(allocator: std.mem.Allocator, path: []const u8) !void {
    const text = try common.read(allocator, path);
    try common.write(path, try std.mem.replaceOwned(u8, allocator, text, try dryrun.absolute(allocator, path), path));
}

/// Preprocesses a source for the host, for architectures, or for both. The host comes first, so that an error in all of
/// them is reported once; then all architectures in parallel.
///
/// Each call of nvcc has a single architecture, so no text depends on the list of architectures. `--read` is the file
/// for the headers of torch that were read.
pub fn preprocess(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var work = phases.Work.init(allocator);
    var wanted = std.ArrayList(texts.Text).init(allocator);
    var scanned = std.ArrayList([]const u8).init(allocator);
    var shares = false;
    var report: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        if (common.is(flag, "--share")) {
            shares = true;
            continue;
        }
        const value = try arguments.value(flag);
        if (try work.takes(flag, value) or try work.packs.takes(flag, value)) continue;
        if (common.is(flag, "--scan")) {
            try scanned.append(value);
        } else if (common.is(flag, "--read")) {
            report = value;
        } else if (common.is(flag, "--host")) {
            try wanted.append(.{ .arch = null, .out = value, .gencode = try arguments.value(flag) });
        } else if (common.is(flag, "--device")) {
            try wanted.append(.{ .arch = value, .out = try arguments.value(flag), .gencode = try arguments.value(flag) });
        } else return common.fail("preprocess: no such flag: {s}", .{flag});
    }
    const call = arguments.items[arguments.at..];
    try work.packs.layOut();
    const full = try needed.full(allocator, call);
    const why = switch (try needed.choose(allocator, call, scanned.items, .gpu, .words)) {
        .all => |why| why,
        .few => |few| if (try attempted(&work, few.command, wanted.items))
            try difference(&work, full, wanted.items, few.spelled)
        else
            needed.failed,
    };
    if (why != null and (work.packs.whole or !try preprocessed(&work, full, wanted.items, false))) {
        _ = try work.packs.rest();
        _ = try preprocessed(&work, full, wanted.items, true);
    }
    if (report.len > 0) try needed.tell(allocator, report, why);
    if (shares) try texts.share(allocator, wanted.items);
}

/// Makes all texts, if necessary with all headers of the packs; returns whether that worked.
fn attempted(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text) !bool {
    return try preprocessed(work, call, wanted, false) or (try work.packs.rest() and try preprocessed(work, call, wanted, false));
}

/// The reason why the texts with fewer headers may have another meaning than those with all headers; null if they mean
/// the same.
///
/// Only some architectures are compared: the first and the last, those with features of their own, and each for which
/// the project's own files have another text. A definition of a removed header for other architectures only would be
/// missed; in torch 2.13 no removed header tests for a single architecture (`__CUDA_ARCH__ ==`).
fn difference(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text, spelled: comparison.Spelled) !?[]const u8 {
    const allocator = work.allocator;
    var chosen = std.ArrayList(texts.Text).init(allocator);
    var few = std.ArrayList([]const u8).init(allocator);
    var seen = std.AutoHashMap(u64, void).init(allocator);
    for (wanted, 0..) |text, index| {
        const content = try common.read(allocator, text.out);
        // The last architecture is compared in any case.
        if (text.arch) |arch| if (index + 1 < wanted.len) {
            const is_new = !(try seen.getOrPut(try comparison.ownHash(allocator, content))).found_existing;
            const has_features = !std.ascii.isDigit(arch[arch.len - 1]);
            if (!is_new and !has_features) continue;
        };
        try few.append(content);
        const out = try std.mem.concat(allocator, u8, &.{ text.out, ".full" });
        try chosen.append(.{ .arch = text.arch, .out = out, .gencode = text.gencode });
    }
    defer for (chosen.items) |text| std.fs.cwd().deleteFile(text.out) catch {};
    if (!try attempted(work, call, chosen.items)) return "all headers cannot be preprocessed";
    for (chosen.items, few.items) |text, content| {
        const reader: comparison.Reader = if (text.arch == null) .host else .gpu;
        if (try comparison.difference(allocator, content, try common.read(allocator, text.out), spelled, reader)) |why| return why;
    }
    return null;
}

/// Makes all texts from inputs only; returns whether that worked. With `must`, an error ends this program; otherwise
/// its messages are not shown.
pub fn preprocessed(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text, must: bool) !bool {
    const allocator = work.allocator;
    var children = std.ArrayList(std.process.Child).init(allocator);
    for (wanted) |text| {
        const with_architecture = try std.mem.concat(allocator, []const u8, &.{ call, &.{text.gencode} });
        const plan = try dryrun.ask(allocator, with_architecture, text.arch == null);
        work.out = text.out;
        const phase: phases.Phase = if (text.arch == null) .@"host-preprocess" else .@"device-preprocess";
        const command = try inputs.listing(allocator, try work.preprocess(try phases.only(plan, phase)), text.out);
        if (text.arch != null) {
            try children.append(try dryrun.start(null, allocator, command, &plan.environment, if (must) .Inherit else .Pipe));
        } else if (must) {
            try dryrun.execute(null, allocator, command, &plan.environment);
        } else if (!try dryrun.attempt(null, allocator, command, &plan.environment)) return false;
    }
    var failed: u8 = 0;
    for (children.items) |*child| {
        const messages = if (must) "" else try dryrun.listen(allocator, child);
        const code = try dryrun.finish(child);
        if (failed == 0) failed = code;
        if (code == 0) try std.io.getStdErr().writeAll(messages);
    }
    if (failed != 0 and must) std.process.exit(failed);
    if (failed != 0) return false;
    for (wanted) |text| try inputs.check(allocator, text.out, &work.packs);
    return true;
}

test "code for the device link's optimiser is made in the root" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const allocator = arena.allocator();
    const command = [_][]const u8{ "/cuda/cicc", "--orig_src_file_name", "a.cu", "--stub_file_name", "a.stub.c", "a.ii", "-lto", "-o", "a.ltoir" };
    try std.testing.expect(optimizedLater(&command));
    try std.testing.expect(!optimizedLater(command[0..6]));
    const environment = std.process.EnvMap.init(allocator);
    const words = try fromRoot(allocator, &command, &environment);
    for (words, command, 0..) |word, before, index| {
        const is_path = index == 4 or index == 5 or index == 8;
        try std.testing.expectEqual(is_path, !common.is(word, before));
        if (is_path) try std.testing.expect(word[0] == '/' and std.mem.endsWith(u8, word, before));
    }
}
