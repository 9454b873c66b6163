//! The headers of torch that a source seems to need, by the words of the project's files: toolchains/torch/needed.bzl
//! makes smaller umbrella headers, and a table of the headers that each word needs.
//!
//! In a command, `--needed-headers=DIRECTORY` is the place for the flags. The words are a guess: the caller compares
//! the text with the text of all headers (comparison.zig), and compiles with all headers if the command fails.
const std = @import("std");
const common = @import("common");
const comparison = @import("comparison.zig");
const lexer = @import("lexer.zig");

pub const place = "--needed-headers=";

/// The entry of a word that needs all headers.
const everything = "-";

/// The entry of a word that names an umbrella header.
const umbrella = "+";

/// The text of `--read` for precompiled headers.
pub const precompiled = "needed\nfrom a precompiled header\n";

/// The reason to read all headers after a command has failed.
pub const failed = "it does not compile with fewer headers";

/// Writes the headers that a source was compiled with: `needed`, or `all` and a line with the reason.
pub fn tell(allocator: std.mem.Allocator, path: []const u8, why: ?[]const u8) !void {
    try common.write(path, if (why) |text| try std.mem.concat(allocator, u8, &.{ "all\n", text, "\n" }) else "needed\n");
}

/// An attempt with the needed headers: the command, and the words of the project's files.
pub const Few = struct { command: [][]const u8, spelled: comparison.Spelled };

/// The headers of the first attempt.
pub const Choice = union(enum) {
    few: Few,
    /// All headers, and the reason.
    all: []const u8,
};

/// The headers that files of the project need; all headers if the command has no place for fewer.
pub fn choose(
    allocator: std.mem.Allocator,
    command: []const []const u8,
    files: []const []const u8,
    reader: comparison.Reader,
    width: Width,
) !Choice {
    const directory = directoryOf(command) orelse return .{ .all = "the build does not limit headers" };
    const words = try allocator.create(Words);
    words.* = Words.init(allocator);
    for (files) |file| try words.read(try common.read(allocator, file));
    const table = try common.read(allocator, try std.fs.path.join(allocator, &.{ directory, "words.txt" }));
    const macros = switch (try words.macros(table, reader)) {
        .all => |why| return .{ .all = why },
        .few => |names| names,
    };
    for (command) |word| try words.read(word);
    const chosen = if (width == .widest) try allMacros(allocator, table) else macros;
    return .{ .few = .{
        .command = try reduced(allocator, command, directory, chosen),
        .spelled = .{ .words = &words.found },
    } };
}

/// The width of a guess: the headers that the words need, or all headers that any word can need.
pub const Width = enum { words, widest };

/// The command with all headers that any word can need, except words that need all headers.
pub fn widest(allocator: std.mem.Allocator, command: []const []const u8) ![][]const u8 {
    const directory = directoryOf(command) orelse return common.fail("the command has no --needed-headers", .{});
    const table = try common.read(allocator, try std.fs.path.join(allocator, &.{ directory, "words.txt" }));
    return reduced(allocator, command, directory, try allMacros(allocator, table));
}

fn directoryOf(command: []const []const u8) ?[]const u8 {
    for (command) |word| if (std.mem.startsWith(u8, word, place)) return word[place.len..];
    return null;
}

/// All macros of a table, sorted.
fn allMacros(allocator: std.mem.Allocator, table: []const u8) ![]const []const u8 {
    var found = std.StringHashMap(void).init(allocator);
    var lines = std.mem.tokenizeScalar(u8, table, '\n');
    while (lines.next()) |line| {
        const macro = line[(std.mem.indexOfScalar(u8, line, ' ') orelse return common.fail("no macro in {s}", .{line})) + 1 ..];
        if (!common.isAny(macro, &.{ everything, umbrella })) try found.put(macro, {});
    }
    return sorted(allocator, found);
}

fn sorted(allocator: std.mem.Allocator, macros: std.StringHashMap(void)) ![]const []const u8 {
    var items = std.ArrayList([]const u8).init(allocator);
    var keys = macros.keyIterator();
    while (keys.next()) |name| try items.append(name.*);
    std.mem.sort([]const u8, items.items, {}, earlier);
    return items.items;
}

