//! nvcc compiles: a whole one in one step, or one phase of it. Either way the commands are those that nvcc itself
//! names, with changes that no flag of nvcc offers: what depends on the directory, the process or the order of the
//! architectures is replaced by what depends on the names of source and target alone.
//!
//! A command is known by its program and its flags, never by its place, so one reading fits all versions of nvcc.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const inputs = @import("inputs.zig");
const object = @import("object.zig");

const list_flag = "-D__CUDA_ARCH_LIST__=";
const ident_flag = "--ident=";
const stub_name = "stub.c";
const fatbin_name = "fatbin.c";
const fatbin_include = "#include \"" ++ fatbin_name ++ "\"\n";
const target_directive = "\n.target ";

const Phase = enum {
    @"host-preprocess",
    @"device-preprocess",
    frontend,
    cicc,
    ptxas,
    fatbinary,
    @"host-compile",
};

/// What cicc does where a lower architecture has the same preprocessed text: runs nonetheless, does not run and takes the
/// PTX of that one, or runs and fails if its PTX is another.
const Sharing = enum { off, on, check };

/// Runs all commands, one after another.
///
/// The module id, which makes the names of internal symbols unique among the files of a program, is ours: nvcc's has
/// the absolute path of the source in it and, of a file without external symbols, the process id.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var section: []const u8 = "";
    var name: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        if (common.is(flag, "--section")) {
            section = try arguments.value(flag);
        } else if (common.is(flag, "--source")) {
            name = try arguments.value(flag);
        } else return common.fail("nvcc: no such flag: {s}", .{flag});
    }
    const id = try moduleId(allocator, section, name);
    const plan = try dryrun.ask(allocator, arguments.items[arguments.at..], true);
    for (plan.commands) |command| {
        var words = std.ArrayList([]const u8).init(allocator);
        var i: usize = 0;
        while (i < command.len) : (i += 1) {
            const word = command[i];
            if (common.is(word, "--gen_module_id_file")) continue;
            try words.append(if (std.mem.startsWith(u8, word, ident_flag)) try ident(allocator, name) else word);
            if (i + 1 == command.len) break;
            if (common.is(word, "--module_id_file_name")) try common.write(command[i + 1], id);
            if (namesSource(word)) {
                try words.append(name);
                i += 1;
            }
        }
        const phase = phaseOf(command);
        const preprocesses = phase == .@"host-preprocess" or phase == .@"device-preprocess";
        const out = words.items[words.items.len - 1];
        const whole = if (preprocesses) try inputs.listing(allocator, words.items, out) else words.items;
        try dryrun.execute(allocator, whole, &plan.environment);
        if (preprocesses) try inputs.check(allocator, out);
        if (phase == .cicc) try leaveDirectory(allocator, words.items[words.items.len - 1]);
    }
    for (plan.temporary) |path| std.fs.cwd().deleteFile(path) catch {};
}

/// Preprocesses a source for the host and for each architecture: one step, since what takes long is to bring the headers.
/// The host comes first and alone, so that what is wrong for all of them is said once; then all architectures at once.
///
/// Each time nvcc is asked with the one architecture, so that no text depends on which others there are.
pub fn preprocess(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const Text = struct { phase: Phase, out: []const u8, gencode: []const u8 };
    var work = Work{ .allocator = allocator, .inputs = std.StringHashMap([]const u8).init(allocator) };
    var texts = std.ArrayList(Text).init(allocator);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (common.is(flag, "--arch-list")) {
            work.arch_list = value;
        } else if (common.is(flag, "--host") or common.is(flag, "--device")) {
            const phase: Phase = if (common.is(flag, "--host")) .@"host-preprocess" else .@"device-preprocess";
            try texts.append(.{ .phase = phase, .out = value, .gencode = try arguments.value(flag) });
        } else return common.fail("preprocess: no such flag: {s}", .{flag});
    }
    var children = std.ArrayList(std.process.Child).init(allocator);
    for (texts.items) |text| {
        const on_host = text.phase == .@"host-preprocess";
        const call = try std.mem.concat(allocator, []const u8, &.{ arguments.items[arguments.at..], &.{text.gencode} });
        const plan = try dryrun.ask(allocator, call, on_host);
        work.out = text.out;
        const command = try inputs.listing(allocator, try work.preprocess(try only(plan, text.phase)), text.out);
        if (on_host) try dryrun.execute(allocator, command, &plan.environment) else {
            try children.append(try dryrun.start(allocator, command, &plan.environment));
        }
    }
    var failed: u8 = 0;
    for (children.items) |*child| {
        const code = try dryrun.finish(child);
        if (failed == 0) failed = code;
    }
    if (failed != 0) std.process.exit(failed);
    for (texts.items) |text| try inputs.check(allocator, text.out);
}

