//! The two programs of which cicc consists: the front end, which makes bitcode of text, and what makes PTX of that.
//!
//! cicc names both itself, up to CUDA 13.2. That of 13.5 has them and names none; they are called as those of 13.2 are, for
//! which all words below were looked at with `-dryrun`. tests/e2e compares the PTX with that of cicc as a whole.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");

pub const Half = enum {
    frontend,
    compile,

    fn word(self: Half) []const u8 {
        return if (self == .frontend) "-lgenfe" else "-libnvvm";
    }
};

/// What a word of cicc is for its front end and for the rest; null if that does without.
const Meaning = struct { word: []const u8, frontend: ?[]const u8 = null, compile: ?[]const u8 = null };

/// Words that begin with two dashes are for the front end, unless they stand here.
const meanings = [_]Meaning{
    .{ .word = "--device-c", .frontend = "--device-c", .compile = "--device-c" },
    .{ .word = "--promote_warnings", .frontend = "--promote_warnings", .compile = "-Werror" },
    .{ .word = "-O0", .frontend = "--device-O=0", .compile = "-opt=0" },
    .{ .word = "-O1", .frontend = "--device-O=1", .compile = "-opt=1" },
    .{ .word = "-O2", .frontend = "--device-O=2", .compile = "-opt=2" },
    .{ .word = "-O3", .frontend = "--device-O=3", .compile = "-opt=3" },
    .{ .word = "-fast-math", .compile = "-fast-math" },
    .{ .word = "-fmad=0", .compile = "-fma=0" },
    .{ .word = "-fmad=1", .compile = "-fma=1" },
    .{ .word = "-ftz=0", .compile = "-ftz=0" },
    .{ .word = "-ftz=1", .compile = "-ftz=1" },
    .{ .word = "-g", .frontend = "--device-debug", .compile = "-g" },
    .{ .word = "-generate-line-info", .frontend = "--generate-line-info", .compile = "-generate-line-info" },
    .{ .word = "-kernel-params-are-restrict", .frontend = "--kernel-params-are-restrict", .compile = "-restrict" },
    .{ .word = "-m64", .frontend = "--m64" },
    .{ .word = "-prec_div=0", .compile = "-prec-div=0" },
    .{ .word = "-prec_div=1", .compile = "-prec-div=1" },
    .{ .word = "-prec_sqrt=0", .compile = "-prec-sqrt=0" },
    .{ .word = "-prec_sqrt=1", .compile = "-prec-sqrt=1" },
    .{ .word = "-show-src", .compile = "-show-src" },
    .{ .word = "-tused", .frontend = "-tused" },
    .{ .word = "-w", .frontend = "-w", .compile = "-w" },
};

/// The first architecture whose bitcode is of the newer kind, which has 128-bit floating-point numbers.
const newer = 100;
/// What the name of an architecture begins with.
const virtual = "compute_";

/// The command of a half of cicc, of that of the whole; `in` and `out` are in place of what it reads and writes.
pub fn of(
    allocator: std.mem.Allocator,
    whole: []const []const u8,
    half: Half,
    in: []const u8,
    out: []const u8,
    environment: *std.process.EnvMap,
) ![][]const u8 {
    const found = try dryrun.program(allocator, whole[0], environment.get("PATH") orelse "");
    const program = try dryrun.absolute(allocator, found);
    const told = try asked(allocator, program, whole[1..], half, environment) orelse try known(allocator, whole[1..], half);
    var words = std.ArrayList([]const u8).init(allocator);
    try words.append(program);
    var at: usize = 0;
    while (at < told.len) : (at += 1) {
        const word = told[at];
        if (common.is(word, "-o")) {
            try words.appendSlice(&.{ word, out });
            at += 1;
        } else if (std.mem.endsWith(u8, word, ".bc")) {
            try words.append(in);
        } else if (!common.is(word, "-keep") and !common.is(word, "-v")) try words.append(word);
    }
    return words.items;
}

/// What cicc says itself, after the program; null if it does not. What `NVVMCCWIZ` has to be stands in cicc.
fn asked(
    allocator: std.mem.Allocator,
    program: []const u8,
    words: []const []const u8,
    half: Half,
    environment: *std.process.EnvMap,
) !?[][]const u8 {
    try environment.put("NVVMCCWIZ", "553282");
    defer environment.remove("NVVMCCWIZ");
    var call = std.ArrayList([]const u8).init(allocator);
    try call.appendSlice(&.{ program, "-dryrun", "-keep" });
    try call.appendSlice(words);
    const said = std.process.Child.run(.{
        .allocator = allocator,
        .argv = call.items,
        .env_map = environment,
        .max_output_bytes = 1 << 30,
    }) catch |err| return common.fail("cannot run {s}: {s}", .{ program, @errorName(err) });
    var lines = std.mem.splitScalar(u8, try std.mem.concat(allocator, u8, &.{ said.stdout, "\n", said.stderr }), '\n');
    while (lines.next()) |line| {
        const told = try dryrun.split(allocator, line, environment);
        if (told.len > 1 and common.is(told[1], half.word())) return told[1..];
    }
    return null;
}