fn reduced(allocator: std.mem.Allocator, command: []const []const u8, directory: []const u8, macros: []const []const u8) ![][]const u8 {
    var flags = std.ArrayList([]const u8).init(allocator);
    try flags.appendSlice(&.{ "-isystem", directory, "-DAT_PER_OPERATOR_HEADERS", "-DTORCH_KERNELS_NEEDED" });
    for (macros) |macro| try flags.append(try std.mem.concat(allocator, u8, &.{ "-D", macro }));
    return replaced(allocator, command, flags.items);
}

/// The command with all headers.
pub fn full(allocator: std.mem.Allocator, command: []const []const u8) ![][]const u8 {
    return replaced(allocator, command, &.{});
}

fn replaced(allocator: std.mem.Allocator, command: []const []const u8, flags: []const []const u8) ![][]const u8 {
    var words = std.ArrayList([]const u8).init(allocator);
    for (command) |word| {
        if (std.mem.startsWith(u8, word, place)) try words.appendSlice(flags) else try words.append(word);
    }
    return words.items;
}

/// The words of C++ texts: names and numbers; also `NAME::` if `::` stands before or after it; and `<PATH` for an
/// included header, without its extension, and for each of its directories.
const Words = struct {
    allocator: std.mem.Allocator,
    found: std.StringHashMap(void),
    /// Whether a line names its file, like a preprocessor's line marker.
    pretends: bool = false,

    fn init(allocator: std.mem.Allocator) Words {
        return .{ .allocator = allocator, .found = std.StringHashMap(void).init(allocator) };
    }

    fn read(self: *Words, text: []const u8) !void {
        self.pretends = self.pretends or hasMarker(text);
        try self.add(text);
    }

    fn add(self: *Words, text: []const u8) std.mem.Allocator.Error!void {
        var words = lexer.Lexer{ .text = text };
        var before: [2]lexer.Token = .{lexer.Token{ .kind = .mark, .text = ";" }} ** 2;
        while (words.next()) |token| {
            if (token.kind == .directive) {
                const directive = std.mem.trimLeft(u8, token.text[1..], " \t");
                try self.include(directive);
                try self.add(directive);
            } else if (token.kind == .number) {
                try self.found.put(token.text, {});
            } else if (token.kind == .name) {
                try self.found.put(token.text, {});
                if (before[0].isMark(':') and before[1].isMark(':')) try self.qualified(token.text);
            } else if (token.isMark(':') and before[0].isMark(':') and before[1].kind == .name) {
                try self.qualified(before[1].text);
            }
            before[1] = before[0];
            before[0] = token;
        }
    }

    fn qualified(self: *Words, name: []const u8) !void {
        try self.found.put(try std.mem.concat(self.allocator, u8, &.{ name, "::" }), {});
    }

    fn include(self: *Words, directive: []const u8) !void {
        if (!std.mem.startsWith(u8, directive, "include")) return;
        const start = (std.mem.indexOfAny(u8, directive, "<\"") orelse return) + 1;
        const end = std.mem.indexOfAnyPos(u8, directive, start, ">\"") orelse return;
        const path = directive[start..end];
        var stem = path[0 .. path.len - std.fs.path.extension(path).len];
        while (true) {
            try self.found.put(try std.mem.concat(self.allocator, u8, &.{ "<", stem }), {});
            stem = std.fs.path.dirname(stem) orelse return;
        }
    }

    const Asked = union(enum) { few: []const []const u8, all: []const u8 };

    /// The macros of the headers that the words need, sorted, or the reason to read all headers. A line of the table is
    /// a word and a macro, or a sign.
    fn macros(self: *Words, table: []const u8, reader: comparison.Reader) !Asked {
        if (self.pretends) return .{ .all = "a file of the project has a line marker" };
        var chosen = std.StringHashMap(void).init(self.allocator);
        var gains = reader == .gpu;
        var lines = std.mem.tokenizeScalar(u8, table, '\n');
        while (lines.next()) |line| {
            const blank = std.mem.indexOfScalar(u8, line, ' ') orelse return common.fail("no macro in {s}", .{line});
            const word = line[0..blank];
            if (!self.found.contains(word)) continue;
            if (common.is(line[blank + 1 ..], everything))
                return .{ .all = try std.fmt.allocPrint(self.allocator, "`{s}` needs them", .{std.mem.trimLeft(u8, word, "<")}) };
            if (common.is(line[blank + 1 ..], umbrella)) gains = true else try chosen.put(line[blank + 1 ..], {});
        }
        if (!gains) return .{ .all = "it includes no umbrella header" };
        return .{ .few = try sorted(self.allocator, chosen) };
    }
};