/// The one command of a phase.
fn only(plan: dryrun.Plan, phase: Phase) ![]const []const u8 {
    var chosen: ?[][]const u8 = null;
    for (plan.commands) |command| {
        if (phaseOf(command) != phase) continue;
        if (chosen != null) return common.fail("this nvcc runs {s} more than once; compile in one step", .{@tagName(phase)});
        chosen = command;
    }
    return chosen orelse common.fail("this nvcc runs no {s}; compile in one step", .{@tagName(phase)});
}

/// Runs the one command of a phase, with files of ours in place of nvcc's.
pub fn runPhase(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const called = try arguments.value("phase");
    const phase = std.meta.stringToEnum(Phase, called) orelse return common.fail("no such phase: {s}", .{called});
    var work = Work{ .allocator = allocator, .inputs = std.StringHashMap([]const u8).init(allocator) };
    var sharing = Sharing.off;
    var target: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (common.is(flag, "--source")) {
            work.name = value;
        } else if (common.is(flag, "--section")) {
            work.section = value;
        } else if (common.is(flag, "--out")) {
            work.out = value;
        } else if (common.is(flag, "--stub")) {
            work.stub = value;
        } else if (common.is(flag, "--target")) {
            target = value;
        } else if (common.is(flag, "--share")) {
            sharing = std.meta.stringToEnum(Sharing, value) orelse return common.fail("phase: no such sharing: {s}", .{value});
        } else if (common.is(flag, "--in")) {
            try work.inputs.put(value, try arguments.value(flag));
        } else return common.fail("phase: no such flag: {s}", .{flag});
    }
    const shared = if (sharing == .off) null else try work.sharedPtx(target);
    if (sharing == .on) if (shared) |ptx| {
        try common.write(work.out, ptx);
        return common.write(work.stub, try common.read(allocator, try work.input("base-stub")));
    };
    const plan = try dryrun.ask(allocator, arguments.items[arguments.at..], false);
    const command = try only(plan, phase);
    const module_id = try std.mem.concat(allocator, u8, &.{ work.out, ".id" });
    const scratch = try std.mem.concat(allocator, u8, &.{ work.out, ".tmp" });
    const words = switch (phase) {
        .@"host-preprocess", .@"device-preprocess" => return common.fail("phase: {s} is a step of its own", .{called}),
        .frontend => try work.frontend(command, module_id),
        .cicc => try work.cicc(command, module_id, scratch),
        .ptxas => try work.ptxas(command),
        .fatbinary => try work.fatbinary(command, scratch),
        .@"host-compile" => try work.compile(command),
    };
    const own = phase == .frontend or phase == .cicc;
    if (own) try common.write(module_id, try moduleId(allocator, work.section, work.name));
    try dryrun.execute(allocator, words, &plan.environment);
    if (own) std.fs.cwd().deleteFile(module_id) catch {};
    if (phase == .fatbinary)
        try object.write(allocator, work.out, ".nv_fatbin", 8, try work.symbol(), try common.read(allocator, scratch));
    std.fs.cwd().deleteFile(scratch) catch {};
    if (phase == .cicc) {
        try work.cleanStub();
        try leaveDirectory(allocator, work.out);
        if (shared) |ptx| if (!common.is(ptx, try common.read(allocator, work.out)))
            return common.fail("{s}: preprocessed for {s} it is the text of a lower architecture, but its PTX is another; " ++
                "compile it without ptx_sharing", .{ work.name, target });
    }
}

/// Takes the way to the working directory out of PTX: with line information, cicc writes it before the name of each
/// source, and no option of it does without.
fn leaveDirectory(allocator: std.mem.Allocator, path: []const u8) !void {
    const directory = try std.mem.concat(allocator, u8, &.{ "\"", try std.process.getCwdAlloc(allocator), "/" });
    const text = try common.read(allocator, path);
    if (std.mem.indexOf(u8, text, directory) == null) return;
    try common.write(path, try std.mem.replaceOwned(u8, allocator, text, directory, "\""));
}

/// Which phase a command is; null for others.
fn phaseOf(command: []const []const u8) ?Phase {
    const program = std.fs.path.basename(command[0]);
    if (common.is(program, "cudafe++")) return .frontend;
    if (common.is(program, "cicc")) return .cicc;
    if (common.is(program, "ptxas")) return .ptxas;
    if (common.is(program, "fatbinary")) return .fatbinary;
    var preprocesses = false;
    var for_device = false;
    var compiles = false;
    for (command[1..]) |word| {
        if (common.is(word, "-E")) preprocesses = true;
        if (common.is(word, "-c")) compiles = true;
        if (std.mem.startsWith(u8, word, "-D__CUDA_ARCH__=")) for_device = true;
    }
    if (preprocesses) return if (for_device) .@"device-preprocess" else .@"host-preprocess";
    return if (compiles) .@"host-compile" else null;
}

