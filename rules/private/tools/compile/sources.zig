//! What must not change what is compiled is kept from compilers: comments of sources, and the id of a kernel.
//!
//! Sources are compiled without their comments, so an edit of a comment compiles nothing. What is left keeps its line, and its column too where a comment stands before it. A text that does not keep to what is
//! expected of C++ stays as it is.
const std = @import("std");
const common = @import("common");

/// Files in which comments are looked for. Others may be read as data.
const extensions = [_][]const u8{
    ".c",   ".cc",  ".cpp", ".cu",  ".cuh", ".cxx", ".h", ".hh", ".hip", ".hpp", ".hxx",
    ".inc", ".inl", ".ipp", ".tcc", ".tpp",
};

/// Words of a project that reads files as data: then all of its files stay as they are.
const readers = [_][]const u8{ "embed", "incbin" };

/// `[--lines] [IN OUT]...`: writes each file without its comments. With `--lines` what is made of it names it as `IN`.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const File = struct { in: []const u8, out: []const u8, text: []const u8 };
    var files = std.ArrayList(File).init(allocator);
    var lines = false;
    var as_data = false;
    while (arguments.next()) |argument| {
        if (common.is(argument, "--lines")) {
            lines = true;
            continue;
        }
        const text = try common.read(allocator, argument);
        for (readers) |word| as_data = as_data or std.mem.indexOf(u8, text, word) != null;
        try files.append(.{ .in = argument, .out = try arguments.value(argument), .text = text });
    }
    for (files.items) |file| {
        const bare = if (as_data or !isSource(file.in)) null else try uncommented(allocator, file.text);
        const begin = if (bare != null and lines) try beginning(allocator, file.in) else "";
        try common.write(file.out, try std.mem.concat(allocator, u8, &.{ begin, bare orelse file.text }));
    }
}

/// What stands for the id of a kernel in a text: see include/extension_name.h.
const placeholder = "torch_kernels_extension_name";

/// `ID.txt [IN OUT]...`: writes each preprocessed text with the id of the kernel.
pub fn named(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const id = try common.read(allocator, try arguments.value("name"));
    while (arguments.next()) |in| {
        const text = try common.read(allocator, in);
        try common.write(try arguments.value(in), try std.mem.replaceOwned(u8, allocator, text, placeholder, id));
    }
}

fn isSource(path: []const u8) bool {
    for (extensions) |extension| if (common.is(std.fs.path.extension(path), extension)) return true;
    return false;
}

/// The line that gives a text a name.
fn beginning(allocator: std.mem.Allocator, path: []const u8) ![]const u8 {
    var line = std.ArrayList(u8).init(allocator);
    try line.appendSlice("#line 1 \"");
    for (path) |c| {
        if (c == '"' or c == '\\') try line.append('\\');
        try line.append(c);
    }
    try line.appendSlice("\"\n");
    return line.items;
}

/// A text without its comments; null if there is anything in it that is not understood here for sure.
fn uncommented(allocator: std.mem.Allocator, whole: []const u8) !?[]const u8 {
    const text = if (std.mem.startsWith(u8, whole, "\xef\xbb\xbf")) whole[3..] else whole;
    for ([_][]const u8{ "\r", "\x0b", "\x0c", "??", "%:", "/\\\n", "*\\\n", "R\\\n", "\\\\\n" }) |odd|
        if (std.mem.indexOf(u8, text, odd) != null) return null;
    var lexer = Lexer{ .text = text, .out = std.ArrayList(u8).init(allocator) };
    lexer.all() catch |err| return if (err == error.Odd) null else err;
    return lexer.out.items;
}

