//! The classes that the files of a project define, with their namespaces: a class in a namespace of torch can be the
//! project's own. The text is read as it is, without a preprocessor.
const std = @import("std");
const common = @import("common");

const Scopes = std.ArrayList([]const u8);

/// Adds the classes and enumerations of a text to a set of paths such as `at::native::Mine`.
pub fn add(allocator: std.mem.Allocator, text: []const u8, into: *std.StringHashMap(void)) !void {
    var reader = Reader{ .allocator = allocator, .text = text, .scopes = Scopes.init(allocator), .into = into };
    var before: []const u8 = "";
    while (reader.next()) |token| {
        defer before = token;
        if (common.is(token, "namespace")) {
            try reader.namespace();
        } else if (isClassKey(token)) {
            try reader.class();
        } else if (common.is(token, "{")) {
            // A class in a function has no path from outside; a string is no token.
            try reader.scopes.append(if (common.is(before, "extern")) "" else "{}");
        } else if (common.is(token, "}")) {
            _ = reader.scopes.pop();
        } else if (common.is(token, "#")) try reader.directive();
    }
}

fn isClassKey(token: []const u8) bool {
    for ([_][]const u8{ "class", "struct", "union", "enum" }) |key| if (common.is(token, key)) return true;
    return false;
}

fn isWord(c: u8) bool {
    return std.ascii.isAlphanumeric(c) or c == '_';
}

const Reader = struct {
    allocator: std.mem.Allocator,
    text: []const u8,
    at: usize = 0,
    /// The namespace or class of each open brace; empty for other braces.
    scopes: Scopes,
    /// The scopes before each open `#if`: each of its branches begins with them.
    branches: std.ArrayListUnmanaged([]const []const u8) = .{},
    into: *std.StringHashMap(void),

    /// The next word or sign; comments, strings and characters are skipped.
    fn next(self: *Reader) ?[]const u8 {
        while (self.at < self.text.len) {
            const rest = self.text[self.at..];
            if (std.ascii.isWhitespace(rest[0])) {
                self.at += 1;
            } else if (std.mem.startsWith(u8, rest, "//")) {
                self.at += std.mem.indexOfScalar(u8, rest, '\n') orelse rest.len;
            } else if (std.mem.startsWith(u8, rest, "/*")) {
                self.at += if (std.mem.indexOfPos(u8, rest, 2, "*/")) |end| end + 2 else rest.len;
            } else if (rest[0] == '"' or rest[0] == '\'') {
                self.at += quoted(rest);
            } else if (isWord(rest[0])) {
                const is_number = std.ascii.isDigit(rest[0]);
                var length: usize = 1;
                // A quote in a number separates its digits.
                while (length < rest.len and (isWord(rest[length]) or (is_number and rest[length] == '\''))) length += 1;
                self.at += length;
                const word = rest[0..length];
                if (common.isRaw(word) and length < rest.len and rest[length] == '"') {
                    self.at += common.rawLength(rest[length..]) orelse 0;
                    continue;
                }
                return word;
            } else {
                const length: usize = if (std.mem.startsWith(u8, rest, "::")) 2 else 1;
                self.at += length;
                return rest[0..length];
            }
        }
        return null;
    }

    fn namespace(self: *Reader) !void {
        var name = std.ArrayList(u8).init(self.allocator);
        while (self.next()) |token| {
            if (common.is(token, "{")) return self.scopes.append(name.items);
            if (common.is(token, "[") or common.is(token, "(")) {
                self.pass(token);
            } else if (isWord(token[0])) {
                // A macro may stand before the name: the name is the last word without a `::` before it.
                if (!common.is(token, "inline")) {
                    if (!std.mem.endsWith(u8, name.items, "::")) name.clearRetainingCapacity();
                    try name.appendSlice(token);
                }
            } else if (common.is(token, "::")) {
                try name.appendSlice(token);
            } else return; // an alias, or `using namespace`
        }
    }

    fn class(self: *Reader) !void {
        var name = std.ArrayList(u8).init(self.allocator);
        var is_after_name = false;
        while (self.next()) |token| {
            if (common.is(token, "{")) {
                try self.define(name.items);
                return self.scopes.append(name.items);
            } else if (common.is(token, "[") or common.is(token, "(")) {
                self.pass(token);
            } else if (common.is(token, ":")) {
                is_after_name = true;
            } else if (common.is(token, "<") and is_after_name) {
                continue; // of a base
            } else if (common.is(token, "<") and name.items.len > 0) {
                self.passArguments();
                try name.appendSlice("<>"); // a specialisation, which is no new name
            } else if (isWord(token[0])) {
                if (is_after_name or isClassKey(token) or common.is(token, "final")) continue;
                if (!std.mem.endsWith(u8, name.items, "::")) name.clearRetainingCapacity();
                try name.appendSlice(token);
            } else if (common.is(token, "::") and !is_after_name) {
                try name.appendSlice(token);
            } else if (is_after_name and (common.is(token, ",") or common.is(token, ">") or common.is(token, "::") or
                common.is(token, ".") or common.is(token, "*") or common.is(token, "&")))
            {
                continue;
            } else {
                // A declaration or a parameter.
                self.at -= token.len;
                return;
            }
        }
    }

    fn define(self: *Reader, name: []const u8) !void {
        if (name.len == 0) return;
        var path = std.ArrayList(u8).init(self.allocator);
        for (self.scopes.items) |scope| {
            if (scope.len == 0) continue;
            try path.appendSlice(scope);
            try path.appendSlice("::");
        }
        try path.appendSlice(name);
        try self.into.put(path.items, {});
    }

    /// Skips brackets and their content; the opening bracket has been read.
    fn pass(self: *Reader, open: []const u8) void {
        const close = if (common.is(open, "[")) "]" else ")";
        var depth: usize = 1;
        while (self.next()) |token| {
            if (common.is(token, open)) depth += 1;
            if (common.is(token, close)) depth -= 1;
            if (depth == 0) return;
        }
    }

    /// Skips template arguments; the first `<` has been read.
    fn passArguments(self: *Reader) void {
        var depth: usize = 1;
        while (self.next()) |token| {
            if (common.is(token, "<")) depth += 1;
            if (common.is(token, ">")) depth -= 1;
            if (common.is(token, "(")) self.pass(token);
            if (depth == 0 or common.is(token, ";") or common.is(token, "{")) return;
        }
    }

    /// The directive whose `#` has been read, trimmed.
    fn line(self: *Reader) []const u8 {
        const start = self.at;
        while (self.at < self.text.len and (self.text[self.at] != '\n' or self.text[self.at - 1] == '\\')) self.at += 1;
        return std.mem.trim(u8, self.text[start..self.at], " \t\r");
    }

    fn directive(self: *Reader) !void {
        const text = self.line();
        if (isNever(text)) self.passBranch();
        if (std.mem.startsWith(u8, text, "if")) {
            try self.branches.append(self.allocator, try self.allocator.dupe([]const u8, self.scopes.items));
        } else if (std.mem.startsWith(u8, text, "el") and self.branches.items.len > 0) {
            self.scopes.clearRetainingCapacity();
            try self.scopes.appendSlice(self.branches.getLast());
        } else if (std.mem.startsWith(u8, text, "endif")) _ = self.branches.pop();
    }

    /// Skips the branch of an `#if 0`; the directive that ends it is read next.
    fn passBranch(self: *Reader) void {
        var depth: usize = 0;
        while (self.next()) |token| {
            if (!common.is(token, "#")) continue;
            const start = self.at - 1;
            const text = self.line();
            if (std.mem.startsWith(u8, text, "if")) depth += 1;
            if (depth == 0 and (std.mem.startsWith(u8, text, "el") or std.mem.startsWith(u8, text, "endif"))) {
                self.at = start;
                return;
            }
            if (std.mem.startsWith(u8, text, "endif")) depth -= 1;
        }
    }
};