/// Whether the name of the source follows: nvcc hashes it into the names of symbols, and writes it into line tables.
fn namesSource(word: []const u8) bool {
    return common.is(word, "--orig_src_path_name") or common.is(word, "--orig_src_file_name");
}

/// How fatbinary is told, with line information, what the code was made from.
fn ident(allocator: std.mem.Allocator, name: []const u8) ![]const u8 {
    return std.mem.concat(allocator, u8, &.{ ident_flag, name });
}

/// The module id of a source: of the same form as nvcc's, and a function of the source's name in its package and of that
/// for which it is compiled; an extension may have it more than once, compiled with other flags.
fn moduleId(allocator: std.mem.Allocator, section: []const u8, name: []const u8) ![]const u8 {
    if (section.len == 0 or name.len == 0) return common.fail("nvcc: --section and --source are missing", .{});
    var digest: [32]u8 = undefined;
    std.crypto.hash.sha2.Sha256.hash(try std.mem.concat(allocator, u8, &.{ section, ":", name }), &digest, .{});
    const base = try allocator.dupe(u8, std.fs.path.basename(name));
    for (base) |*c| {
        if (!std.ascii.isAlphanumeric(c.*)) c.* = '_';
    }
    const first = std.mem.readInt(u32, digest[0..4], .big);
    const second = std.mem.readInt(u32, digest[4..8], .big);
    return std.fmt.allocPrint(allocator, "_{x:0>8}_{d}_{s}_{x:0>8}", .{ first, base.len, base, second });
}

