//! The names that a project's own files mention, as far as they cause a search in namespaces.
const std = @import("std");
const declarations = @import("declarations.zig");
const common = @import("common");
const lexer = @import("lexer.zig");

/// The names and numbers in the project's own files before preprocessing, and in the flags of the command.
pub const Spelled = struct {
    words: *const std.StringHashMap(void),

    /// Whether a name is among them, or a macro can make it of them with `##`.
    fn has(self: Spelled, name: []const u8) bool {
        if (self.words.contains(name)) return true;
        // The lengths of the name's prefixes that consist of words.
        var reached = std.StaticBitSet(longest + 1).initEmpty();
        if (name.len > longest) return true;
        reached.set(0);
        for (1..name.len + 1) |end| {
            for (0..end) |start| {
                if (reached.isSet(start) and self.words.contains(name[start..end])) reached.set(end);
            }
        }
        return reached.isSet(name.len);
    }

    const longest = 64;
};

/// The ways in which the project's own files mention a name.
pub const Mention = struct {
    /// Without a namespace before it.
    plain: bool = false,
    /// The numbers of arguments in parentheses or angle brackets behind it, in the form of
    /// `declarations.Declaration.arity`.
    arity: u64 = 0,
    /// As `::name`.
    global: bool = false,
    /// The number of its first word in the project's files.
    first: usize = 0,
    /// In an operand whose type matters, as in `decltype`: the set of overloads is visible there.
    observed: bool = false,
    /// The namespaces before it.
    within: std.StringArrayHashMapUnmanaged(void) = .{},
};

