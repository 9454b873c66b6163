//! Variables of device code that a source shares with other sources: `extern __constant__ float table[16]`.
//!
//! Without relocatable device code (`-rdc=true`), each source gets a variable of its own instead, with all zeros. nvcc
//! only warns. That is harmless if a header declares the variable and the source does not use it.
const std = @import("std");
const common = @import("common");

const number = "#20044-D: ";
const before = "extern declaration of the entity ";
const after = " is treated as a static definition";

/// The variable that the text of a file uses and only declares, by the front end's messages; null if there is none.
pub fn find(allocator: std.mem.Allocator, said: []const u8, path: []const u8) !?[]const u8 {
    if (std.mem.indexOf(u8, said, number) == null) return null;
    return used(said, try common.read(allocator, path));
}

fn used(said: []const u8, text: []const u8) ?[]const u8 {
    var lines = std.mem.splitScalar(u8, said, '\n');
    while (lines.next()) |line| {
        const name = named(line) orelse continue;
        const last = if (std.mem.lastIndexOfScalar(u8, name, ':')) |colon| name[colon + 1 ..] else name;
        if (count(text, last) > declared(said, name)) return name;
    }
    return null;
}

/// Reports the error about a variable.
pub fn fail(name: []const u8) common.Failure {
    return common.fail(before ++ "{s}" ++ after ++ ": compile with `-rdc=true` to link it", .{name});
}

/// The variable in a line of the messages.
fn named(line: []const u8) ?[]const u8 {
    const at = std.mem.indexOf(u8, line, number ++ before) orelse return null;
    const rest = line[at + number.len + before.len ..];
    const name = rest[0 .. std.mem.indexOf(u8, rest, after) orelse return null];
    return std.mem.trim(u8, name, "\"");
}

/// The number of a variable's declarations.
fn declared(said: []const u8, name: []const u8) usize {
    var lines = std.mem.splitScalar(u8, said, '\n');
    var total: usize = 0;
    while (lines.next()) |line| {
        if (named(line)) |other| total += @intFromBool(common.is(other, name));
    }
    return total;
}

/// The number of a word's occurrences in a text.
fn count(text: []const u8, word: []const u8) usize {
    var total: usize = 0;
    var at: usize = 0;
    while (std.mem.indexOfPos(u8, text, at, word)) |found| {
        at = found + word.len;
        const begins = found == 0 or !isOfWord(text[found - 1]);
        total += @intFromBool(begins and (at == text.len or !isOfWord(text[at])));
    }
    return total;
}

fn isOfWord(c: u8) bool {
    return std.ascii.isAlphanumeric(c) or c == '_';
}

test "declared and used variables" {
    const said = "a.cu(1): warning #20044-D: extern declaration of the entity ns::table is treated as a static definition\n";
    try std.testing.expectEqualStrings("ns::table", used(said, "extern int table; int f() { return table; }").?);
    for ([_][]const u8{ "extern int table; int f() { return a_table; }", "extern int table; int tables;", "" }) |text|
        try std.testing.expectEqual(null, used(said, text));
    try std.testing.expectEqual(null, used("a.cu(1): warning: another\n", "table table table"));
    const quoted = "a.cu(1): warning #20044-D: extern declaration of the entity \"t\" is treated as a static definition";
    try std.testing.expectEqualStrings("t", used(quoted ++ "\n" ++ quoted, "extern int t; extern int t; t = 1;").?);
    try std.testing.expectEqual(null, used(quoted ++ "\n" ++ quoted, "extern int t; extern int t;"));
}