/// Whether a directive begins a branch that no compiler reads.
fn isNever(directive: []const u8) bool {
    if (!std.mem.startsWith(u8, directive, "if ") and !std.mem.startsWith(u8, directive, "elif ")) return false;
    const rest = directive[std.mem.indexOfScalar(u8, directive, ' ').?..];
    const condition = std.mem.trim(u8, rest[0 .. std.mem.indexOfScalar(u8, rest, '/') orelse rest.len], " \t");
    return common.is(condition, "0") or common.is(condition, "false");
}

fn quoted(text: []const u8) usize {
    var i: usize = 1;
    while (i < text.len and text[i] != text[0] and text[i] != '\n') : (i += 1) {
        if (text[i] == '\\') i += 1;
    }
    return @min(i + 1, text.len);
}

test "classes of a text" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    var found = std.StringHashMap(void).init(arena.allocator());
    try add(arena.allocator(),
        \\#define X { \
        \\  struct Y {
        \\// struct Comment { };
        \\/* struct Other { }; */
        \\const char* text = "struct Text {"; char quote = '"'; int number = 1'000;
        \\const char* raw = R"(struct Raw { " )";
        \\struct Mine { int a; enum class Kind : int { A }; struct Inner final : Base<int, 3> { }; };
        \\struct Declared;
        \\template <class T, typename U> struct Generic : std::vector<T> { };
        \\namespace at { namespace native { struct alignas(16) Params { }; void f(struct Passed x) { int i; } } }
        \\#if A
        \\namespace at::native {
        \\#else
        \\namespace c10 {
        \\#endif
        \\#if 0  // before torch 2
        \\namespace c10 { struct Dead {
        \\#if B
        \\struct Deader { };
        \\#endif
        \\#else
        \\struct Living { };
        \\#endif
        \\class TORCH_API [[maybe_unused]] Marked : public Base { };
        \\}
        \\namespace torch { inline namespace v1 { union U { int a; }; } }
        \\namespace std { template <> struct hash<Mine> { struct Within { }; }; }
        \\extern "C++" { namespace c10 { struct Wrapped { }; void f() { struct Local { }; } } }
        \\using namespace at; namespace short_name = at::native;
        \\struct short_name::Outside { };
        \\struct { int a; } unnamed;
    , &found);
    const expected = [_][]const u8{
        "Mine",           "Mine::Kind",   "Mine::Inner", "Generic",             "at::native::Params", "c10::Marked",
        "c10::Living",    "torch::v1::U", "std::hash<>", "short_name::Outside", "c10::Wrapped",       "std::hash<>::Within",
        "c10::{}::Local",
    };
    for (expected) |name| {
        if (!found.contains(name)) std.debug.print("not found: {s}\n", .{name});
    }
    var names = found.keyIterator();
    while (names.next()) |name| {
        for (expected) |path| {
            if (common.is(path, name.*)) break;
        } else std.debug.print("found: {s}\n", .{name.*});
    }
    try std.testing.expectEqual(expected.len, found.count());
}