const Work = struct {
    allocator: std.mem.Allocator,
    /// Path of the source in its package.
    name: []const u8 = "",
    /// What it is compiled for, among what is linked to the same extension.
    section: []const u8 = "",
    /// The value of __CUDA_ARCH_LIST__; empty to leave nvcc's.
    arch_list: []const u8 = "",
    out: []const u8 = "",
    /// Where cicc writes the host code that launches kernels, and the host compile reads it.
    stub: []const u8 = "",
    /// Paths by what they are: `code`, for fatbinary `sm_80`, `compute_90`, and to share what cicc makes `base-code`,
    /// `base-ptx`, `base-stub`, of a lower architecture.
    inputs: std.StringHashMap([]const u8),

    fn input(self: *Work, role: []const u8) ![]const u8 {
        return self.inputs.get(role) orelse common.fail("phase: nvcc needs {s}, which is no input", .{role});
    }

    fn preprocess(self: *Work, command: []const []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (common.is(word, "-o")) try editor.replace(self.out) else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn frontend(self: *Work, command: []const []const u8, module_id: []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (try editor.keepShared(word, module_id)) continue;
            if (common.is(word, "--gen_c_file_name")) {
                try editor.replace(self.out);
            } else if (common.is(word, "--stub_file_name")) {
                try editor.replace(stub_name);
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn cicc(self: *Work, command: []const []const u8, module_id: []const u8, scratch: []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (try editor.keepShared(word, module_id)) continue;
            if (common.is(word, "--gen_c_file_name") or common.is(word, "--gen_device_file_name")) {
                try editor.replace(scratch);
            } else if (common.is(word, "--stub_file_name")) {
                try editor.replace(self.stub);
            } else if (common.is(word, "--include_file_name")) {
                try editor.replace(fatbin_name);
            } else if (common.is(word, "-o")) {
                try editor.replace(self.out);
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn ptxas(self: *Work, command: []const []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (common.is(word, "-o")) {
                try editor.replace(self.out);
            } else if (std.mem.endsWith(u8, word, ".ptx")) {
                try editor.words.append(try self.input("code"));
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn fatbinary(self: *Work, command: []const []const u8, scratch: []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (std.mem.startsWith(u8, word, "--create=")) {
                try editor.words.append(try std.mem.concat(self.allocator, u8, &.{ "--create=", scratch }));
            } else if (std.mem.startsWith(u8, word, "--embedded-fatbin=")) {
                // Left out: the same as text, for the host's compiler.
            } else if (std.mem.startsWith(u8, word, ident_flag)) {
                try editor.words.append(try ident(self.allocator, self.name));
            } else if (std.mem.startsWith(u8, word, "--image")) {
                try editor.words.append(try self.image(word));
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    /// `--image3=kind=elf,sm=80,file=...` with the file that is ours.
    fn image(self: *Work, word: []const u8) ![]const u8 {
        const file_key = "file=";
        const at = std.mem.indexOf(u8, word, file_key) orelse return common.fail("nvcc: no file in {s}", .{word});
        const sm_key = ",sm=";
        const start = (std.mem.indexOf(u8, word, sm_key) orelse return common.fail("nvcc: no sm in {s}", .{word})) + sm_key.len;
        const end = std.mem.indexOfScalarPos(u8, word, start, ',') orelse word.len;
        const kind = if (std.mem.indexOf(u8, word, "kind=ptx") != null) "compute_" else "sm_";
        const role = try std.mem.concat(self.allocator, u8, &.{ kind, word[start..end] });
        return std.mem.concat(self.allocator, u8, &.{ word[0 .. at + file_key.len], try self.input(role) });
    }

    fn compile(self: *Work, command: []const []const u8) ![][]const u8 {
        var editor = try Editor.init(self, command);
        while (editor.next()) |word| {
            if (common.is(word, "-o")) {
                try editor.replace(self.out);
            } else if (std.mem.endsWith(u8, word, ".cudafe1.cpp")) {
                try editor.words.append("-iquote");
                try editor.words.append(std.fs.path.dirname(self.stub) orelse ".");
                try editor.words.append(try self.input("code"));
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    /// The PTX of the base, as for another target; null if that one was not compiled from the same text.
    fn sharedPtx(self: *Work, target: []const u8) !?[]const u8 {
        const own = try common.read(self.allocator, try self.input("code"));
        if (!common.is(own, try common.read(self.allocator, try self.input("base-code")))) return null;
        const ptx = try common.read(self.allocator, try self.input("base-ptx"));
        const start = (std.mem.indexOf(u8, ptx, target_directive) orelse
            return common.fail("phase: no {s}in the PTX of a lower architecture", .{target_directive})) + target_directive.len;
        const end = std.mem.indexOfAnyPos(u8, ptx, start, ", \r\n") orelse ptx.len;
        return try std.mem.concat(self.allocator, u8, &.{ ptx[0..start], target, ptx[end..] });
    }

    /// The stub says where it was written; the same text is to come out everywhere. And it includes the code of all
    /// architectures, of which the host's needs the address only.
    fn cleanStub(self: *Work) !void {
        const text = try common.read(self.allocator, self.stub);
        const clean = try std.mem.replaceOwned(u8, self.allocator, text, self.stub, stub_name);
        if (std.mem.count(u8, clean, fatbin_include) != 1)
            return common.fail("nvcc: host code that does not include {s} once; compile in one step", .{fatbin_name});
        const name = try self.symbol();
        const declared = try std.fmt.allocPrint(self.allocator,
            \\#include "fatbinary_section.h"
            \\extern "C" __attribute__((visibility("hidden"))) const unsigned long long {s}[];
            \\extern "C" {{ static const __fatBinC_Wrapper_t __fatDeviceText __attribute__((aligned(8)))
            \\__attribute__((section(FATBIN_CONTROL_SECTION_NAME))) = {{ FATBINC_MAGIC, FATBINC_VERSION, {s}, 0 }}; }}
            \\
        , .{ name, name });
        try common.write(self.stub, try std.mem.replaceOwned(u8, self.allocator, clean, fatbin_include, declared));
    }

    /// Where the code of all architectures begins.
    fn symbol(self: *Work) ![]const u8 {
        return std.mem.concat(self.allocator, u8, &.{ "fatbin", try moduleId(self.allocator, self.section, self.name) });
    }
};

/// Goes through the words of a command and collects those of another.
const Editor = struct {
    work: *Work,
    command: []const []const u8,
    at: usize = 1,
    words: std.ArrayList([]const u8),

    fn init(work: *Work, command: []const []const u8) !Editor {
        var words = std.ArrayList([]const u8).init(work.allocator);
        try words.append(command[0]);
        return .{ .work = work, .command = command, .words = words };
    }

    fn next(self: *Editor) ?[]const u8 {
        if (self.at == self.command.len) return null;
        defer self.at += 1;
        return self.command[self.at];
    }

    fn keep(self: *Editor, word: []const u8) !void {
        const list = self.work.arch_list;
        const replaced = list.len > 0 and std.mem.startsWith(u8, word, list_flag);
        try self.words.append(if (replaced) try std.mem.concat(self.work.allocator, u8, &.{ list_flag, list }) else word);
    }

    /// Takes the word that was read last, with another one in place of that which follows it.
    fn replace(self: *Editor, value: []const u8) !void {
        try self.words.append(self.command[self.at - 1]);
        try self.words.append(value);
        self.at += 1;
    }

    /// What cudafe++ and cicc have in common; whether the word was one of those.
    fn keepShared(self: *Editor, word: []const u8, module_id: []const u8) !bool {
        if (common.is(word, "--gen_module_id_file")) return true;
        if (common.is(word, "--module_id_file_name")) {
            try self.replace(module_id);
        } else if (namesSource(word)) {
            try self.replace(self.work.name);
        } else if (std.mem.endsWith(u8, word, ".ii")) {
            try self.words.append(try self.work.input("code"));
        } else return false;
        return true;
    }
};
