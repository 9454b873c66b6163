//! A phase of nvcc: the command of nvcc's dry run, with our files in place of nvcc's.
//!
//! A command is identified by its program and flags, not by its position, so the same code works for all versions of
//! nvcc.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const halves = @import("halves.zig");
const host_stub = @import("host_stub.zig");
const Editor = @import("editor.zig").Editor;
const object = @import("object.zig");
const Packs = @import("packs.zig").Packs;
const shared = @import("shared.zig");
const texts = @import("texts.zig");

/// The option of fatbinary for the source's name, used with line information.
pub const ident_flag = "--ident=";
const stub_name = "stub.c";
const fatbin_name = "fatbin.c";

/// The section where nvlink looks for the code of a source.
const relocatable_section = "__nv_relfatbin";

pub const Phase = enum {
    @"host-preprocess",
    @"device-preprocess",
    frontend,
    cicc,
    @"device-frontend",
    @"device-compile",
    ptxas,
    nvlink,
    fatbinary,
    @"host-compile",
};

/// Runs the command of a phase, with our files in place of nvcc's.
///
/// An attempt that fails, or that lacks the output of another attempt, writes empty files and prints nothing.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const called = try arguments.value("phase");
    const phase = std.meta.stringToEnum(Phase, called) orelse return common.fail("no such phase: {s}", .{called});
    var work = Work.init(allocator);
    var attempt = false;
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        if (common.is(flag, "--attempt")) {
            attempt = true;
            continue;
        }
        const value = try arguments.value(flag);
        if (try work.takes(flag, value) or try work.packs.takes(flag, value)) continue;
        if (common.is(flag, "--out")) {
            work.out = value;
        } else if (common.is(flag, "--stub")) {
            work.stub = value;
        } else if (common.is(flag, "--in")) {
            try work.inputs.put(value, try arguments.value(flag));
        } else return common.fail("phase: no such flag: {s}", .{flag});
    }
    try work.packs.layOut();
    try perform(&work, phase, arguments.items[arguments.at..], attempt);
}

/// Runs the command of a phase for the files of `work`; `call` is the call of nvcc.
pub fn perform(work: *Work, phase: Phase, call: []const []const u8, attempt: bool) !void {
    const allocator = work.allocator;
    const writes_stub = phase == .cicc or phase == .@"device-frontend";
    const begin = try work.beginning();
    if (begin.len == 0 or std.mem.startsWith(u8, begin, texts.same)) {
        try common.write(work.out, begin);
        if (writes_stub) try common.write(work.stub, "");
        return;
    }
    // cicc's front end writes the name of its directory into the bitcode, and with -G also into the PTX.
    const directory: ?[]const u8 = if (writes_stub) "/" else null;
    if (directory != null) {
        work.out = try dryrun.absolute(allocator, work.out);
        work.stub = try dryrun.absolute(allocator, work.stub);
        try work.inputs.put("code", try dryrun.absolute(allocator, try work.input("code")));
    }
    var plan = try dryrun.ask(allocator, call, false);
    const command = try only(plan, if (phase == .@"device-frontend" or phase == .@"device-compile") .cicc else phase);
    const module_id = try std.mem.concat(allocator, u8, &.{ work.out, ".id" });
    const scratch = try std.mem.concat(allocator, u8, &.{ work.out, ".tmp" });
    const words = switch (phase) {
        .@"host-preprocess", .@"device-preprocess", .nvlink => return common.fail("phase: {s} is a command of its own", .{@tagName(phase)}),
        .frontend => try work.frontend(command, module_id),
        .cicc => try work.cicc(command, module_id, scratch),
        .@"device-frontend" => try work.half(try work.cicc(command, module_id, scratch), .frontend, &plan.environment),
        .@"device-compile" => try work.half(command, .compile, &plan.environment),
        .ptxas => try work.ptxas(command),
        .fatbinary => try work.fatbinary(command, scratch),
        .@"host-compile" => try work.compile(command),
    };
    if (directory != null) {
        const program = try dryrun.program(allocator, words[0], plan.environment.get("PATH") orelse "");
        words[0] = try dryrun.absolute(allocator, program);
    }
    const own = phase == .frontend or writes_stub;
    if (own) try common.write(module_id, try moduleId(allocator, work.section, work.name));
    if (phase == .@"host-compile") {
        if (!try work.packs.run(words, &plan.environment, !attempt)) try common.write(work.out, "");
    } else if (!attempt) {
        if (writes_stub) {
            const ended = try dryrun.tried(directory, allocator, words, &plan.environment);
            try std.io.getStdErr().writeAll(ended.messages);
            if (ended.code != 0) std.process.exit(ended.code);
            if (try shared.find(allocator, ended.messages, try work.input("code"))) |name| return shared.fail(name);
        } else try dryrun.execute(directory, allocator, words, &plan.environment);
        if (!isThere(if (phase == .fatbinary) scratch else work.out)) std.process.exit(1);
    } else if (!try work.attempted(directory, words, &plan.environment, writes_stub) or
        // cicc's front end exits with 0 even after an error.
        (phase == .@"device-frontend" and !isThere(work.out)))
    {
        for ([_][]const u8{ module_id, scratch }) |path| std.fs.cwd().deleteFile(path) catch {};
        try common.write(work.out, "");
        return if (writes_stub) common.write(work.stub, "");
    }
    if (own) std.fs.cwd().deleteFile(module_id) catch {};
    if (phase == .fatbinary) {
        const code = try common.read(allocator, scratch);
        const section = if (isRelocatable(command)) relocatable_section else object.device_section;
        try object.write(allocator, work.out, cpuOf(plan), section, 8, try work.symbol(), code);
    }
    std.fs.cwd().deleteFile(scratch) catch {};
    if (writes_stub) {
        const text = try host_stub.clean(allocator, try common.read(allocator, work.stub), .{
            .path = work.stub,
            .name = stub_name,
            .included = fatbin_name,
            .symbol = try work.symbol(),
            .id = try moduleId(allocator, work.section, work.name),
        });
        try common.write(work.stub, text);
    }
    if (phase == .cicc or phase == .@"device-compile") try leave(allocator, work.out, "");
}

