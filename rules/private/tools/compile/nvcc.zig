//! nvcc compiles: a whole one in one step, or all that preprocesses of one. Either way the commands are those that nvcc
//! itself names, with changes that no flag of nvcc offers: what depends on the directory, the process or the order of the
//! architectures is replaced by what depends on the names of source and target alone.
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

/// Runs all commands, one after another.
///
/// The module id, which makes the names of internal symbols unique among the files of a program, is ours: nvcc's has
/// the absolute path of the source in it and, of a file without external symbols, the process id.
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
        const whole = if (preprocesses)
            try inputs.listing(allocator, words.items, out)
        else if (phase == .fatbinary) try work.compressed(words.items) else words.items;
        if (phase == .cicc) {
            const at_root = optimizedLater(whole);
            const called = if (at_root) try fromRoot(allocator, whole, &plan.environment) else whole;
            const ended = try dryrun.tried(if (at_root) "/" else null, allocator, called, &plan.environment);
            try std.io.getStdErr().writeAll(ended.said);
            if (ended.code != 0) std.process.exit(ended.code);
            for (whole) |word| {
                if (!std.mem.endsWith(u8, word, ".ii")) continue;
                if (try shared.find(allocator, ended.said, word)) |name| return shared.fail(name);
            }
        } else try dryrun.execute(null, allocator, whole, &plan.environment);
        if (preprocesses) try inputs.check(allocator, out, null);
        if (phase == .cicc) {
            const at_root = optimizedLater(whole);
            for (whole, 1..) |word, next| {
                if (at_root and common.is(word, "--stub_file_name")) try relative(allocator, whole[next]);
                if (common.is(word, "-o") and !std.mem.endsWith(u8, whole[next], ".ltoir"))
                    try phases.leaveDirectory(allocator, whole[next]);
            }
        }
    }
    for (plan.temporary) |path| std.fs.cwd().deleteFile(path) catch {};
}

/// Options of cicc whose value is a file that it reads or writes.
const of_files = [_][]const u8{
    "--gen_c_file_name", "--gen_device_file_name", "--module_id_file_name", "--stub_file_name", "-o", "-olto",
};

/// Whether cicc makes what is optimised when device code is linked. The name of the directory that it works in is part of that.
fn optimizedLater(command: []const []const u8) bool {
    for (command) |word| if (common.isAny(word, &.{ "-lto", "-olto" })) return true;
    return false;
}

/// A command for the root, the directory that has the same name everywhere.
fn fromRoot(allocator: std.mem.Allocator, command: []const []const u8, environment: *const std.process.EnvMap) ![][]const u8 {
    const program = try dryrun.program(allocator, command[0], environment.get("PATH") orelse "");
    const words = try allocator.dupe([]const u8, command);
    words[0] = try dryrun.absolute(allocator, program);
    for (words[1..], command[0 .. command.len - 1]) |*word, before| {
        if (common.isAny(before, &of_files) or std.mem.endsWith(u8, word.*, ".ii")) word.* = try dryrun.absolute(allocator, word.*);
    }
    return words;
}

/// Has a file name itself as commands of the working directory do.
fn relative(allocator: std.mem.Allocator, path: []const u8) !void {
    const text = try common.read(allocator, path);
    try common.write(path, try std.mem.replaceOwned(u8, allocator, text, try dryrun.absolute(allocator, path), path));
}

/// Preprocesses a source for the host, for architectures, or for both. The host comes first and alone, so that what is
/// wrong for all of them is said once; then all architectures at once.
///
/// Each time nvcc is asked with the one architecture, so that no text depends on which others there are. `--read` is the
/// file to which it is written with which headers of torch that was done.
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

/// Makes all texts, with all that the packs have if it must be; whether that worked.
fn attempted(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text) !bool {
    return try preprocessed(work, call, wanted, false) or (try work.packs.rest() and try preprocessed(work, call, wanted, false));
}

/// Why the texts that were made with fewer headers may mean something else than those of all headers; null if they mean
/// the same.
///
/// Of architectures some do for all: the first and the last one, those with features of their own, and each for which the
/// project's own files have another text. What a removed header defines for none of these would be missed; in torch 2.13 no
/// header that is removed asks for a single architecture (`__CUDA_ARCH__ ==`).
fn difference(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text, spelled: comparison.Spelled) !?[]const u8 {
    const allocator = work.allocator;
    var chosen = std.ArrayList(texts.Text).init(allocator);
    var few = std.ArrayList([]const u8).init(allocator);
    var seen = std.AutoHashMap(u64, void).init(allocator);
    for (wanted, 0..) |text, index| {
        const content = try common.read(allocator, text.out);
        // The last one is compared in any case, and none comes after it.
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

/// Makes all texts, of inputs alone; whether that worked. If it must, it ends this program where it does not; else it says nothing then.
pub fn preprocessed(work: *phases.Work, call: []const []const u8, wanted: []const texts.Text, must: bool) !bool {
    const allocator = work.allocator;
    var children = std.ArrayList(std.process.Child).init(allocator);
    for (wanted) |text| {
        const whole = try std.mem.concat(allocator, []const u8, &.{ call, &.{text.gencode} });
        const plan = try dryrun.ask(allocator, whole, text.arch == null);
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
        const said = if (must) "" else try dryrun.listen(allocator, child);
        const code = try dryrun.finish(child);
        if (failed == 0) failed = code;
        if (code == 0) try std.io.getStdErr().writeAll(said);
    }
    if (failed != 0 and must) std.process.exit(failed);
    if (failed != 0) return false;
    for (wanted) |text| try inputs.check(allocator, text.out, &work.packs);
    return true;
}

test "what is optimised when device code is linked is made in the root" {
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
