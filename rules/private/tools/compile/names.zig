//! The file names in a text: of all files that its directives read or test for, in every spelling, and more.
const std = @import("std");

/// Characters between the words of a directive, including continued lines.
const between = " \t\\\r\n";

/// Longer than any file name.
const longest = 1024;

/// Iterates over the possible file names in a text: the texts between two marks in a line, or in continued lines.
pub const Names = struct {
    allocator: std.mem.Allocator,
    text: []const u8,
    at: usize = 0,

    pub fn next(self: *Names) !?[]const u8 {
        while (std.mem.indexOfAnyPos(u8, self.text, self.at, "<\"")) |found| {
            self.at = found + 1;
            const mark: u8 = if (self.text[found] == '<') '>' else '"';
            var end = self.at;
            var joined = false;
            while (std.mem.indexOfAnyPos(u8, self.text, end, &.{ mark, '\n' })) |stop| : (end = stop + 1) {
                if (self.text[stop] == mark) {
                    const name = self.text[self.at..stop];
                    if (name.len > 0 and name.len < longest) return if (joined) try self.without(name) else name;
                    break;
                }
                if (!std.mem.endsWith(u8, std.mem.trimRight(u8, self.text[self.at..stop], " \t\r"), "\\")) break;
                joined = true;
            }
        }
        return null;
    }

    /// A name without its line breaks.
    fn without(self: *Names, name: []const u8) ![]const u8 {
        var lines = std.mem.splitScalar(u8, name, '\n');
        var joined = std.ArrayList(u8).init(self.allocator);
        while (lines.next()) |line| {
            const is_last = lines.peek() == null;
            try joined.appendSlice(if (is_last) line else std.mem.trimRight(u8, std.mem.trimRight(u8, line, " \t\r"), "\\"));
        }
        return joined.items;
    }
};

/// Whether a directive of a text, or a test such as `__has_include`, has no literal name, but perhaps a macro.
pub fn computes(text: []const u8) bool {
    for ([_][]const u8{ "include", "import", "embed" }) |word| {
        var at: usize = 0;
        while (std.mem.indexOfPos(u8, text, at, word)) |found| {
            at = found + word.len;
            const before = std.mem.trimRight(u8, text[0..found], between);
            const asks = std.mem.endsWith(u8, before, "__has_");
            if (!asks and !std.mem.endsWith(u8, before, "#") and !std.mem.endsWith(u8, before, "%:")) continue;
            var rest = text[at..];
            if (std.mem.startsWith(u8, rest, "_next")) rest = rest["_next".len..];
            rest = std.mem.trimLeft(u8, rest, between);
            if (rest.len == 0) return false;
            if (asks) {
                if (rest[0] != '(') continue; // as in `defined(__has_include)`
                rest = std.mem.trimLeft(u8, rest[1..], between);
            }
            if (rest.len == 0 or std.mem.indexOfScalar(u8, "<\"", rest[0]) == null) return true;
        }
    }
    return false;
}

test "names in a text" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const text =
        \\#include <a.h> // not <b.h>, "but
        \\%: if HAS(<c/d.h>) && \ 
        \\  __has_include("e.h")
        \\#include <f\
        \\.h>
        \\a < b
    ;
    var names = Names{ .allocator = arena.allocator(), .text = text };
    for ([_][]const u8{ "a.h", "b.h", "c/d.h", "e.h", "f.h" }) |name|
        try std.testing.expectEqualStrings(name, (try names.next()).?);
    try std.testing.expectEqual(null, try names.next());
    for ([_][]const u8{ "#include NAME", "# include_next \\\n X", "%:embed X", "#define H(x) __has_include(x)" }) |one|
        try std.testing.expect(computes(one));
    for ([_][]const u8{ "#include <a>", "#ifdef __has_include\n", "defined(__has_embed)", "an include", "#import\\\n\"b\"" }) |one|
        try std.testing.expect(!computes(one));
}
