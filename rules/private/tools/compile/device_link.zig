//! Links the device code of several sources: nvlink for each architecture, and then the object that registers its
//! output, which nvcc compiles from its link.stub. As elsewhere, the commands are those of `nvcc --dryrun`.
//!
//! nvlink reads ptxas's output for each source, so its inputs have no other architecture and no host code. It writes
//! its options into its output, so no option is a directory, and the archive of cudadevrt is an input. nvcc finds the
//! registered sources in their objects; here they are a function of the sources' names (`moduleId`).
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const object = @import("object.zig");
const phases = @import("phase.zig");
const Editor = @import("editor.zig").Editor;

/// The name in the call of nvcc for the sources' objects.
const placeholder = "object.o";
const linked_name = "linked.cubin";
const registered_name = "registered.c";
const fatbin_name = "fatbin.c";
const nvvm_name = "nvvm";
/// The symbol at the start of the linked code of all architectures; an extension has a single one.
const symbol = "fatbin_device_link";

const define_before = "DEFINE_REGISTER_FUNC(";
const create_flag = "--create=";
const embedded_flag = "--embedded-fatbin=";
const nvvm_flag = "-nvvmpath=";
const registered_flag = "--register-link-binaries=";
const cpu_flag = "-cpu-arch=";
const fatbin_define = "-DFATBINFILE=";
const registered_define = "-DREGISTERLINKBINARYFILE=";

/// Links for an architecture. `--libraries` is the file for the module ids of the used members of the archive.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var out: []const u8 = "";
    var libraries: []const u8 = "";
    var runtime: ?[]const u8 = null;
    var inputs = std.ArrayList([]const u8).init(allocator);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (common.is(flag, "--out")) {
            out = value;
        } else if (common.is(flag, "--libraries")) {
            libraries = value;
        } else if (common.is(flag, "--runtime")) {
            runtime = value;
        } else if (common.is(flag, "--in")) {
            try inputs.append(value);
        } else return common.fail("device-link: no such flag: {s}", .{flag});
    }
    const plan = try dryrun.ask(allocator, arguments.items[arguments.at..], true);
    const scratch = try std.mem.concat(allocator, u8, &.{ out, ".tmp" });
    try std.fs.cwd().deleteTree(scratch);
    try std.fs.cwd().makePath(scratch);
    defer std.fs.cwd().deleteTree(scratch) catch {};
    var editor = try Editor.init(allocator, try phases.only(plan, .nvlink), "");
    const program = try dryrun.program(allocator, editor.words.items[0], plan.environment.get("PATH") orelse "");
    editor.words.items[0] = try dryrun.absolute(allocator, program);
    while (editor.next()) |word| {
        if (std.mem.startsWith(u8, word, "-L")) continue;
        if (common.is(word, "--host-ccbin")) {
            _ = editor.next();
        } else if (std.mem.startsWith(u8, word, registered_flag)) {
            try editor.words.append(registered_flag ++ registered_name);
        } else if (std.mem.startsWith(u8, word, nvvm_flag)) {
            const directory = try dryrun.absolute(allocator, word[nvvm_flag.len..]);
            try std.fs.cwd().symLink(directory, try std.fs.path.join(allocator, &.{ scratch, nvvm_name }), .{ .is_directory = true });
            try editor.words.append(nvvm_flag ++ nvvm_name);
        } else if (common.is(word, "-lcudadevrt")) {
            if (runtime) |archive| try editor.words.append(try dryrun.absolute(allocator, archive));
        } else if (common.is(word, "-o")) {
            try editor.replace(linked_name);
        } else if (common.is(word, placeholder)) {
            for (inputs.items, 0..) |input, number|
                try editor.words.append(try dryrun.absolute(allocator, try linkable(allocator, input, scratch, number)));
        } else try editor.keep(word);
    }
    try dryrun.execute(scratch, allocator, editor.words.items, &plan.environment);
    try common.write(out, try common.read(allocator, try std.fs.path.join(allocator, &.{ scratch, linked_name })));
    const registered = try common.read(allocator, try std.fs.path.join(allocator, &.{ scratch, registered_name }));
    const archive = if (runtime) |path| try common.read(allocator, path) else "";
    try common.write(libraries, try takenOf(allocator, registered, archive));
}

