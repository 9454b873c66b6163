//! Variables of device code that a source shares with other sources: `extern __constant__ float table[16]`.
//!
//! Without relocatable device code (`-rdc=true`), each source gets a variable of its own instead, with all zeros. nvcc
//! only warns. That is harmless if a header declares the variable and the source does not use it.
const std = @import("std");
const common = @import("common");
const comparison = @import("comparison.zig");

const number = "#20044-D: ";
const before = "extern declaration of the entity ";
const after = " is treated as a static definition";

/// The variable that the text of a file uses and only declares, by the front end's messages; null if there is none.
pub fn find(allocator: std.mem.Allocator, said: []const u8, path: []const u8) !?[]const u8 {
    if (std.mem.indexOf(u8, said, number) == null) return null;
    return used(allocator, said, try common.read(allocator, path));
}

fn used(allocator: std.mem.Allocator, said: []const u8, text: []const u8) !?[]const u8 {
    var lines = std.mem.splitScalar(u8, said, '\n');
    while (lines.next()) |line| {
        const name = named(line) orelse continue;
        // Toolchains use many names: only a variable that they declare themselves can be meant.
        const own = comparison.isOwn(line);
        if (try count(allocator, text, unqualified(name), own) > declared(said, unqualified(name), own)) return name;
    }
    return null;
}

fn unqualified(name: []const u8) []const u8 {
    return if (std.mem.lastIndexOfScalar(u8, name, ':')) |colon| name[colon + 1 ..] else name;
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

/// The number of declarations of variables with a name, in any namespace; with `own`, in the project's files.
fn declared(said: []const u8, name: []const u8, own: bool) usize {
    var lines = std.mem.splitScalar(u8, said, '\n');
    var total: usize = 0;
    while (lines.next()) |line| {
        const other = named(line) orelse continue;
        total += @intFromBool(common.is(unqualified(other), name) and (!own or comparison.isOwn(line)));
    }
    return total;
}

/// The number of a name's occurrences in a text, in code and in PTX; with `own`, in the project's files.
fn count(allocator: std.mem.Allocator, text: []const u8, name: []const u8, own: bool) !usize {
    var files = comparison.Files.init(allocator);
    var words = comparison.Words.init(allocator, text, &files);
    var total: usize = 0;
    var is_ptx = false;
    while (try words.next()) |token| {
        if (own and files.all.items.len > 0 and !files.all.items[words.file].own) continue;
        if (token.kind == .name) {
            total += @intFromBool(token.is(name));
            is_ptx = is_ptx or common.isAny(token.text, &.{ "asm", "__asm", "__asm__" });
        } else if (token.kind == .string and is_ptx) {
            if (token.text.len > 1) total += try count(allocator, token.text[1 .. token.text.len - 1], name, false);
        } else if (token.isMark(';')) is_ptx = false;
    }
    return total;
}

test "declared and used variables" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    const said = "a.cu(1): warning #20044-D: extern declaration of the entity ns::table is treated as a static definition\n";
    try std.testing.expectEqualStrings("ns::table", (try used(a, said, "extern int table; int f() { return table; }")).?);
    for ([_][]const u8{ "extern int table; int f() { return a_table; }", "extern int table; int tables;", "" }) |text|
        try std.testing.expectEqual(null, try used(a, said, text));
    try std.testing.expectEqual(null, try used(a, "a.cu(1): warning: another\n", "table table table"));
    const quoted = "a.cu(1): warning #20044-D: extern declaration of the entity \"t\" is treated as a static definition";
    try std.testing.expectEqualStrings("t", (try used(a, quoted ++ "\n" ++ quoted, "extern int t; extern int t; t = 1;")).?);
    try std.testing.expectEqual(null, try used(a, quoted ++ "\n" ++ quoted, "extern int t; extern int t;"));
}

test "the same name elsewhere: of a file, in another namespace, in a toolchain" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    const said = "a.cu(1): warning #20044-D: extern declaration of the entity a::t is treated as a static definition\n" ++
        "a.cu(2): warning #20044-D: extern declaration of the entity b::t is treated as a static definition";
    const text = "# 1 \"a.cu\"\n# 1 \"external/c.h\" 1\nint t;\n# 1 \"t.cuh\" 1\nnamespace a { extern int t; } namespace b { extern int t; }\n" ++
        "# 1 \"external/c.h\" 2\nint f(int t);\n# 2 \"a.cu\" 2\nconst char* f = \"t.cuh\";";
    try std.testing.expectEqual(null, try used(a, said, text));
    for ([_][]const u8{ " int f() { return b::t; }", " void f() { asm(\"ld.const.u32 %0, [t];\" : \"=r\"(x)); }" }) |use|
        try std.testing.expectEqualStrings("a::t", (try used(a, said, try std.mem.concat(a, u8, &.{ text, use }))).?);
    const other = "external/c.h(1): warning #20044-D: extern declaration of the entity t is treated as a static definition";
    try std.testing.expectEqualStrings("t", (try used(a, other, "# 1 \"external/c.h\"\nextern int t; int f() { return t; }")).?);
}
