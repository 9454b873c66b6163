//! Which of torch's headers a source needs, by the words of the project's files: toolchains/torch/needed.bzl makes
//! smaller umbrella headers, and a table of what each word asks for.
//!
//! A command holds the place of the flags with `--needed-headers=DIRECTORY`. Who calls it has to try the command with all
//! headers if it fails: the words are a guess.
const std = @import("std");
const common = @import("common");

const place = "--needed-headers=";

/// What a word asks for if it asks for all headers.
const everything = "-";

/// What a word asks for that names an umbrella header.
const umbrella = "+";

/// For whom headers are left out.
pub const Reader = enum {
    /// The host alone, which reads the same unless the source includes an umbrella header.
    host,
    /// A GPU too, for which other headers bring in less as well.
    gpu,
};

/// The command with the headers that some files of the project need; null if they need all, or it holds no place for them.
pub fn narrowed(
    allocator: std.mem.Allocator,
    command: []const []const u8,
    files: []const []const u8,
    reader: Reader,
) !?[][]const u8 {
    for (command) |word| {
        if (!std.mem.startsWith(u8, word, place)) continue;
        const flags = try needed(allocator, word[place.len..], files, reader) orelse return null;
        return try replaced(allocator, command, flags);
    }
    return null;
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

fn needed(
    allocator: std.mem.Allocator,
    directory: []const u8,
    files: []const []const u8,
    reader: Reader,
) !?[]const []const u8 {
    var words = Words.init(allocator);
    for (files) |file| try words.read(try common.read(allocator, file));
    const table = try common.read(allocator, try std.fs.path.join(allocator, &.{ directory, "words.txt" }));
    const macros = try words.macros(table, reader) orelse return null;
    var flags = std.ArrayList([]const u8).init(allocator);
    try flags.appendSlice(&.{ "-isystem", directory, "-DAT_PER_OPERATOR_HEADERS" });
    for (macros) |macro| try flags.append(try std.mem.concat(allocator, u8, &.{ "-D", macro }));
    return flags.items;
}

/// The words of C++ texts: names; `NAME::` also, if `::` stands before or after it; and `<PATH` for an included header,
/// without its extension, and for each directory of that.
const Words = struct {
    allocator: std.mem.Allocator,
    found: std.StringHashMap(void),

    fn init(allocator: std.mem.Allocator) Words {
        return .{ .allocator = allocator, .found = std.StringHashMap(void).init(allocator) };
    }

    fn read(self: *Words, text: []const u8) !void {
        var i: usize = 0;
        while (i < text.len) {
            const rest = text[i..];
            if (std.mem.startsWith(u8, rest, "//")) {
                i = std.mem.indexOfScalarPos(u8, text, i, '\n') orelse text.len;
            } else if (std.mem.startsWith(u8, rest, "/*")) {
                i = if (std.mem.indexOfPos(u8, text, i + 2, "*/")) |end| end + 2 else text.len;
            } else if (text[i] == '#') {
                i += 1;
                try self.include(std.mem.trimLeft(u8, text[i..], " \t"));
            } else if (text[i] == '"') {
                i += 1;
                while (i < text.len and text[i] != '"' and text[i] != '\n') i += if (text[i] == '\\') 2 else 1;
                i += 1;
            } else if (isName(text[i])) {
                const start = i;
                while (i < text.len and isName(text[i])) i += 1;
                const name = text[start..i];
                try self.found.put(name, {});
                const before = std.mem.trimRight(u8, text[0..start], " \t\r\n");
                const after = std.mem.trimLeft(u8, text[i..], " \t\r\n");
                if (std.mem.endsWith(u8, before, "::") or std.mem.startsWith(u8, after, "::"))
                    try self.found.put(try std.mem.concat(self.allocator, u8, &.{ name, "::" }), {});
            } else i += 1;
        }
    }

    fn include(self: *Words, directive: []const u8) !void {
        if (!std.mem.startsWith(u8, directive, "include")) return;
        const line = directive[0 .. std.mem.indexOfScalar(u8, directive, '\n') orelse directive.len];
        const start = (std.mem.indexOfAny(u8, line, "<\"") orelse return) + 1;
        const end = std.mem.indexOfAnyPos(u8, line, start, ">\"") orelse return;
        const path = line[start..end];
        var stem = path[0 .. path.len - std.fs.path.extension(path).len];
        while (true) {
            try self.found.put(try std.mem.concat(self.allocator, u8, &.{ "<", stem }), {});
            stem = std.fs.path.dirname(stem) orelse return;
        }
    }

    /// What the words ask for, sorted; null if that is everything, or as good as that. A line of the table is a word and a
    /// macro, or a sign.
    fn macros(self: *Words, table: []const u8, reader: Reader) !?[]const []const u8 {
        var chosen = std.StringHashMap(void).init(self.allocator);
        var gains = reader == .gpu;
        var lines = std.mem.tokenizeScalar(u8, table, '\n');
        while (lines.next()) |line| {
            const blank = std.mem.indexOfScalar(u8, line, ' ') orelse return common.fail("no macro in {s}", .{line});
            if (!self.found.contains(line[0..blank])) continue;
            if (common.is(line[blank + 1 ..], everything)) return null;
            if (common.is(line[blank + 1 ..], umbrella)) gains = true else try chosen.put(line[blank + 1 ..], {});
        }
        if (!gains) return null;
        var names = std.ArrayList([]const u8).init(self.allocator);
        var each = chosen.keyIterator();
        while (each.next()) |name| try names.append(name.*);
        std.mem.sort([]const u8, names.items, {}, earlier);
        return names.items;
    }
};

fn earlier(_: void, one: []const u8, other: []const u8) bool {
    return std.mem.lessThan(u8, one, other);
}

fn isName(c: u8) bool {
    return std.ascii.isAlphanumeric(c) or c == '_';
}

test "what words ask for" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const table = "<torch/nn -\nadd OP_add\nadd_out OP_add\nautograd AUTOGRAD\njit:: -\nsum OP_sum\n";
    const cases = [_]struct { text: []const u8, macros: ?[]const []const u8 }{
        .{ .text = "int jit; // add\n/* sum */ x(\"add \\\" sum\");", .macros = &.{} },
        .{ .text = "at::sum(x); at::add_out(y); add(); sum1", .macros = &.{ "OP_add", "OP_sum" } },
        .{ .text = "torch::autograd::Function", .macros = &.{"AUTOGRAD"} },
        .{ .text = "torch::\n jit", .macros = null },
        .{ .text = "jit ::x", .macros = null },
        .{ .text = "#include <torch/nn.h>", .macros = null },
        .{ .text = " # include \"torch/nn/functional.h\"", .macros = null },
        .{ .text = "#include <torch/nnx.h>\n#define add 1", .macros = &.{"OP_add"} },
    };
    for (cases) |case| {
        var words = Words.init(arena.allocator());
        try words.read(case.text);
        const found = try words.macros(table, .gpu);
        try std.testing.expectEqual(case.macros == null, found == null);
        if (case.macros) |expected| {
            try std.testing.expectEqual(expected.len, found.?.len);
            for (expected, found.?) |one, other| try std.testing.expectEqualStrings(one, other);
        }
    }
}

test "the host gains by umbrella headers alone" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for ([_]struct { text: []const u8, gains: bool }{
        .{ .text = "#include <torch/all.h>\nadd", .gains = true },
        .{ .text = "#include <torch/library.h>\nadd", .gains = false },
    }) |case| {
        var words = Words.init(arena.allocator());
        try words.read(case.text);
        try std.testing.expectEqual(case.gains, try words.macros("<torch/all +\nadd OP_add\n", .host) != null);
    }
}
