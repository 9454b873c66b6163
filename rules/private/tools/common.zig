//! What the programs that our Bazel actions run have in common besides compilers: static, without libc, no host tool
//! needed. It imports none of them, and each is built of its own directory and this file alone: an edit of one changes
//! the keys of its own actions and of no others.
//!
//! An argument `@FILE` stands for the lines of FILE. Errors go to stderr as one line that begins with `step: `.
const std = @import("std");

/// The words that begin a bundle of code objects for AMD GPUs, and the name of each entry that holds one: the layout of
/// clang-offload-bundler, told in clang/docs/ClangOffloadBundler.rst of LLVM.
pub const hip_bundle = struct {
    pub const magic = "__CLANG_OFFLOAD_BUNDLE__";
    /// What stands before the architecture in the name of an entry.
    pub const prefix = "hipv4-amdgcn-amd-amdhsa--";
};

/// What is wrong with a call, for `fail`.
pub const Failure = error{Failed};

/// Prints one line to stderr and returns the error to propagate.
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

    /// The value that belongs to a flag.
    pub fn value(self: *Arguments, flag: []const u8) Failure![]const u8 {
        return self.next() orelse fail("{s} needs a value", .{flag});
    }
};

pub fn is(a: []const u8, b: []const u8) bool {
    return std.mem.eql(u8, a, b);
}

/// Whether a word is one of some.
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

/// Whether a word before a quote makes that begin a raw string.
pub fn isRaw(word: []const u8) bool {
    for ([_][]const u8{ "R", "LR", "uR", "UR", "u8R" }) |one| if (is(word, one)) return true;
    return false;
}

/// The length of a raw string from its first quote on; null if it is none, or has no end.
pub fn rawLength(text: []const u8) ?usize {
    const open = std.mem.indexOfAnyPos(u8, text, 1, "( )\\\n") orelse return null;
    if (text[open] != '(' or open - 1 > 16) return null;
    var buffer: [18]u8 = undefined;
    const close = std.fmt.bufPrint(&buffer, "){s}\"", .{text[1..open]}) catch return null;
    return (std.mem.indexOfPos(u8, text, open, close) orelse return null) + close.len;
}

/// Does the work of a program with the arguments that it was called with; the exit code, which is `failed` if it fails.
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
    var given = std.ArrayList([]const u8).init(allocator);
    while (raw.next()) |argument| try given.append(argument);
    return .{ .items = try expand(allocator, given.items) };
}

/// Puts the lines of files in place of the arguments that name these.
fn expand(allocator: std.mem.Allocator, given: []const []const u8) ![]const []const u8 {
    var items = std.ArrayList([]const u8).init(allocator);
    for (given) |argument| {
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
    var place = std.testing.tmpDir(.{});
    defer place.cleanup();
    try place.dir.writeFile(.{ .sub_path = "arguments", .data = "a b\n\n@c\n" });
    const path = try place.dir.realpathAlloc(a, "arguments");
    const found = try expand(a, &.{ "x", try std.mem.concat(a, u8, &.{ "@", path }), "@", "y" });
    const expected = [_][]const u8{ "x", "a b", "", "@c", "@", "y" };
    try std.testing.expectEqual(expected.len, found.len);
    for (expected, found) |one, other| try std.testing.expectEqualStrings(one, other);
}