/// What it would say, with `text.bc` for what is read or written between the halves.
fn known(allocator: std.mem.Allocator, words: []const []const u8, half: Half) ![][]const u8 {
    var arch: []const u8 = "";
    var text: []const u8 = "text.bc";
    var rest = std.ArrayList([]const u8).init(allocator);
    var at: usize = 0;
    // A word without dashes is the value of that before it, or the text.
    var is_value = false;
    while (at < words.len) : (at += 1) {
        const word = words[at];
        const has_more = at + 1 < words.len;
        if (word.len == 0 or word[0] != '-') {
            if (std.mem.endsWith(u8, word, ".ii")) {
                if (half == .frontend) text = word;
            } else if (!is_value) {
                return unknown(word);
            } else if (half == .frontend) try rest.append(word);
            is_value = false;
            continue;
        }
        is_value = false;
        if (common.is(word, "-o")) {
            at += 1;
        } else if (common.is(word, "-arch") and has_more) {
            at += 1;
            arch = words[at];
        } else if (common.is(word, "-maxreg") and has_more) {
            at += 1;
            if (half == .compile) try rest.append(try std.mem.concat(allocator, u8, &.{ "-maxreg=", words[at] }));
        } else if (std.mem.startsWith(u8, word, "-jump-table-density=")) {
            if (half == .compile) try rest.append(word);
        } else if (meaning(word)) |one| {
            if (if (half == .frontend) one.frontend else one.compile) |other| try rest.append(other);
        } else if (std.mem.startsWith(u8, word, "--")) {
            is_value = true;
            if (half == .frontend) try rest.append(word);
        } else return unknown(word);
    }
    if (!std.mem.startsWith(u8, arch, virtual)) return unknown(arch);
    const number = std.fmt.parseInt(u32, std.mem.trimRight(u8, arch[virtual.len..], "af"), 10) catch return unknown(arch);
    const version = if (number < newer) "-nvvm-version=nvvm70" else "-nvvm-version=nvvm-latest";
    var told = std.ArrayList([]const u8).init(allocator);
    if (half == .frontend) {
        try told.appendSlice(&.{ half.word(), text, "-o", "text.bc", "--emit-llvm-bc" });
        try told.appendSlice(rest.items);
        if (number < newer) try told.append("--no-device-float128");
        try told.appendSlice(&.{ "--nv_arch", arch, version });
    } else {
        try told.appendSlice(&.{ half.word(), text, "-o", "text.ptx", version });
        try told.appendSlice(rest.items);
        try told.append(try std.mem.concat(allocator, u8, &.{ "-arch=", arch }));
    }
    return told.items;
}

fn meaning(word: []const u8) ?Meaning {
    for (meanings) |one| if (common.is(one.word, word)) return one;
    return null;
}

fn unknown(word: []const u8) common.Failure {
    return common.fail("cicc runs no front end of its own with {s}; compile in one step", .{word});
}

test "the halves of a cicc that does not say them" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const whole = [_][]const u8{
        "--c++17",     "--orig_src_file_name", "a.cu",    "-arch", "compute_90a", "-m64",
        "-ftz=1",      "-prec_div=0",          "-fmad=1", "-g",    "-maxreg",     "32",
        "--diag_warn", "1",                    "in.ii",   "-o",    "out.ptx",
    };
    const frontend = try known(arena.allocator(), &whole, .frontend);
    try std.testing.expectEqualStrings(
        "-lgenfe in.ii -o text.bc --emit-llvm-bc --c++17 --orig_src_file_name a.cu --m64 --device-debug --diag_warn 1 " ++
            "--no-device-float128 --nv_arch compute_90a -nvvm-version=nvvm70",
        try std.mem.join(arena.allocator(), " ", frontend),
    );
    const newest = whole[0..4].* ++ [_][]const u8{"compute_120f"} ++ whole[5..].*;
    try std.testing.expectEqualStrings(
        "-libnvvm text.bc -o text.ptx -nvvm-version=nvvm-latest -ftz=1 -prec-div=0 -fma=1 -g -maxreg=32 -arch=compute_120f",
        try std.mem.join(arena.allocator(), " ", try known(arena.allocator(), &newest, .compile)),
    );
}
