//! Links an extension and makes its types its own.
//!
//!   link [--types FILE --id FILE [--text FILE]...] -- LINKER ARGUMENT...
//!
//! Before the linker runs, objects are changed (object.zig): with --types the names of the project's types, and always
//! the visibility of PyInit functions. `--types` lists the names of types that other libraries know, `--id` has the id
//! of the kernel, and each `--text` is a file of the project. A changed object is a file beside the library while the
//! linker runs; messages name the original path.
const std = @import("std");
const common = @import("common");
const defined = @import("defined.zig");
const object = @import("object.zig");
const types = @import("types.zig");

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const first = arguments.next() orelse "";
    var names: ?types.Names = null;
    if (common.is(first, "--types")) {
        names = try types.Names.read(allocator, try common.read(allocator, try arguments.value("--types")));
        if (!common.is(arguments.next() orelse "", "--id")) return common.fail("link: --id is missing", .{});
        names.?.tag = std.mem.trim(u8, try common.read(allocator, try arguments.value("--id")), " \n");
        while (arguments.next()) |flag| {
            if (common.is(flag, "--")) break;
            if (!common.is(flag, "--text")) return common.fail("link: no such flag: {s}", .{flag});
            try defined.add(allocator, try common.read(allocator, try arguments.value(flag)), &names.?.defined);
        }
    } else if (!common.is(first, "--")) return common.fail("link: --types is missing", .{});
    const command = try allocator.dupe([]const u8, arguments.items[arguments.at..]);
    const directory = try std.fmt.allocPrint(allocator, "{s}.objects/", .{try output(command)});
    defer std.fs.cwd().deleteTree(directory) catch {};
    for (command) |*word| {
        if (std.mem.endsWith(u8, word.*, ".o")) try change(allocator, word, directory, if (names) |*all| all else null);
    }
    try link(allocator, command, directory);
}

/// The output of a linker's command.
fn output(command: []const []const u8) ![]const u8 {
    for (command, 0..) |word, i| {
        if (common.is(word, "-o") and i + 1 < command.len) return command[i + 1];
    }
    return common.fail("link: the linker's command has no -o", .{});
}

/// Replaces the path of an object by that of a changed object, if it needs a change.
fn change(allocator: std.mem.Allocator, path: *[]const u8, directory: []const u8, names: ?*const types.Names) !void {
    var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
    defer arena.deinit();
    const bytes = try common.read(arena.allocator(), path.*);
    const changed = object.rewritten(arena.allocator(), bytes, names) catch |err| switch (err) {
        error.Malformed => return common.fail("{s}: truncated or malformed object file", .{path.*}),
        else => return err,
    } orelse return;
    path.* = try std.mem.concat(allocator, u8, &.{ directory, path.* });
    try std.fs.cwd().makePath(std.fs.path.dirname(path.*).?);
    try common.write(path.*, changed);
}

/// Runs the linker; exits with its exit code if that is not 0.
fn link(allocator: std.mem.Allocator, command: []const []const u8, directory: []const u8) !void {
    var quoted = std.ArrayList(u8).init(allocator);
    for (command[2..]) |word| {
        try quoted.append('"');
        for (word) |c| {
            if (c == '"' or c == '\\') try quoted.append('\\');
            try quoted.append(c);
        }
        try quoted.appendSlice("\"\n");
    }
    try std.fs.cwd().makePath(directory);
    const list = try std.mem.concat(allocator, u8, &.{ directory, "arguments" });
    try common.write(list, quoted.items);
    const from = try std.mem.concat(allocator, u8, &.{ "@", list });
    const result = std.process.Child.run(.{
        .allocator = allocator,
        .argv = &.{ command[0], command[1], from },
        .max_output_bytes = 1 << 30,
    }) catch |err| return common.fail("cannot run {s}: {s}", .{ command[0], @errorName(err) });
    try std.io.getStdErr().writeAll(try std.mem.replaceOwned(u8, allocator, result.stderr, directory, ""));
    if (result.term == .Exited and result.term.Exited == 0) return;
    std.fs.cwd().deleteTree(directory) catch {};
    if (result.term != .Exited) return common.fail("the linker was killed by a signal", .{});
    std.process.exit(result.term.Exited);
}

pub fn main() u8 {
    return common.run(run, 1);
}

test {
    _ = defined;
    _ = types;
}
