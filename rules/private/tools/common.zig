//! The common part of the programs that our Bazel actions run: static, without libc, independent of host tools. Each
//! program is built from its own directory and this file only, so an edit of a program changes the keys of its own
//! actions and of no others.
//!
//! An argument `@FILE` stands for the lines of FILE. An error is one line on stderr that begins with `step: `.
const std = @import("std");

/// The magic of a bundle of code objects for AMD GPUs, and the prefix of its entries' names: the layout of
/// clang-offload-bundler, documented in clang/docs/ClangOffloadBundler.rst of LLVM.
pub const hip_bundle = struct {
    pub const magic = "__CLANG_OFFLOAD_BUNDLE__";
    /// The text before the architecture in the name of an entry.
    pub const prefix = "hipv4-amdgcn-amd-amdhsa--";
};

/// The error that `fail` returns.
pub const Failure = error{Failed};

/// Prints a line to stderr and returns the error to propagate.
pub fn fail(comptime format: []const u8, values: anytype) Failure {
    std.io.getStdErr().writer().print("step: " ++ format ++ "\n", values) catch {};
    return error.Failed;
}

/// The arguments of a program, read one after another.
pub const Arguments = struct {
    items: []const []const u8,
    at: usize = 0,

    pub fn next(self: *Arguments) ?[]const u8 {
        if (self.at == self.items.len) return null;
        defer self.at += 1;
        return self.items[self.at];
    }

    /// The value of a flag.
    pub fn value(self: *Arguments, flag: []const u8) Failure![]const u8 {
        return self.next() orelse fail("{s} needs a value", .{flag});
    }
};

pub fn is(a: []const u8, b: []const u8) bool {
    return std.mem.eql(u8, a, b);
}

/// Whether a word is in a list.
pub fn isAny(word: []const u8, words: []const []const u8) bool {
    for (words) |other| if (is(word, other)) return true;
    return false;
}

/// The whole content of a file.
pub fn read(allocator: std.mem.Allocator, path: []const u8) ![]u8 {
    return std.fs.cwd().readFileAlloc(allocator, path, std.math.maxInt(usize)) catch |err|
        fail("cannot read {s}: {s}", .{ path, @errorName(err) });
}

/// Writes a whole file.
pub fn write(path: []const u8, content: []const u8) !void {
    std.fs.cwd().writeFile(.{ .sub_path = path, .data = content }) catch |err|
        return fail("cannot write {s}: {s}", .{ path, @errorName(err) });
}

/// Whether a word before a quote is the prefix of a raw string.
pub fn isRaw(word: []const u8) bool {
    return isAny(word, &.{ "R", "LR", "uR", "UR", "u8R" });
}

/// The length of a raw string from its first quote on; null for other strings and for one without an end.
pub fn rawLength(text: []const u8) ?usize {
    const open = std.mem.indexOfAnyPos(u8, text, 1, "( )\\\n") orelse return null;
    if (text[open] != '(' or open - 1 > 16) return null;
    var buffer: [18]u8 = undefined;
    const close = std.fmt.bufPrint(&buffer, "){s}\"", .{text[1..open]}) catch return null;
    return (std.mem.indexOfPos(u8, text, open, close) orelse return null) + close.len;
}

/// Runs `work` with the program's arguments; returns the exit code, `failed` after an error.
pub fn run(comptime work: anytype, failed: u8) u8 {
    var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
    const allocator = arena.allocator();
    var arguments = called(allocator) catch return failed;
    work(allocator, &arguments) catch |err| {
        if (err != error.Failed) fail("{s}", .{@errorName(err)}) catch {};
        return failed;
    };
    return 0;
}

fn called(allocator: std.mem.Allocator) !Arguments {
    var raw = try std.process.argsWithAllocator(allocator);
    _ = raw.next();
    var arguments = std.ArrayList([]const u8).init(allocator);
    while (raw.next()) |argument| try arguments.append(argument);
    return .{ .items = try expand(allocator, arguments.items) };
}

/// Replaces each argument `@FILE` by the lines of FILE.
fn expand(allocator: std.mem.Allocator, arguments: []const []const u8) ![]const []const u8 {
    var items = std.ArrayList([]const u8).init(allocator);
    for (arguments) |argument| {
        if (argument.len > 1 and argument[0] == '@') {
            var lines = std.mem.splitScalar(u8, try read(allocator, argument[1..]), '\n');
            while (lines.next()) |line| {
                if (line.len > 0 or lines.peek() != null) try items.append(line);
            }
        } else try items.append(argument);
    }
    return items.items;
}

test "a file of arguments" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var directory = std.testing.tmpDir(.{});
    defer directory.cleanup();
    try directory.dir.writeFile(.{ .sub_path = "arguments", .data = "a b\n\n@c\n" });
    const path = try directory.dir.realpathAlloc(a, "arguments");
    const found = try expand(a, &.{ "x", try std.mem.concat(a, u8, &.{ "@", path }), "@", "y" });
    const expected = [_][]const u8{ "x", "a b", "", "@c", "@", "y" };
    try std.testing.expectEqual(expected.len, found.len);
    for (expected, found) |argument, other| try std.testing.expectEqualStrings(argument, other);
}