/// The file that nvlink accepts as the device code of a source. nvlink ignores an object without a module id, and an
/// object with only the code of all architectures has none; so this is fatbinary's output.
fn linkable(allocator: std.mem.Allocator, path: []const u8, scratch: []const u8, number: usize) ![]const u8 {
    if (!std.mem.endsWith(u8, path, ".o")) return path;
    const code = object.data(try common.read(allocator, path)) orelse return path;
    const bundle = try std.fmt.allocPrint(allocator, "{s}/{d}.fatbin", .{ scratch, number });
    try common.write(bundle, code);
    return bundle;
}

/// The registered module ids that an archive contains, one per line.
fn takenOf(allocator: std.mem.Allocator, registered: []const u8, archive: []const u8) ![]const u8 {
    var found = std.ArrayList(u8).init(allocator);
    var lines = std.mem.splitScalar(u8, registered, '\n');
    while (lines.next()) |line| {
        if (!std.mem.startsWith(u8, line, define_before)) continue;
        const id = line[define_before.len .. std.mem.indexOfScalar(u8, line, ')') orelse line.len];
        if (std.mem.indexOf(u8, archive, id) != null) try found.writer().print("{s}\n", .{id});
    }
    return found.items;
}

/// Makes the object that registers linked device code, and the object of the code.
pub fn register(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var work = phases.Work.init(allocator);
    var ids = std.ArrayList([]const u8).init(allocator);
    var code: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (try work.takes(flag, value) or try work.packs.takes(flag, value)) continue;
        if (common.is(flag, "--module")) {
            try ids.append(try phases.moduleId(allocator, value, try arguments.value(flag)));
        } else if (common.is(flag, "--libraries")) {
            try addNew(&ids, try common.read(allocator, value));
        } else if (common.is(flag, "--in")) {
            try work.inputs.put(value, try arguments.value(flag));
        } else if (common.is(flag, "--code")) {
            code = value;
        } else if (common.is(flag, "--out")) {
            work.out = value;
        } else return common.fail("register-linked: no such flag: {s}", .{flag});
    }
    try work.packs.layOut();
    const plan = try dryrun.ask(allocator, arguments.items[arguments.at..], false);
    const scratch = try std.mem.concat(allocator, u8, &.{ work.out, ".tmp" });
    try std.fs.cwd().deleteTree(scratch);
    try std.fs.cwd().makePath(scratch);
    defer std.fs.cwd().deleteTree(scratch) catch {};
    try common.write(try std.fs.path.join(allocator, &.{ scratch, registered_name }), try registrations(allocator, ids.items));
    try common.write(try std.fs.path.join(allocator, &.{ scratch, fatbin_name }), declared);
    const bundle = try std.fs.path.join(allocator, &.{ scratch, "fatbin" });
    try dryrun.execute(null, allocator, try bundled(&work, try phases.only(plan, .fatbinary), bundle), &plan.environment);
    try object.write(allocator, code, try cpuOf(plan), object.device_section, 8, symbol, try common.read(allocator, bundle));
    const command = try compiled(&work, try phases.only(plan, .@"host-compile"), scratch);
    _ = try work.packs.run(command, &plan.environment, true);
}

/// Adds the new lines of a text: the members of an archive are registered once for all architectures.
fn addNew(ids: *std.ArrayList([]const u8), text: []const u8) !void {
    var lines = std.mem.tokenizeScalar(u8, text, '\n');
    while (lines.next()) |line| {
        if (!common.isAny(line, ids.items)) try ids.append(line);
    }
}

