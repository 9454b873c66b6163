//! The commands that nvcc would run, by `nvcc --dryrun`, and the functions that run them.
const std = @import("std");
const common = @import("common");
const landlock = @import("landlock.zig");

const prefix = "#$ ";
const map_flag = "-ffile-prefix-map=";

pub const Plan = struct {
    /// The words of each command in nvcc's order, without the deletions at the end.
    commands: []const [][]const u8,
    /// Names of files that nvcc deletes at the end.
    temporary: []const []const u8,
    environment: std.process.EnvMap,
};

/// Runs nvcc's dry run. nvcc names its own headers by absolute paths, so each `-ffile-prefix-map` is repeated for the
/// absolute path. Its other messages, warnings about flags, are shown only if `loud`: once is enough.
pub fn ask(allocator: std.mem.Allocator, command: []const []const u8, loud: bool) !Plan {
    if (command.len == 0) return common.fail("nvcc: the command is missing", .{});
    var words = std.ArrayList([]const u8).init(allocator);
    try words.append(command[0]);
    try words.append("--dryrun");
    const directory = try std.process.getCwdAlloc(allocator);
    if (std.mem.indexOfAny(u8, directory, " ,") != null)
        return common.fail("nvcc cannot run in {s}, because of the blank or comma in its name; choose another directory for " ++
            "Bazel with RULES_TORCH_KERNELS_OUTPUT_USER_ROOT or --output_user_root", .{directory});
    for (command[1..]) |argument| {
        if (std.mem.startsWith(u8, argument, map_flag)) {
            const mapping = argument[map_flag.len..];
            try words.append(try std.mem.concat(allocator, u8, &.{ map_flag, directory, "/", mapping }));
            try words.append("-Xcompiler");
        }
        try words.append(argument);
    }
    var environment = try std.process.getEnvMap(allocator);
    // nvcc's host compiler reads a file that nvcc writes there. Bazel sets the user's own TMPDIR for every action,
    // which a sandbox does not have, and from which no file may be read.
    try environment.put("TMPDIR", directory);
    try landlock.confine(allocator);
    const result = std.process.Child.run(.{
        .allocator = allocator,
        .argv = words.items,
        .env_map = &environment,
        .max_output_bytes = 1 << 30,
    }) catch |err| return common.fail("cannot run {s}: {s}", .{ command[0], @errorName(err) });
    if (result.term != .Exited or result.term.Exited != 0) {
        try std.io.getStdErr().writeAll(result.stderr);
        return common.fail("nvcc rejected its arguments", .{});
    }
    var commands = std.ArrayList([][]const u8).init(allocator);
    var temporary = std.ArrayList([]const u8).init(allocator);
    var lines = std.mem.splitScalar(u8, result.stderr, '\n');
    while (lines.next()) |line| {
        if (!std.mem.startsWith(u8, line, prefix)) {
            if (loud and line.len > 0) try std.io.getStdErr().writer().print("{s}\n", .{line});
            continue;
        }
        const text = line[prefix.len..];
        if (assignment(text)) |at| {
            try environment.put(text[0..at], text[at + 1 ..]);
        } else if (std.mem.startsWith(u8, text, "rm ")) {
            try temporary.append(text["rm ".len..]);
        } else try commands.append(try split(allocator, text, &environment));
    }
    return .{ .commands = commands.items, .temporary = temporary.items, .environment = environment };
}

/// The environment of this program, with the working directory for temporary files, the only one that Landlock allows.
pub fn environmentHere(allocator: std.mem.Allocator) !std.process.EnvMap {
    var environment = try std.process.getEnvMap(allocator);
    try environment.put("TMPDIR", ".");
    return environment;
}

/// Runs a command, see `start`. Exits with the command's exit code if that is not 0.
pub fn execute(
    directory: ?[]const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
) !void {
    var child = try start(directory, allocator, command, environment, .Inherit);
    const code = try finish(&child);
    if (code != 0) std.process.exit(code);
}

/// Runs a command that may fail; returns whether it succeeded. Its messages are shown only then.
pub fn attempt(
    directory: ?[]const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
) !bool {
    const ended = try tried(directory, allocator, command, environment);
    if (ended.code == 0) try std.io.getStdErr().writeAll(ended.messages);
    return ended.code == 0;
}

/// The result of a command: its exit code and its messages.
pub const Ended = struct { code: u8, messages: []const u8 };

/// Runs a command that may fail, and returns its messages instead of showing them.
pub fn tried(
    directory: ?[]const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
) !Ended {
    var child = try start(directory, allocator, command, environment, .Pipe);
    const messages = try listen(allocator, &child);
    errdefer std.io.getStdErr().writeAll(messages) catch {};
    return .{ .code = try finish(&child), .messages = messages };
}

/// Waits for a command that `start` has piped; returns its messages.
pub fn listen(allocator: std.mem.Allocator, child: *std.process.Child) ![]const u8 {
    return child.stderr.?.readToEndAlloc(allocator, std.math.maxInt(usize));
}