/// Whether a line may be a line marker, `# 12`, or the text has a spelling that could hide one.
fn hasMarker(text: []const u8) bool {
    for ([_][]const u8{ "%:", "??=", "#\\\n", "#\\\r" }) |odd| if (std.mem.indexOf(u8, text, odd) != null) return true;
    var at: usize = 0;
    while (std.mem.indexOfScalarPos(u8, text, at, '#')) |found| {
        at = found + 1;
        const start = if (std.mem.lastIndexOfScalar(u8, text[0..found], '\n')) |line| line + 1 else 0;
        const before = std.mem.trimRight(u8, text[start..found], " \t\x0b\x0c");
        if (before.len > 0 and !std.mem.endsWith(u8, before, "*/")) continue;
        const number = std.mem.trimLeft(u8, text[at..], " \t\x0b\x0c");
        if (number.len > 0 and (std.ascii.isDigit(number[0]) or std.mem.startsWith(u8, number, "/*"))) return true;
    }
    return false;
}

fn earlier(_: void, first: []const u8, second: []const u8) bool {
    return std.mem.lessThan(u8, first, second);
}

test "needs of words" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const table = "<torch/nn -\nadd OP_add\nadd_out OP_add\nautograd AUTOGRAD\njit:: -\nsum OP_sum\n";
    const cases = [_]struct { text: []const u8, macros: ?[]const []const u8 }{
        .{ .text = "int jit; // add\n/* sum */ x(\"add \\\" sum\");", .macros = &.{} },
        .{ .text = "at::sum(x); at::add_out(y); add(); sum1", .macros = &.{ "OP_add", "OP_sum" } },
        .{ .text = "char c = '\"'; add(); char d = '\"'; sum(R\"(\")\");", .macros = &.{ "OP_add", "OP_sum" } },
        .{ .text = "torch::autograd::Function", .macros = &.{"AUTOGRAD"} },
        .{ .text = "torch::\n jit", .macros = null },
        .{ .text = "jit ::x", .macros = null },
        .{ .text = "#include <torch/nn.h>", .macros = null },
        .{ .text = " # include \"torch/nn/functional.h\"", .macros = null },
        .{ .text = "#include <torch/nnx.h>\n#define add 1", .macros = &.{"OP_add"} },
        .{ .text = "int x;\n # 12 \"a.h\" 3\n", .macros = null },
        .{ .text = "%: 12 \"a.h\" 3\n", .macros = null },
        .{ .text = "/**/ # 12 \"a.h\" 3\n", .macros = null },
        .{ .text = "#\\\n 12 \"a.h\" 3\n", .macros = null },
        .{ .text = "#/**/ 12 \"a.h\" 3\n", .macros = null },
        .{ .text = "#define A(b) #b b##1\nadd; f(\"#1\")", .macros = &.{"OP_add"} },
    };
    for (cases) |case| {
        var words = Words.init(arena.allocator());
        try words.read(case.text);
        const found = try words.macros(table, .gpu);
        try std.testing.expectEqual(case.macros == null, found == .all);
        if (case.macros) |expected| {
            try std.testing.expectEqual(expected.len, found.few.len);
            for (expected, found.few) |macro, other| try std.testing.expectEqualStrings(macro, other);
        }
    }
}

test "the host gains only by umbrella headers" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for ([_]struct { text: []const u8, gains: bool }{
        .{ .text = "#include <torch/all.h>\nadd", .gains = true },
        .{ .text = "#include <torch/library.h>\nadd", .gains = false },
    }) |case| {
        var words = Words.init(arena.allocator());
        try words.read(case.text);
        try std.testing.expectEqual(case.gains, try words.macros("<torch/all +\nadd OP_add\n", .host) == .few);
    }
}