fn isThere(path: []const u8) bool {
    std.fs.cwd().access(path, .{}) catch return false;
    return true;
}

/// The command of a phase.
pub fn only(plan: dryrun.Plan, phase: Phase) ![]const []const u8 {
    var chosen: ?[][]const u8 = null;
    for (plan.commands) |command| {
        if (phaseOf(command) != phase) continue;
        if (chosen != null) return common.fail("this nvcc runs {s} more than once; build with `--cuda-compile monolithic`", .{@tagName(phase)});
        chosen = command;
    }
    return chosen orelse common.fail("this nvcc does not run {s}; build with `--cuda-compile monolithic`", .{@tagName(phase)});
}

/// Whether a command makes device code for a device link.
fn isRelocatable(command: []const []const u8) bool {
    for (command) |word| if (common.is(word, "--device-c")) return true;
    return false;
}

/// The CPU of the host code. nvcc passes it on by macros of the host compiler, and to cudafe++ by this option.
fn cpuOf(plan: dryrun.Plan) std.elf.EM {
    for (plan.commands) |command| {
        if (phaseOf(command) != .frontend) continue;
        for (command) |word| {
            if (common.is(word, "--arm_cross_compiler")) return .AARCH64;
        }
    }
    return .X86_64;
}

/// Removes the path of the working directory from PTX: with line information, cicc writes it before the name of each
/// source, and has no option against that.
pub fn leaveDirectory(allocator: std.mem.Allocator, path: []const u8) !void {
    try leave(allocator, path, try std.process.getCwdAlloc(allocator));
}

fn leave(allocator: std.mem.Allocator, path: []const u8, directory: []const u8) !void {
    const begin = try std.mem.concat(allocator, u8, &.{ "\"", directory, "/" });
    const text = try common.read(allocator, path);
    if (std.mem.indexOf(u8, text, begin) == null) return;
    try common.write(path, try std.mem.replaceOwned(u8, allocator, text, begin, "\""));
}