const Lexer = struct {
    text: []const u8,
    at: usize = 0,
    out: std.ArrayList(u8),
    /// Where the line begins in `out`.
    line: usize = 0,
    /// Whether a comment of this line was left out.
    left_out: bool = false,
    /// Whether the line, or the one that it continues, is one of a directive.
    directive: bool = false,
    /// And of which: one that names a header.
    includes: bool = false,

    fn all(self: *Lexer) !void {
        while (self.at < self.text.len) {
            const rest = self.text[self.at..];
            switch (rest[0]) {
                '\n' => try self.newline(),
                '\\' => try self.splice(),
                '#' => try self.hash(),
                '"' => try self.keep(try self.quoted('"')),
                '\'' => try self.keep(try self.quoted('\'')),
                '<' => try self.keep(if (self.includes) try self.until(">") else 1),
                '/' => if (std.mem.startsWith(u8, rest, "//"))
                    try self.lineComment()
                else if (std.mem.startsWith(u8, rest, "/*"))
                    try self.blockComment()
                else
                    try self.keep(1),
                '0'...'9' => try self.keep(number(rest)),
                '.' => try self.keep(if (rest.len > 1 and std.ascii.isDigit(rest[1])) number(rest) else 1),
                else => try self.keep(if (isName(rest[0])) try self.word() else 1),
            }
        }
        try self.trim();
    }

    fn keep(self: *Lexer, count: usize) !void {
        try self.out.appendSlice(self.text[self.at .. self.at + count]);
        self.at += count;
    }

    /// Takes away the blanks before comments that were left out at the end of a line.
    fn trim(self: *Lexer) !void {
        if (!self.left_out) return;
        self.left_out = false;
        while (self.out.items.len > self.line and isBlank(self.out.items[self.out.items.len - 1])) self.out.items.len -= 1;
        // What stood before the comment would be joined with the next line.
        if (self.out.items.len > self.line and self.out.items[self.out.items.len - 1] == '\\') return error.Odd;
    }

    fn newline(self: *Lexer) !void {
        try self.trim();
        try self.keep(1);
        self.line = self.out.items.len;
        self.directive = false;
        self.includes = false;
    }

    fn splice(self: *Lexer) !void {
        var end = self.at + 1;
        while (end < self.text.len and isBlank(self.text[end])) end += 1;
        if (end == self.text.len or self.text[end] != '\n') return self.keep(1);
        if (end > self.at + 1) return error.Odd;
        const quotes = end + 1 < self.text.len and (self.text[end + 1] == '\'' or self.text[end + 1] == '"');
        if (quotes and self.at > 0 and isName(self.text[self.at - 1])) return error.Odd;
        self.left_out = false;
        try self.keep(2);
        self.line = self.out.items.len;
    }

    fn hash(self: *Lexer) !void {
        if (std.mem.trim(u8, self.out.items[self.line..], " \t").len == 0 and !self.directive) {
            self.directive = true;
            const name = std.mem.trimLeft(u8, self.text[self.at + 1 ..], " \t");
            if (name.len > 0 and (name[0] == '/' or name[0] == '\\')) return error.Odd;
            for ([_][]const u8{ "include", "import" }) |one| self.includes = self.includes or std.mem.startsWith(u8, name, one);
        }
        try self.keep(1);
    }

    /// The length of a string or a character, with its quotes.
    fn quoted(self: *Lexer, quote: u8) !usize {
        var end = self.at + 1;
        while (end < self.text.len) : (end += 1) {
            if (self.text[end] == quote) return end + 1 - self.at;
            if (self.text[end] == '\n') return error.Odd;
            if (self.text[end] == '\\' and !self.includes) end += 1;
        }
        return error.Odd;
    }

    fn until(self: *Lexer, end: []const u8) !usize {
        const found = std.mem.indexOfAnyPos(u8, self.text, self.at, end) orelse return error.Odd;
        if (std.mem.indexOfScalar(u8, self.text[self.at..found], '\n') != null) return error.Odd;
        return found + 1 - self.at;
    }

    /// The length of a name, and of the raw string that it begins.
    fn word(self: *Lexer) !usize {
        const rest = self.text[self.at..];
        var end: usize = 0;
        while (end < rest.len and isName(rest[end])) end += 1;
        const raw = for ([_][]const u8{ "R", "LR", "uR", "UR", "u8R" }) |one| {
            if (common.is(rest[0..end], one)) break true;
        } else false;
        if (!raw or end == rest.len or rest[end] != '"') return end;
        const open = std.mem.indexOfAnyPos(u8, rest, end + 1, "( )\\\n") orelse return error.Odd;
        if (rest[open] != '(' or open - end - 1 > 16) return error.Odd;
        var buffer: [18]u8 = undefined;
        const close = std.fmt.bufPrint(&buffer, "){s}\"", .{rest[end + 1 .. open]}) catch return error.Odd;
        return (std.mem.indexOfPos(u8, rest, open, close) orelse return error.Odd) + close.len;
    }

    fn lineComment(self: *Lexer) !void {
        self.left_out = true;
        while (true) {
            const end = std.mem.indexOfScalarPos(u8, self.text, self.at, '\n') orelse self.text.len;
            const line = std.mem.trimRight(u8, self.text[self.at..end], " \t");
            const continues = line.len > 0 and line[line.len - 1] == '\\';
            if (continues and self.at + line.len != end) return error.Odd;
            self.at = end;
            if (!continues or end == self.text.len) return;
            // The next line is one of the comment; it stands for an end of the line as well as this one does.
            if (self.directive) return error.Odd;
            try self.newline();
            self.left_out = true;
        }
    }

    fn blockComment(self: *Lexer) !void {
        const end = (std.mem.indexOfPos(u8, self.text, self.at + 2, "*/") orelse return error.Odd) + 2;
        const comment = self.text[self.at..end];
        self.at = end;
        self.left_out = true;
        if (std.mem.indexOfScalar(u8, comment, '\n') != null) {
            const after = std.mem.trimLeft(u8, self.text[end..], " \t");
            // A directive goes on behind the comment, and none begins there unless the line does.
            if (self.directive or std.mem.startsWith(u8, after, "#")) return error.Odd;
        }
        for (comment) |c| {
            if (c == '\n') {
                try self.trim();
                try self.out.append('\n');
                self.line = self.out.items.len;
                self.left_out = true;
            } else try self.out.append(if (c == '\t') c else ' ');
        }
        const after = std.mem.trimLeft(u8, self.text[end..], " \t");
        self.left_out = after.len == 0 or after[0] == '\n' or std.mem.startsWith(u8, after, "/*") or
            std.mem.startsWith(u8, after, "//");
    }
};

