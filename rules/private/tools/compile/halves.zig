//! The two programs in cicc: the front end, which compiles text to bitcode, and libnvvm, which compiles bitcode to PTX.
//!
//! Up to CUDA 13.2, cicc prints both commands itself. cicc of 13.5 has both programs and does not print them; they are
//! called like those of 13.2, for which all words below were compared with `-dryrun`. tests/e2e compares the PTX with
//! that of the whole cicc.
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

/// The words for the front end and for libnvvm that correspond to a word of cicc; null if there is none.
const Meaning = struct { word: []const u8, frontend: ?[]const u8 = null, compile: ?[]const u8 = null };

/// Other words that begin with two dashes are for the front end.
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

/// The first architecture with the newer kind of bitcode, which has 128-bit floating-point numbers.
const newer = 100;
/// The prefix of a virtual architecture.
const virtual = "compute_";

/// The command of a half of cicc, made from the command of the whole; `in` and `out` replace its input and output.
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
    const arguments = try asked(allocator, program, whole[1..], half, environment) orelse try known(allocator, whole[1..], half);
    var words = std.ArrayList([]const u8).init(allocator);
    try words.append(program);
    var at: usize = 0;
    while (at < arguments.len) : (at += 1) {
        const word = arguments[at];
        if (common.is(word, "-o")) {
            try words.appendSlice(&.{ word, out });
            at += 1;
        } else if (std.mem.endsWith(u8, word, ".bc")) {
            try words.append(in);
        } else if (!common.is(word, "-keep") and !common.is(word, "-v")) try words.append(word);
    }
    return words.items;
}

/// The arguments that cicc itself prints; null if it prints none. The value of `NVVMCCWIZ` is a constant in cicc.
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
    const result = std.process.Child.run(.{
        .allocator = allocator,
        .argv = call.items,
        .env_map = environment,
        .max_output_bytes = 1 << 30,
    }) catch |err| return common.fail("cannot run {s}: {s}", .{ program, @errorName(err) });
    var lines = std.mem.splitScalar(u8, try std.mem.concat(allocator, u8, &.{ result.stdout, "\n", result.stderr }), '\n');
    while (lines.next()) |line| {
        const printed = try dryrun.split(allocator, line, environment);
        if (printed.len > 1 and common.is(printed[1], half.word())) return printed[1..];
    }
    return null;
}

/// The arguments that cicc would print, with `text.bc` for the file between the halves.
fn known(allocator: std.mem.Allocator, words: []const []const u8, half: Half) ![][]const u8 {
    var arch: []const u8 = "";
    var text: []const u8 = "text.bc";
    var rest = std.ArrayList([]const u8).init(allocator);
    var at: usize = 0;
    // A word without dashes is the value of the word before it, or the text.
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
        } else if (meaning(word)) |translation| {
            if (if (half == .frontend) translation.frontend else translation.compile) |other| try rest.append(other);
        } else if (std.mem.startsWith(u8, word, "--")) {
            is_value = true;
            if (half == .frontend) try rest.append(word);
        } else return unknown(word);
    }
    if (!std.mem.startsWith(u8, arch, virtual)) return unknown(arch);
    const number = std.fmt.parseInt(u32, std.mem.trimRight(u8, arch[virtual.len..], "af"), 10) catch return unknown(arch);
    const version = if (number < newer) "-nvvm-version=nvvm70" else "-nvvm-version=nvvm-latest";
    var arguments = std.ArrayList([]const u8).init(allocator);
    if (half == .frontend) {
        try arguments.appendSlice(&.{ half.word(), text, "-o", "text.bc", "--emit-llvm-bc" });
        try arguments.appendSlice(rest.items);
        if (number < newer) try arguments.append("--no-device-float128");
        try arguments.appendSlice(&.{ "--nv_arch", arch, version });
    } else {
        try arguments.appendSlice(&.{ half.word(), text, "-o", "text.ptx", version });
        try arguments.appendSlice(rest.items);
        try arguments.append(try std.mem.concat(allocator, u8, &.{ "-arch=", arch }));
    }
    return arguments.items;
}

fn meaning(word: []const u8) ?Meaning {
    for (meanings) |candidate| if (common.is(candidate.word, word)) return candidate;
    return null;
}

fn unknown(word: []const u8) common.Failure {
    return common.fail("cicc's front end is not supported with {s}; build with `--cuda-compile monolithic`", .{word});
}

test "the halves of a cicc that does not print them" {
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