/// The phase of a command; null for a command that is no phase.
pub fn phaseOf(command: []const []const u8) ?Phase {
    const program = std.fs.path.basename(command[0]);
    if (common.is(program, "cudafe++")) return .frontend;
    if (common.is(program, "cicc")) return .cicc;
    if (common.is(program, "ptxas")) return .ptxas;
    if (common.is(program, "nvlink")) return .nvlink;
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

/// The option of fatbinary for the source's name, used with line information.
pub fn ident(allocator: std.mem.Allocator, name: []const u8) ![]const u8 {
    return std.mem.concat(allocator, u8, &.{ ident_flag, name });
}

/// The module id of a source: in the form of nvcc's, and a function of the source's name in its package and of the
/// section of build.toml, because an extension may contain a source more than once, compiled with other flags.
pub fn moduleId(allocator: std.mem.Allocator, section: []const u8, name: []const u8) ![]const u8 {
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

pub const Work = struct {
    allocator: std.mem.Allocator,
    /// The path of the source in its package.
    name: []const u8 = "",
    /// The section of build.toml, unique among the objects of an extension.
    section: []const u8 = "",
    /// The value of __CUDA_ARCH_LIST__; empty for nvcc's value.
    arch_list: []const u8 = "",
    out: []const u8 = "",
    /// The file of the host stub, which cicc writes and the host compile reads.
    stub: []const u8 = "",
    /// Paths by role: `code`, and for fatbinary `sm_80`, `compute_90`.
    inputs: std.StringHashMap([]const u8),
    /// fatbinary's options for compression, in place of nvcc's; empty for nvcc's options.
    packing: std.ArrayList([]const u8),
    /// Headers that the phase may read.
    packs: Packs,

    pub fn init(allocator: std.mem.Allocator) Work {
        return .{
            .allocator = allocator,
            .inputs = std.StringHashMap([]const u8).init(allocator),
            .packing = std.ArrayList([]const u8).init(allocator),
            .packs = Packs.init(allocator),
        };
    }

    /// Reads a flag that several commands share; returns whether it was one.
    pub fn takes(self: *Work, flag: []const u8, value: []const u8) !bool {
        if (common.is(flag, "--source")) {
            self.name = value;
        } else if (common.is(flag, "--section")) {
            self.section = value;
        } else if (common.is(flag, "--arch-list")) {
            self.arch_list = value;
        } else if (common.is(flag, "--fatbinary")) {
            try self.packing.append(value);
        } else return false;
        return true;
    }

    pub fn input(self: *Work, role: []const u8) ![]const u8 {
        return self.inputs.get(role) orelse common.fail("phase: nvcc needs the input `{s}`", .{role});
    }

    /// Runs a command that may fail; returns whether it succeeded. Its messages are shown only then. `of_device`:
    /// whether it reads device code, which must not use variables of other sources.
    fn attempted(
        self: *Work,
        directory: ?[]const u8,
        words: [][]const u8,
        environment: *const std.process.EnvMap,
        of_device: bool,
    ) !bool {
        const ended = try dryrun.tried(directory, self.allocator, words, environment);
        if (ended.code != 0) return false;
        if (of_device and try shared.find(self.allocator, ended.messages, try self.input("code")) != null) return false;
        try std.io.getStdErr().writeAll(ended.messages);
        return true;
    }

    /// The beginning of the shortest input.
    fn beginning(self: *Work) ![]const u8 {
        var shortest: []const u8 = "?";
        var paths = self.inputs.valueIterator();
        while (paths.next()) |path| {
            var file = std.fs.cwd().openFile(path.*, .{}) catch |err|
                return common.fail("cannot read {s}: {s}", .{ path.*, @errorName(err) });
            defer file.close();
            const text = try self.allocator.alloc(u8, texts.longest);
            const begun = text[0..try file.readAll(text)];
            if (begun.len == 0 or std.mem.startsWith(u8, begun, texts.same)) shortest = begun;
        }
        return shortest;
    }

    pub fn preprocess(self: *Work, command: []const []const u8) ![][]const u8 {
        var editor = try Editor.init(self.allocator, command, self.arch_list);
        while (editor.next()) |word| {
            if (common.is(word, "-o")) try editor.replace(self.out) else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn frontend(self: *Work, command: []const []const u8, module_id: []const u8) ![][]const u8 {
        var editor = try Editor.init(self.allocator, command, self.arch_list);
        while (editor.next()) |word| {
            if (try editor.keepShared(word, module_id, self.name, try self.input("code"))) continue;
            if (common.is(word, "--gen_c_file_name")) {
                try editor.replace(self.out);
            } else if (common.is(word, "--stub_file_name")) {
                try editor.replace(stub_name);
            } else try editor.keep(word);
        }
        return editor.words.items;
    }

    fn cicc(self: *Work, command: []const []const u8, module_id: []const u8, scratch: []const u8) ![][]const u8 {
        var editor = try Editor.init(self.allocator, command, self.arch_list);
        while (editor.next()) |word| {
            if (try editor.keepShared(word, module_id, self.name, try self.input("code"))) continue;
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

    /// The command of a half of cicc, made from the command of the whole.
    fn half(self: *Work, whole: []const []const u8, part: halves.Half, environment: *std.process.EnvMap) ![][]const u8 {
        return halves.of(self.allocator, whole, part, try self.input("code"), self.out, environment);
    }

    fn ptxas(self: *Work, command: []const []const u8) ![][]const u8 {
        var editor = try Editor.init(self.allocator, command, self.arch_list);
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
        var editor = try Editor.init(self.allocator, command, self.arch_list);
        while (editor.next()) |word| {
            if (std.mem.startsWith(u8, word, "--create=")) {
                try editor.words.append(try std.mem.concat(self.allocator, u8, &.{ "--create=", scratch }));
            } else if (std.mem.startsWith(u8, word, "--embedded-fatbin=")) {
                // Omitted: the same as text, for the host compiler.
            } else if (std.mem.startsWith(u8, word, ident_flag)) {
                try editor.words.append(try ident(self.allocator, self.name));
            } else if (std.mem.startsWith(u8, word, "--image")) {
                try editor.words.append(try self.image(word));
            } else try editor.keep(word);
        }
        return self.compressed(editor.words.items);
    }

    /// A command of fatbinary with our options for compression, if there are any.
    pub fn compressed(self: *Work, command: [][]const u8) ![][]const u8 {
        if (self.packing.items.len == 0) return command;
        var words = std.ArrayList([]const u8).init(self.allocator);
        var has_value = false;
        for (command, 0..) |word, i| {
            const is_value = has_value and word.len > 0 and word[0] != '-';
            const chooses = i > 0 and word.len > 1 and word[0] == '-' and
                std.mem.startsWith(u8, std.mem.trimLeft(u8, word, "-"), "compress");
            has_value = chooses and std.mem.endsWith(u8, word, "-mode");
            if (!is_value and !chooses) try words.append(word);
        }
        try words.appendSlice(self.packing.items);
        return words.items;
    }

    /// `--image3=kind=elf,sm=80,file=...` with our file.
    pub fn image(self: *Work, word: []const u8) ![]const u8 {
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
        var editor = try Editor.init(self.allocator, command, self.arch_list);
        while (editor.next()) |word| {
            if (common.is(word, "-o")) {
                try editor.replace(self.out);
            } else if (std.mem.endsWith(u8, word, ".cudafe1.cpp")) {
                try editor.words.append("-iquote");
                try editor.words.append(std.fs.path.dirname(self.stub) orelse ".");
                try editor.words.append(try self.input("code"));
            } else try editor.keep(word);
        }
        // Debug sections contain the compiler's working directory.
        try editor.words.append("-fdebug-compilation-dir=.");
        return editor.words.items;
    }

    /// The symbol at the start of the code of all architectures.
    pub fn symbol(self: *Work) ![]const u8 {
        return std.mem.concat(self.allocator, u8, &.{ "fatbin", try moduleId(self.allocator, self.section, self.name) });
    }
};

test "the compression of fatbinary" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const allocator = arena.allocator();
    var work = Work.init(allocator);
    const command = [_][]const u8{
        "bin/fatbinary", "-64", "-compress-mode", "size", "--compress=true", "--create=a", "-compress-all", "--image3=kind=elf,sm=80,file=a", "--device-c",
    };
    const own = try work.compressed(try allocator.dupe([]const u8, &command));
    try std.testing.expectEqual(command.len, own.len);
    try std.testing.expect(try work.takes("--fatbinary", "--compress-all"));
    try std.testing.expect(try work.takes("--fatbinary", "--compress-mode=speed"));
    const ours = try std.mem.join(allocator, " ", try work.compressed(try allocator.dupe([]const u8, &command)));
    try std.testing.expectEqualStrings(
        "bin/fatbinary -64 --create=a --image3=kind=elf,sm=80,file=a --device-c --compress-all --compress-mode=speed",
        ours,
    );
}
