//! The words of C++: a lexer for preprocessed texts, and for sources without continued lines.
const std = @import("std");
const common = @import("common");

pub const Kind = enum {
    /// A name or a keyword.
    name,
    /// A preprocessing number.
    number,
    /// A string or a character, with its prefix.
    string,
    /// A line that begins with `#`, without its line break.
    directive,
    /// Any other character, except blanks.
    mark,
    comment,
};

pub const Token = struct {
    kind: Kind,
    text: []const u8,

    pub fn is(self: Token, text: []const u8) bool {
        return common.is(self.text, text);
    }

    pub fn isMark(self: Token, c: u8) bool {
        return self.kind == .mark and self.text[0] == c;
    }
};

/// Iterates over the words of a text.
pub const Lexer = struct {
    text: []const u8,
    at: usize = 0,
    /// Whether only blanks stand before this position of the line.
    first: bool = true,

    /// The next word; null at the end.
    pub fn next(self: *Lexer) ?Token {
        const text = self.text;
        while (self.at < text.len) {
            const c = text[self.at];
            if (c == '\n') {
                self.first = true;
            } else if (c != ' ' and c != '\t' and c != '\r' and c != 0x0b and c != 0x0c) break;
            self.at += 1;
        }
        if (self.at >= text.len) return null;
        const start = self.at;
        const kind = self.pass();
        self.first = self.first and kind == .comment;
        return .{ .kind = kind, .text = text[start..self.at] };
    }

    /// Goes behind a word, and returns its kind.
    fn pass(self: *Lexer) Kind {
        const rest = self.text[self.at..];
        const c = rest[0];
        if (isNameStart(c)) {
            var end: usize = 1;
            while (end < rest.len and isName(rest[end])) end += 1;
            self.at += end;
            if (end == rest.len or (rest[end] != '"' and rest[end] != '\'')) return .name;
            const word = rest[0..end];
            if (rest[end] == '"' and common.isRaw(word)) {
                if (common.rawLength(rest[end..])) |length| {
                    self.at += length;
                    return .string;
                }
            }
            for ([_][]const u8{ "L", "u", "U", "u8" }) |prefix| if (common.is(word, prefix)) {
                self.at += quotedLength(rest[end..]);
                return .string;
            };
            return .name;
        }
        if (std.ascii.isDigit(c) or (c == '.' and rest.len > 1 and std.ascii.isDigit(rest[1]))) {
            self.at += numberLength(rest);
            return .number;
        }
        if (c == '"' or c == '\'') {
            self.at += quotedLength(rest);
            return .string;
        }
        if (c == '#' and self.first) {
            self.at = std.mem.indexOfScalarPos(u8, self.text, self.at, '\n') orelse self.text.len;
            return .directive;
        }
        if (std.mem.startsWith(u8, rest, "//")) {
            self.at = std.mem.indexOfScalarPos(u8, self.text, self.at, '\n') orelse self.text.len;
            return .comment;
        }
        if (std.mem.startsWith(u8, rest, "/*")) {
            self.at = if (std.mem.indexOfPos(u8, self.text, self.at + 2, "*/")) |end| end + 2 else self.text.len;
            return .comment;
        }
        self.at += 1;
        return .mark;
    }
};

/// The length of a string or a character from its quote on; without a closing quote, up to the end of the line.
pub fn quotedLength(text: []const u8) usize {
    var end: usize = 1;
    while (end < text.len and text[end] != '\n') : (end += 1) {
        if (text[end] == text[0]) return end + 1;
        if (text[end] == '\\' and end + 1 < text.len and text[end + 1] != '\n') end += 1;
    }
    return end;
}

/// The length of a preprocessing number.
pub fn numberLength(text: []const u8) usize {
    var end: usize = 1;
    while (end < text.len) : (end += 1) {
        const sign = (text[end] == '+' or text[end] == '-') and std.mem.indexOfScalar(u8, "eEpP", text[end - 1]) != null;
        const separator = text[end] == '\'' and end + 1 < text.len and isName(text[end + 1]);
        if (!sign and !separator and text[end] != '.' and !isName(text[end])) break;
    }
    return end;
}

fn isNameStart(c: u8) bool {
    return isName(c) and !std.ascii.isDigit(c);
}

/// Whether a character may stand in a name.
pub fn isName(c: u8) bool {
    return std.ascii.isAlphanumeric(c) or c == '_' or c == '$' or c >= 0x80;
}

test "words" {
    const cases = [_]struct { text: []const u8, words: []const []const u8 }{
        .{ .text = "a::b <<c", .words = &.{ "a", ":", ":", "b", "<", "<", "c" } },
        .{ .text = "char c = '\"'; d", .words = &.{ "char", "c", "=", "'\"'", ";", "d" } },
        .{ .text = "R\"x(\" a)x\" b u8R\"(\n# 1)\" L'c' f\"d\"", .words = &.{ "R\"x(\" a)x\"", "b", "u8R\"(\n# 1)\"", "L'c'", "f", "\"d\"" } },
        .{ .text = "1'000 0x1p-3 .5f 1..2 a.b", .words = &.{ "1'000", "0x1p-3", ".5f", "1..2", "a", ".", "b" } },
        .{ .text = " # 1 \"a\" 1\nb #c\n/* # */ # d\n", .words = &.{ "# 1 \"a\" 1", "b", "#", "c", "/* # */", "# d" } },
        .{ .text = "\"a\\\"b\" \"c\nd", .words = &.{ "\"a\\\"b\"", "\"c", "d" } },
        .{ .text = "a // \"b\n\"//\" /*", .words = &.{ "a", "// \"b", "\"//\"", "/*" } },
    };
    for (cases) |case| {
        var lexer = Lexer{ .text = case.text };
        for (case.words) |word| try std.testing.expectEqualStrings(word, lexer.next().?.text);
        try std.testing.expectEqual(null, lexer.next());
    }
}
