//! One nvcc compile, run as the commands that `nvcc --dryrun` names, with one change that no flag of nvcc offers:
//! the absolute path of the source, which nvcc hashes into symbol names, is replaced by a name that is the same in
//! every directory and on every machine. And since nvcc names its own headers by absolute paths, each
//! `-ffile-prefix-map` is given for the absolute spelling too.
const std = @import("std");
const main = @import("main.zig");

const prefix = "#$ ";
const path_flag = "--orig_src_path_name";
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
            try execute(allocator, name, try words(allocator, text, &environment), &environment);
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

/// The words of a command as nvcc writes it for a shell, which never sees it: nothing in a flag is expanded or run.
/// Words stand apart by blanks; double quotes hold a word together; a backslash frees the quote or backslash behind it.
/// Only a word that begins with `$NAME`, as nvcc writes the way to cicc, takes that variable's value.
fn words(allocator: std.mem.Allocator, text: []const u8, environment: *const std.process.EnvMap) ![][]const u8 {
    var found = std.ArrayList([]const u8).init(allocator);
    var word = std.ArrayList(u8).init(allocator);
    var quoted = false;
    var begun = false;
    var i: usize = 0;
    while (i < text.len) : (i += 1) {
        const c = text[i];
        if (c == '"') {
            quoted = !quoted;
            begun = true;
        } else if (c == '\\' and i + 1 < text.len and (text[i + 1] == '"' or text[i + 1] == '\\')) {
            i += 1;
            try word.append(text[i]);
        } else if (c == ' ' and !quoted) {
            if (begun or word.items.len > 0) try found.append(try word.toOwnedSlice());
            begun = false;
        } else if (c == '$' and word.items.len == 0) {
            var end = i + 1;
            while (end < text.len and (std.ascii.isAlphanumeric(text[end]) or text[end] == '_')) end += 1;
            try word.appendSlice(environment.get(text[i + 1 .. end]) orelse text[i..end]);
            i = end - 1;
        } else try word.append(c);
    }
    if (quoted) return main.fail("nvcc: a dry run that this program does not understand: {s}", .{text});
    if (begun or word.items.len > 0) try found.append(try word.toOwnedSlice());
    return found.items;
}

/// Runs one command; its program is looked up in the PATH that the dry run has set.
fn execute(
    allocator: std.mem.Allocator,
    name: []const u8,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
) !void {
    for (command, 0..) |word, i| {
        if (main.is(word, path_flag) and i + 1 < command.len) command[i + 1] = name;
    }
    command[0] = try program(allocator, command[0], environment.get("PATH") orelse "");
    var child = std.process.Child.init(command, allocator);
    child.env_map = environment;
    child.stdin_behavior = .Ignore;
    const term = child.spawnAndWait() catch |err| return main.fail("cannot run {s}: {s}", .{ command[0], @errorName(err) });
    switch (term) {
        .Exited => |code| if (code != 0) std.process.exit(code),
        else => return main.fail("killed: {s}", .{command[0]}),
    }
}

fn program(allocator: std.mem.Allocator, name: []const u8, path: []const u8) ![]const u8 {
    if (std.mem.indexOfScalar(u8, name, '/') != null) return name;
    var directories = std.mem.splitScalar(u8, path, ':');
    while (directories.next()) |directory| {
        const candidate = try std.fs.path.join(allocator, &.{ directory, name });
        std.fs.cwd().access(candidate, .{}) catch continue;
        return candidate;
    }
    return main.fail("nvcc: {s} is not beside it", .{name});
}