/// nvlink's output about the linked sources.
fn registrations(allocator: std.mem.Allocator, ids: []const []const u8) ![]const u8 {
    var text = std.ArrayList(u8).init(allocator);
    try text.writer().print("#define NUM_PRELINKED_OBJECTS {d}\n", .{ids.len});
    for (ids) |id| try text.writer().print("{s}{s})\n", .{ define_before, id });
    return text.items;
}

/// The replacement of the text that nvcc makes of the linked code.
const declared =
    \\#include "fatbinary_section.h"
    \\extern "C" __attribute__((visibility("hidden"))) const unsigned long long
++ " " ++ symbol ++ "[];\n" ++
    \\static const __fatBinC_Wrapper_t __fatDeviceText __attribute__((aligned(8)))
    \\__attribute__((section(FATBIN_CONTROL_SECTION_NAME))) =
++ " { FATBINC_MAGIC, FATBINC_LINK_VERSION, " ++ symbol ++ ", (void**)__cudaPrelinkedFatbins };\n";

fn bundled(work: *phases.Work, command: []const []const u8, bundle: []const u8) ![][]const u8 {
    var editor = try Editor.init(work.allocator, command, "");
    while (editor.next()) |word| {
        if (std.mem.startsWith(u8, word, embedded_flag)) {
            try editor.words.append(try std.mem.concat(work.allocator, u8, &.{ create_flag, bundle }));
        } else if (std.mem.startsWith(u8, word, phases.ident_flag)) {
            try editor.words.append(try phases.ident(work.allocator, work.section));
        } else if (std.mem.startsWith(u8, word, "--image")) {
            try editor.words.append(try work.image(word));
        } else if (!std.mem.startsWith(u8, word, create_flag)) try editor.keep(word);
    }
    return work.compressed(editor.words.items);
}

fn compiled(work: *phases.Work, command: []const []const u8, scratch: []const u8) ![][]const u8 {
    var editor = try Editor.init(work.allocator, command, "");
    while (editor.next()) |word| {
        if (std.mem.startsWith(u8, word, fatbin_define)) {
            try editor.words.append(fatbin_define ++ "\"" ++ fatbin_name ++ "\"");
        } else if (std.mem.startsWith(u8, word, registered_define)) {
            try editor.words.append(registered_define ++ "\"" ++ registered_name ++ "\"");
        } else if (common.is(word, "-o")) {
            try editor.replace(work.out);
        } else if (!common.isAny(word, &.{ "-g", "-I." })) try editor.keep(word);
    }
    try editor.words.appendSlice(&.{ "-iquote", scratch });
    return editor.words.items;
}

/// The CPU of the host code, by nvlink's options.
fn cpuOf(plan: dryrun.Plan) !std.elf.EM {
    for (plan.commands) |command| {
        if (phases.phaseOf(command) != .nvlink) continue;
        for (command) |word| {
            if (!std.mem.startsWith(u8, word, cpu_flag)) continue;
            return if (common.is(word[cpu_flag.len..], "X86_64")) .X86_64 else .AARCH64;
        }
    }
    return common.fail("nvcc: the command of nvlink does not name the CPU", .{});
}

test "registered sources" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const allocator = arena.allocator();
    const text = "#define NUM_PRELINKED_OBJECTS 2\nDEFINE_REGISTER_FUNC(_1_a)\nDEFINE_REGISTER_FUNC(_2_runtime)\n";
    try std.testing.expectEqualStrings("_2_runtime\n", try takenOf(allocator, text, "!<arch>\n..._2_runtime\x00..."));
    try std.testing.expectEqualStrings("", try takenOf(allocator, text, ""));
    var ids = std.ArrayList([]const u8).init(allocator);
    try ids.append("_1_a");
    try addNew(&ids, "_2_runtime\n");
    try addNew(&ids, "_2_runtime\n");
    try std.testing.expectEqualStrings(text, try registrations(allocator, ids.items));
}