/// Starts a command, confined by landlock.zig; its program is looked up in the PATH of the dry run.
pub fn start(
    directory: ?[]const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
    errors: std.process.Child.StdIo,
) !std.process.Child {
    var child = try prepared(directory, allocator, command, environment, errors);
    try spawn(&child);
    return child;
}

fn prepared(
    directory: ?[]const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
    errors: std.process.Child.StdIo,
) !std.process.Child {
    command[0] = try program(allocator, command[0], environment.get("PATH") orelse "");
    try landlock.confine(allocator);
    var child = std.process.Child.init(command, allocator);
    child.cwd = directory;
    child.env_map = environment;
    child.stdin_behavior = .Ignore;
    child.stderr_behavior = errors;
    return child;
}

fn spawn(child: *std.process.Child) !void {
    child.spawn() catch |err| return common.fail("cannot run {s}: {s}", .{ child.argv[0], @errorName(err) });
}

/// Runs a command with stdin, stdout and stderr of this process; returns its exit code.
pub fn redirected(
    directory: []const u8,
    allocator: std.mem.Allocator,
    command: [][]const u8,
    environment: *const std.process.EnvMap,
) !u8 {
    var child = try prepared(directory, allocator, command, environment, .Inherit);
    child.stdin_behavior = .Inherit;
    try spawn(&child);
    return finish(&child);
}

/// Waits for a command; returns its exit code.
pub fn finish(child: *std.process.Child) !u8 {
    const term = child.wait() catch |err| return common.fail("cannot run {s}: {s}", .{ child.argv[0], @errorName(err) });
    return switch (term) {
        .Exited => |code| code,
        .Signal => |number| common.fail("killed by signal {d}: {s}", .{ number, child.argv[0] }),
        else => common.fail("stopped: {s}", .{child.argv[0]}),
    };
}

/// The position of the `=` in `NAME=VALUE`; null for a command.
fn assignment(text: []const u8) ?usize {
    for (text, 0..) |c, i| {
        if (c == '=') return if (i > 0) i else null;
        if (!std.ascii.isAlphanumeric(c) and c != '_') return null;
    }
    return null;
}

/// The words of a command that nvcc prints for a shell. No shell runs it, so a flag is never expanded or executed.
/// Blanks separate words; double quotes keep a word together; a backslash escapes a quote or backslash. Only `$NAME` at
/// the start of a word, nvcc's spelling of the path of cicc, is replaced by that variable's value.
pub fn split(allocator: std.mem.Allocator, text: []const u8, environment: *const std.process.EnvMap) ![][]const u8 {
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
    if (quoted) return common.fail("nvcc: cannot parse the dry run: {s}", .{text});
    if (begun or word.items.len > 0) try found.append(try word.toOwnedSlice());
    return found.items;
}

/// The path of a program: its name, if that is a path, or a file in a directory of PATH.
pub fn program(allocator: std.mem.Allocator, name: []const u8, path: []const u8) ![]const u8 {
    if (std.mem.indexOfScalar(u8, name, '/') != null) return name;
    var directories = std.mem.splitScalar(u8, path, ':');
    while (directories.next()) |directory| {
        const candidate = try std.fs.path.join(allocator, &.{ directory, name });
        std.fs.cwd().access(candidate, .{}) catch continue;
        return candidate;
    }
    return common.fail("nvcc: cannot find {s}", .{name});
}

/// The absolute path of a path from the working directory.
pub fn absolute(allocator: std.mem.Allocator, path: []const u8) ![]const u8 {
    return std.fs.path.resolve(allocator, &.{ try std.process.getCwdAlloc(allocator), path });
}

test "words of a dry run" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var environment = std.process.EnvMap.init(a);
    try environment.put("CICC_PATH", "/cuda/nvvm/bin");
    const cases = [_]struct { text: []const u8, words: []const []const u8 }{
        .{ .text = "", .words = &.{} },
        .{ .text = "  a   b ", .words = &.{ "a", "b" } },
        .{ .text = "\"a b\"c \"\"", .words = &.{ "a bc", "" } },
        .{ .text = "-DX=\\\"y\\\" \\\\ \\n", .words = &.{ "-DX=\"y\"", "\\", "\\n" } },
        .{ .text = "$CICC_PATH/cicc \"$CICC_PATH/cicc\" -D$CICC_PATH", .words = &.{ "/cuda/nvvm/bin/cicc", "/cuda/nvvm/bin/cicc", "-D$CICC_PATH" } },
        .{ .text = "$NOBODY/x $(id) `id` a;b", .words = &.{ "$NOBODY/x", "$(id)", "`id`", "a;b" } },
    };
    for (cases) |case| {
        const found = try split(a, case.text, &environment);
        try std.testing.expectEqual(case.words.len, found.len);
        for (case.words, found) |one, other| try std.testing.expectEqualStrings(one, other);
    }
}

test "assignments of a dry run" {
    try std.testing.expectEqual(5, assignment("_HERE=/x y"));
    for ([_][]const u8{ "=x", "a-b=c", "clang -DA=1", "HERE", "" }) |text|
        try std.testing.expectEqual(null, assignment(text));
}