/// The length of a number as preprocessors know them.
fn number(text: []const u8) usize {
    var end: usize = 1;
    while (end < text.len) : (end += 1) {
        const sign = (text[end] == '+' or text[end] == '-') and std.mem.indexOfScalar(u8, "eEpP", text[end - 1]) != null;
        const separator = text[end] == '\'' and end + 1 < text.len and isName(text[end + 1]);
        if (!sign and !separator and text[end] != '.' and !isName(text[end])) break;
    }
    return end;
}

fn isBlank(c: u8) bool {
    return c == ' ' or c == '\t';
}

fn isName(c: u8) bool {
    return std.ascii.isAlphanumeric(c) or c == '_' or c == '$' or c >= 0x80;
}

test "comments" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const cases = [_][2]?[]const u8{
        .{ "a; // b\nc;", "a;\nc;" },
        .{ "a; // b \\\n c\nd;", "a;\n\nd;" },
        .{ "a /* b */ c", "a         c" },
        .{ "a /* b */ // c\n\td", "a\n\td" },
        .{ "a /* b\n c */ d", "a\n      d" },
        .{ "a /* b\n\n*/\nd", "a\n\n\nd" },
        .{ "  // b", "" },
        .{ "a \n", "a \n" },
        .{ "x = \"// a\" '\"' /* \" */ + 1'000 + 0x1p-3'1; // b", "x = \"// a\" '\"'         + 1'000 + 0x1p-3'1;" },
        .{ "'\\'' // a", "'\\''" },
        .{ "R\"x(// \" )\" /*)x\" // a", "R\"x(// \" )\" /*)x\"" },
        .{ "xR\"(a\" // )\"", "xR\"(a\"" },
        .{ "#include <a//b> // c", "#include <a//b>" },
        .{ "# include \"a\\\" // c", "# include \"a\\\"" },
        .{ "a < b // > c", "a < b" },
        .{ "#define A \\\n  b /* c */ \\\n  d // e\nf", "#define A \\\n  b         \\\n  d\nf" },
        .{ "#define A 1 // b", "#define A 1" },
        .{ "/* a\n */\n#define B", "\n\n#define B" },
        .{ "\xef\xbb\xbfa // b", "a" },
        .{ "#define A /* b\n */ 1", null },
        .{ "#define A // b \\\n c", null },
        .{ "int a; /* b\n */ #define C", null },
        .{ "#error don't\n// a", null },
        .{ "# /* a */ include <b//c>", null },
        .{ "\x0c#define A /* b\n */ 1", null },
        .{ "a // b\r\n", null },
        .{ "a \\ // b\nc", null },
        .{ "a // b \\ \nc", null },
        .{ "a \\ \nc", null },
        .{ "/\\\n/ a", null },
        .{ "/* a", null },
        .{ "\"a\n\" // b", null },
    };
    for (cases) |case| {
        const found = try uncommented(arena.allocator(), case[0].?);
        if (case[1]) |expected| try std.testing.expectEqualStrings(expected, found.?) else try std.testing.expectEqual(null, found);
    }
}