/// The names that the project's own files mention. A name behind `.` or `->` is in no namespace, and a name that only a
/// macro of the toolchains spells has the toolchains' meaning.
pub const Mentions = struct {
    const Template = struct { name: []const u8, brackets: usize = 0 };
    const Bracket = struct { name: []const u8 = "", is_namespace: bool = false, commas: usize = 0, empty: bool = true, unsure: bool = false, observes: bool = false };

    allocator: std.mem.Allocator,
    spelled: Spelled,
    names: std.StringHashMap(Mention),
    /// The namespaces that the files open, or search with `using namespace`.
    opened: std.StringHashMap(void),
    /// Aliases of namespaces, each with the last part of its target.
    aliases: std.ArrayList([2][]const u8),
    /// The number of words so far.
    count: usize = 0,
    /// The parts of the qualified name that ends with the last word.
    path: std.ArrayList([]const u8),
    /// The word before that.
    before_path: lexer.Token = .{ .kind = .mark, .text = ";" },
    /// Adjacent marks, and whether any of them is in an observed operand.
    marks: std.AutoHashMap([2]u8, bool),
    /// The last words, newest first.
    last: [4]lexer.Token = .{lexer.Token{ .kind = .mark, .text = ";" }} ** 4,
    state: enum { elsewhere, namespace, alias } = .elsewhere,
    alias: []const u8 = "",
    /// Names with open angle brackets.
    templates: std.ArrayList(Template),
    /// The name before the angle brackets that the last word closes.
    closed: []const u8 = "",
    /// The name before `<<`, if the last words are a name and `<<`.
    shifted: []const u8 = "",
    brackets: std.ArrayList(Bracket),

    pub fn init(allocator: std.mem.Allocator, spelled: Spelled) Mentions {
        return .{
            .allocator = allocator,
            .spelled = spelled,
            .names = std.StringHashMap(Mention).init(allocator),
            .opened = std.StringHashMap(void).init(allocator),
            .aliases = std.ArrayList([2][]const u8).init(allocator),
            .path = std.ArrayList([]const u8).init(allocator),
            .marks = std.AutoHashMap([2]u8, bool).init(allocator),
            .brackets = std.ArrayList(Bracket).init(allocator),
            .templates = std.ArrayList(Template).init(allocator),
        };
    }

    pub fn add(self: *Mentions, token: lexer.Token) !void {
        const last = self.last;
        var opens = false;
        const called = if (last[0].kind == .name) try self.mention(token) else "";
        const name = if (called.len > 0) called else try self.template(token);
        if (token.kind == .name) {
            if (token.is("namespace")) {
                self.state = .namespace;
            } else if (self.state != .elsewhere) {
                try self.opened.put(token.text, {});
                if (self.state == .alias) try self.aliases.append(.{ self.alias, token.text }) else self.alias = token.text;
            }
        } else if (self.state != .elsewhere and !token.isMark(':')) {
            opens = token.isMark('{');
            self.state = if (token.isMark('=')) .alias else .elsewhere;
        }
        try self.follow(token, name, opens or (token.isMark('{') and last[0].kind == .string));
        if (token.kind == .name) {
            if (!isQualified(last)) {
                self.path.clearRetainingCapacity();
                self.before_path = last[0];
            }
            try self.path.append(token.text);
        }
        self.count += 1;
        self.last = .{ token, last[0], last[1], last[2] };
    }

    /// Notes the last word, a name, before the word `after`; returns the name if its arguments follow.
    fn mention(self: *Mentions, after: lexer.Token) ![]const u8 {
        const last = self.last;
        const name = last[0].text;
        const found = try self.names.getOrPut(name);
        if (!found.found_existing) {
            if (!self.spelled.has(name)) {
                _ = self.names.remove(name);
                return "";
            }
            found.value_ptr.* = .{ .first = self.count - 1 };
        }
        const mentioned = found.value_ptr;
        mentioned.observed = mentioned.observed or self.observes();
        // `-->` is not an arrow, and a type may follow the arrow of a function's declaration.
        const is_arrow = last[1].isMark('>') and last[2].isMark('-') and !last[3].isMark('-');
        const declares_type = last[3].isMark(')') or last[3].isMark('&') or common.isAny(last[3].text, &before_arrow);
        const is_member = last[1].isMark('.') or (is_arrow and (after.isMark('(') or !declares_type));
        if (is_member and !after.isMark(':')) return "";
        if (last[1].isMark(':') and last[2].isMark(':')) {
            const has_namespace = last[3].kind == .name and !common.isAny(last[3].text, &before_call);
            if (has_namespace) try mentioned.within.put(self.allocator, last[3].text, {}) else mentioned.global = true;
            // The definition of a namespace's member, or a specialisation of its template, searches the namespace.
            const specialises = after.isMark('<') and common.isAny(self.before_path.text, &.{ "class", "enum", "struct", "union" });
            if (has_namespace and (specialises or after.isMark('(')) and self.isInNamespace())
                for (self.path.items[0 .. self.path.items.len - 1]) |part| try self.opened.put(part, {});
        } else if (after.isMark('(')) {
            // `int name(` is a declaration, `return name(` a call.
            const declares = last[1].kind == .name and !common.isAny(last[1].text, &before_call);
            return if (declares) "" else name;
        } else if (after.isMark('<')) {
            try self.templates.append(.{ .name = name });
        } else mentioned.plain = true;
        return "";
    }

    /// Tracks angle brackets behind names; returns the name if its arguments follow.
    fn template(self: *Mentions, token: lexer.Token) ![]const u8 {
        if (self.shifted.len > 0) {
            // `name<<<` launches a kernel; its arguments are not counted here.
            const mentioned = self.names.getPtr(self.shifted).?;
            if (token.isMark('<')) mentioned.arity = declarations.any_arity else mentioned.plain = true;
            self.shifted = "";
            return "";
        }
        if (self.closed.len > 0) {
            const name = self.closed;
            self.closed = "";
            if (token.isMark('(')) return name;
            const mentioned = self.names.getPtr(name).?;
            if (token.isMark('<')) mentioned.arity = declarations.any_arity else mentioned.plain = true;
        }
        if (token.kind != .mark or self.templates.items.len == 0) return "";
        const last = &self.templates.items[self.templates.items.len - 1];
        switch (token.text[0]) {
            '<' => if (self.last[0].isMark('<') and self.last[1].kind == .name) {
                self.shifted = self.templates.pop().?.name;
            },
            '>' => if (last.brackets == 0 and !self.last[0].isMark('-')) {
                self.closed = self.templates.pop().?.name;
            },
            '(', '[', '{' => last.brackets += 1,
            ')', ']', '}', ';' => if (last.brackets > 0 and token.text[0] != ';') {
                last.brackets -= 1;
            } else {
                // They are not angle brackets.
                for (self.templates.items) |open| self.names.getPtr(open.name).?.arity = declarations.any_arity;
                self.templates.clearRetainingCapacity();
            },
            else => {},
        }
        return "";
    }

    fn isInNamespace(self: *const Mentions) bool {
        for (self.brackets.items) |bracket| if (!bracket.is_namespace) return false;
        return true;
    }

    /// Tracks brackets, and counts the arguments of calls.
    fn follow(self: *Mentions, token: lexer.Token, name: []const u8, opens: bool) !void {
        if (token.kind == .name) {
            for (alternatives) |alternative| if (token.is(alternative[0])) {
                for (alternative[1], 0..) |mark, i| {
                    try self.note(.{ 0, mark });
                    if (i > 0) try self.note(.{ alternative[1][i - 1], mark });
                }
            };
        }
        if (token.kind != .mark) return self.fill();
        const mark = token.text[0];
        if (self.last[0].kind == .mark) try self.note(.{ self.last[0].text[0], mark });
        try self.note(.{ 0, mark });
        switch (mark) {
            '(', '[', '{' => {
                self.fill();
                const asks = self.last[0].kind == .name and common.isAny(self.last[0].text, &observers);
                try self.brackets.append(.{ .name = name, .is_namespace = opens, .observes = asks or self.observes() });
            },
            ')', ']', '}' => {
                const call = self.brackets.pop() orelse return;
                if (call.name.len == 0) return;
                const mentioned = self.names.getPtr(call.name).?;
                const most = if (call.empty) 0 else call.commas + 1;
                // Commas in angle brackets do not separate arguments, and a pack stands for any number of arguments.
                mentioned.arity |= if (call.unsure) declarations.any_arity else declarations.arities(most, most);
            },
            else => {
                self.fill();
                if (self.brackets.items.len == 0) return;
                const call = &self.brackets.items[self.brackets.items.len - 1];
                if (mark == ',') call.commas += 1;
                if (mark == '<' or (mark == '.' and self.last[0].isMark('.'))) call.unsure = true;
            },
        }
    }

    fn fill(self: *Mentions) void {
        if (self.brackets.items.len > 0) self.brackets.items[self.brackets.items.len - 1].empty = false;
    }

    fn observes(self: *const Mentions) bool {
        return self.brackets.items.len > 0 and self.brackets.items[self.brackets.items.len - 1].observes;
    }

    fn note(self: *Mentions, marks: [2]u8) !void {
        const found = try self.marks.getOrPut(marks);
        found.value_ptr.* = self.observes() or (found.found_existing and found.value_ptr.*);
    }

    /// Whether an operator is used; with `observed`, whether it is used in an observed operand.
    fn usesWhere(self: *const Mentions, operator: []const u8, observed: bool) bool {
        if (operator.len == 1) return self.hasMarks(.{ 0, operator[0] }, observed);
        for (operator[0 .. operator.len - 1], operator[1..]) |first, second|
            if (!self.hasMarks(.{ first, second }, observed)) return false;
        return true;
    }

    fn hasMarks(self: *const Mentions, marks: [2]u8, observed: bool) bool {
        const found = self.marks.get(marks) orelse return false;
        return found or !observed;
    }

    /// Whether an operator is used.
    pub fn uses(self: *const Mentions, operator: []const u8) bool {
        return self.calls(operator, false);
    }

    /// Whether an operator is used, itself or by an operator that C++20 rewrites; with `observed`, in an observed operand.
    fn calls(self: *const Mentions, operator: []const u8, observed: bool) bool {
        if (common.is(operator, "==") and self.usesWhere("!=", observed)) return true;
        if (common.is(operator, "<=>") and (self.usesWhere("<", observed) or self.usesWhere(">", observed))) return true;
        return self.usesWhere(operator, observed);
    }

    /// Whether a declaration is visible by more than the value of a call.
    pub fn sees(self: *const Mentions, declaration: declarations.Declaration) bool {
        if (self.names.contains("requires")) return true;
        if (declaration.what == .operator) return self.calls(declaration.name, true);
        const mentioned = self.names.get(declaration.name) orelse return false;
        return mentioned.plain or mentioned.observed;
    }

    pub fn all(self: *const Mentions, path: []const []const u8) bool {
        for (path) |name| if (!self.names.contains(name)) return false;
        return true;
    }
};

