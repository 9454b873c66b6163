//! One nvcc compile, run as the commands that `nvcc --dryrun` names, with one change that no flag of nvcc offers:
//! the absolute path of the source, which nvcc hashes into symbol names, is replaced by a name that is the same in
//! every directory and on every machine. And since nvcc names its own headers by absolute paths, each
//! `-ffile-prefix-map` is given for the absolute spelling too.
const std = @import("std");
const main = @import("main.zig");

const prefix = "#$ ";
const path_flag = "--orig_src_path_name \"";
const map_flag = "-ffile-prefix-map=";

pub fn run(allocator: std.mem.Allocator, arguments: *main.Arguments) !void {
    var name: []const u8 = "";
    while (arguments.next()) |flag| {
        if (main.is(flag, "--")) break;
        if (!main.is(flag, "--source")) return main.fail("nvcc: no such flag: {s}", .{flag});
        name = try arguments.value(flag);
    }
    const command = arguments.items[arguments.at..];
    if (command.len == 0) return main.fail("nvcc: no command", .{});
    var dryrun = std.ArrayList([]const u8).init(allocator);
    try dryrun.append(command[0]);
    try dryrun.append("--dryrun");
    const directory = try std.process.getCwdAlloc(allocator);
    for (command[1..]) |argument| {
        if (std.mem.startsWith(u8, argument, map_flag)) {
            const mapping = argument[map_flag.len..];
            try dryrun.append(try std.mem.concat(allocator, u8, &.{ map_flag, directory, "/", mapping }));
            try dryrun.append("-Xcompiler");
        }
        try dryrun.append(argument);
    }

    var environment = try std.process.getEnvMap(allocator);
    const planned = std.process.Child.run(.{
        .allocator = allocator,
        .argv = dryrun.items,
        .env_map = &environment,
        .max_output_bytes = 1 << 30,
    }) catch |err| return main.fail("cannot run {s}: {s}", .{ command[0], @errorName(err) });
    if (planned.term != .Exited or planned.term.Exited != 0) {
        try std.io.getStdErr().writeAll(planned.stderr);
        return main.fail("nvcc refused its arguments", .{});
    }
    var lines = std.mem.splitScalar(u8, planned.stderr, '\n');
    while (lines.next()) |line| {
        if (!std.mem.startsWith(u8, line, prefix)) {
            if (line.len > 0) try std.io.getStdErr().writer().print("{s}\n", .{line});
            continue;
        }
        const text = line[prefix.len..];
        if (assignment(text)) |at| {
            try environment.put(text[0..at], text[at + 1 ..]);
        } else if (std.mem.startsWith(u8, text, "rm ")) {
            std.fs.cwd().deleteFile(text["rm ".len..]) catch {};
        } else {
            try execute(allocator, try canonical(allocator, text, name), &environment);
        }
    }
}

/// Where the `=` of `NAME=VALUE` is; null for a command.
fn assignment(text: []const u8) ?usize {
    for (text, 0..) |c, i| {
        if (c == '=') return if (i > 0) i else null;
        if (!std.ascii.isAlphanumeric(c) and c != '_') return null;
    }
    return null;
}

fn canonical(allocator: std.mem.Allocator, text: []const u8, name: []const u8) ![]const u8 {
    const flag = std.mem.indexOf(u8, text, path_flag) orelse return text;
    const start = flag + path_flag.len;
    const end = std.mem.indexOfScalarPos(u8, text, start, '"') orelse
        return main.fail("nvcc: a dry run that this program does not understand: {s}", .{text});
    return std.mem.concat(allocator, u8, &.{ text[0..start], name, text[end..] });
}

/// Runs a command line as nvcc itself does: through the POSIX shell.
fn execute(allocator: std.mem.Allocator, text: []const u8, environment: *const std.process.EnvMap) !void {
    var child = std.process.Child.init(&.{ "/bin/sh", "-c", text }, allocator);
    child.env_map = environment;
    child.stdin_behavior = .Ignore;
    const term = child.spawnAndWait() catch |err| return main.fail("cannot run /bin/sh: {s}", .{@errorName(err)});
    switch (term) {
        .Exited => |code| if (code != 0) std.process.exit(code),
        else => return main.fail("killed: {s}", .{text}),
    }
}