/// Words between the parameters of a function and the arrow before its type.
const before_arrow = [_][]const u8{ "const", "mutable", "noexcept", "volatile" };

/// Words whose operand is observed: more than its value matters.
const observers = [_][]const u8{ "__typeof__", "alignof", "decltype", "noexcept", "sizeof", "typeid" };

/// Keywords that may stand before a call.
const before_call = [_][]const u8{
    "__extension__", "__imag__", "__real__", "and",       "and_eq", "bitand", "bitor", "case",   "co_await", "co_return",
    "co_yield",      "compl",    "const",    "constexpr", "delete", "do",     "else",  "goto",   "new",      "not",
    "not_eq",        "or",       "or_eq",    "return",    "sizeof", "static", "throw", "typeid", "volatile", "xor",
    "xor_eq",
};

/// Operators with alternative spellings as words.
const alternatives = [_][2][]const u8{
    .{ "and", "&&" },    .{ "and_eq", "&=" }, .{ "bitand", "&" }, .{ "bitor", "|" }, .{ "compl", "~" },   .{ "not", "!" },
    .{ "not_eq", "!=" }, .{ "or", "||" },     .{ "or_eq", "|=" }, .{ "xor", "^" },   .{ "xor_eq", "^=" },
};

/// Whether a name and `::` stand before the next word.
fn isQualified(last: [4]lexer.Token) bool {
    return last[0].isMark(':') and last[1].isMark(':') and last[2].kind == .name and !common.isAny(last[2].text, &before_call);
}

test "names that macros can make" {
    var words = std.StringHashMap(void).init(std.testing.allocator);
    defer words.deinit();
    for ([_][]const u8{ "sa", "ve", "float", "32", "_out" }) |word| try words.put(word, {});
    const spelled = Spelled{ .words = &words };
    for ([_][]const u8{ "sa", "save", "save_out", "float32", "sasasa", "x" ** 65 }) |name| try std.testing.expect(spelled.has(name));
    for ([_][]const u8{ "s", "saved", "32x", "toString" }) |name| try std.testing.expect(!spelled.has(name));
}
