//! The declarations of a preprocessed text in its namespaces, as far as a search for a name can find them.
//!
//! A false declaration costs only a compile with all headers, but a missed declaration could change the compiled code.
//! So in doubt, a name counts as declared.
const std = @import("std");
const common = @import("common");
const Token = @import("lexer.zig").Token;

/// The kind of a declaration.
pub const What = enum {
    /// A function, or a declaration that looks like one.
    function,
    /// A variable, type, enumerator or alias.
    entity,
    namespace,
    /// A name from another namespace, by `using`.
    using,
    /// A `using namespace`; the name is the last part of the namespace.
    directive,
    /// A specialisation; the name is that of the template.
    specialisation,
    /// An operator; the name is its spelling, such as `<<`.
    operator,
};

/// A declaration.
pub const Declaration = struct {
    name: []const u8,
    what: What,
    /// For a `using`: the last namespace before the name.
    from: []const u8 = "",
    /// For a type: whether it is defined here.
    defined: bool = false,
    /// For a function: its possible numbers of arguments, a bit for each; the last bit is for that number and more.
    arity: u64 = any_arity,
    /// For a function of the host only: a hash of its type without namespaces; 0 for others.
    type_hash: u64 = 0,
    /// For a function or operator: a hash of its parameters.
    parameters: u64 = 0,
    /// For an operator: the names of its parameters' types. For a specialisation: those of its arguments.
    types: []const []const u8 = &.{},
};

pub const any_arity: u64 = std.math.maxInt(u64);

/// The bits of `Declaration.arity` for a range.
pub fn arities(least: usize, most: usize) u64 {
    const first: u6 = @intCast(@min(least, 63));
    const last: u6 = @intCast(@min(most, 63));
    return (any_arity >> (63 - last)) & (any_arity << first);
}

/// Parses the words of a source.
///
/// `Source` has `next() ?Token`, and `declared(namespaces: []const []const u8, declaration: Declaration) !void`, which
/// is called after the word behind a declaration was read. Inline and unnamed namespaces are omitted from the
/// namespaces.
pub fn Parser(comptime Source: type) type {
    return struct {
        const Self = @This();

        allocator: std.mem.Allocator,
        source: *Source,
        /// The current word; null at the end.
        token: ?Token = null,
        /// The open namespaces.
        namespaces: std.ArrayList([]const u8),
        /// The number of namespaces that each open brace has added.
        braces: std.ArrayList(usize),
        /// Whether the statement is a template.
        is_template: bool = false,
        /// The hash of all words since it was set.
        hash: std.hash.Wyhash = std.hash.Wyhash.init(0),

        pub fn init(allocator: std.mem.Allocator, source: *Source) Self {
            return .{
                .allocator = allocator,
                .source = source,
                .namespaces = std.ArrayList([]const u8).init(allocator),
                .braces = std.ArrayList(usize).init(allocator),
            };
        }

        /// Reports all declarations to the source.
        pub fn all(self: *Self) !void {
            self.go();
            while (self.token) |token| {
                if (token.isMark('}')) {
                    if (self.braces.pop()) |count| self.namespaces.items.len -= count;
                    self.go();
                } else if (token.isMark(';')) {
                    self.go();
                } else if (token.kind == .name) {
                    try self.declaration(token);
                } else try self.statement();
            }
        }

        /// Goes to the next word that is not a directive.
        fn go(self: *Self) void {
            while (true) {
                if (self.token) |token| self.hash.update(token.text);
                self.token = self.source.next();
                const token = self.token orelse return;
                if (token.kind != .directive and token.kind != .comment) return;
            }
        }

        fn at(self: *const Self, c: u8) bool {
            return if (self.token) |token| token.isMark(c) else false;
        }

        fn is(self: *const Self, name: []const u8) bool {
            return if (self.token) |token| token.kind == .name and token.is(name) else false;
        }

        fn declaration(self: *Self, first: Token) !void {
            if (first.is("template")) {
                self.go();
                if (!self.at('<')) return self.skip();
                self.angles();
                self.is_template = true;
                return; // a declaration follows, or another `template`
            }
            defer self.is_template = false;
            if (first.is("inline")) {
                self.go();
                if (self.is("namespace")) return self.namespace(true);
            } else if (first.is("namespace")) {
                return self.namespace(false);
            } else if (first.is("extern")) {
                self.go();
                if (self.is("template")) return self.skip();
                if (self.token) |token| if (token.kind == .string) {
                    self.go();
                    if (self.at('{')) {
                        try self.braces.append(0);
                        return self.go();
                    }
                };
            } else if (first.is("static_assert") or first.is("_Static_assert")) {
                return self.skip();
            } else if (first.is("using")) {
                return self.using();
            }
            try self.statement();
        }

        fn namespace(self: *Self, is_inline: bool) !void {
            self.go();
            var names = std.ArrayList([]const u8).init(self.allocator);
            while (self.token) |token| {
                if (token.isMark('{') or token.isMark('=') or token.isMark(';')) break;
                if (token.isMark('[') or token.isMark('(')) {
                    _ = self.balanced();
                    continue;
                }
                if (token.kind == .name and !token.is("__attribute__") and !token.is("inline")) try names.append(token.text);
                self.go();
            }
            if (!self.at('{')) {
                for (names.items) |name| try self.tell(.{ .name = name, .what = .namespace });
                return self.skip();
            }
            const count = if (is_inline) 0 else names.items.len;
            for (names.items) |name| {
                try self.tell(.{ .name = name, .what = .namespace });
                if (!is_inline) try self.namespaces.append(name);
            }
            try self.braces.append(count);
            self.go();
        }

        fn using(self: *Self) !void {
            self.go();
            const directive = self.is("namespace");
            var from: []const u8 = "";
            var last: []const u8 = "";
            while (self.token) |token| {
                if (token.isMark(';') or token.isMark('=')) break;
                if (token.isMark(',')) {
                    try self.tell(.{ .name = last, .what = .using, .from = from });
                } else if (token.kind == .name) {
                    from = last;
                    last = token.text;
                }
                if (token.isMark('<')) self.angles() else if (token.isMark('[')) _ = self.balanced() else self.go();
            }
            const what: What = if (directive) .directive else if (self.at('=')) .entity else .using;
            if (last.len > 0) try self.tell(.{ .name = last, .what = what, .from = if (what == .using) from else "" });
            self.skip();
        }

        /// Reports the declarations of a statement, and goes behind it.
        fn statement(self: *Self) !void {
            defer self.is_template = false;
            // The last word, if it is a name that may be declared, and whether `::` stands before it.
            var name: []const u8 = "";
            var qualified = false;
            var after_colon = false;
            var is_type = false;
            var is_enum = false;
            var has_parameters = false;
            // For a function of the host: a hash of the words before its name.
            var type_hash = std.hash.Wyhash.init(0);
            var host = true;
            // Whether its type is a built-in type, which no template argument can change.
            var plain = true;
            while (self.token) |token| {
                if (token.kind == .name) {
                    hashName(&type_hash, name);
                    plain = plain and name.len == 0;
                    name = "";
                    if (token.is("operator")) {
                        const is_host = host and (plain or !self.is_template);
                        try self.operator(after_colon, if (is_host) type_hash.final() | 1 else 0);
                    } else if (common.isAny(token.text, &type_keys)) {
                        is_type = true;
                        is_enum = token.is("enum");
                        try self.named(is_enum);
                    } else {
                        self.go();
                        if (token.is("constexpr") or token.is("consteval")) host = false;
                        if (common.isAny(token.text, &types) or token.is("const") or token.is("volatile")) type_hash.update(token.text);
                        plain = plain and !token.is("auto");
                        if (common.isAny(token.text, &called_keywords)) {
                            if (self.at('(') and self.balanced()) host = false;
                        } else if (!common.isAny(token.text, &keywords)) name = token.text;
                        qualified = after_colon;
                    }
                    after_colon = false;
                    continue;
                }
                const declares = name.len > 0 and !qualified;
                const mark = if (token.kind == .mark) token.text[0] else 0;
                after_colon = mark == ':';
                switch (mark) {
                    '(' => {
                        has_parameters = true;
                        self.hash = std.hash.Wyhash.init(0);
                        const arity = try self.parameters();
                        if (declares) try self.tell(.{
                            .name = name,
                            .what = .function,
                            .arity = arity,
                            .parameters = self.hash.final(),
                            .type_hash = if (host and (plain or !self.is_template)) type_hash.final() | 1 else 0,
                        });
                    },
                    '<' => if (name.len > 0) {
                        plain = false;
                        hashName(&type_hash, name);
                        self.hash = std.hash.Wyhash.init(0);
                        const arguments = try self.typesBetween();
                        for (arguments) |argument| type_hash.update(argument);
                        const hashed = self.hash.final();
                        if (arguments.len == 0) type_hash.update(std.mem.asBytes(&hashed));
                        // `template <> void f<S>(S)`, and the same for a variable.
                        const ends = self.at('(') or self.at('=') or self.at(';') or self.at('{');
                        const specialises = self.is_template and !is_type and !qualified and !has_parameters and ends;
                        if (specialises) try self.tell(.{ .name = name, .what = .specialisation, .types = arguments });
                    } else self.go(),
                    '[' => {
                        if (declares) try self.tell(.{ .name = name, .what = .entity });
                        _ = self.balanced();
                    },
                    '{' => {
                        if (declares and !is_type) try self.tell(.{ .name = name, .what = .entity });
                        if (is_enum) try self.enumerators() else _ = self.balanced();
                        is_enum = false;
                        const goes_on = self.at(';') or self.at(',') or self.at('=');
                        if (!goes_on and !is_type) return;
                    },
                    '}' => return,
                    ';', '=', ',' => {
                        if (declares) try self.tell(.{ .name = name, .what = .entity });
                        self.go();
                        if (mark == ';') return;
                    },
                    else => {
                        hashName(&type_hash, name);
                        plain = plain and name.len == 0;
                        if (mark == '*' or mark == '&') type_hash.update(token.text);
                        self.go();
                    },
                }
                name = "";
            }
        }

        fn hashName(hash: *std.hash.Wyhash, name: []const u8) void {
            if (!common.isAny(name, &namespaces_of_types)) hash.update(name);
        }

        /// Reports the name behind `class` and the like.
        fn named(self: *Self, is_enum: bool) !void {
            self.go();
            var found: ?[]const u8 = null;
            var joined = false;
            while (self.token) |token| {
                if (token.kind == .name) {
                    if (is_enum and (token.is("class") or token.is("struct"))) {
                        self.go();
                        continue;
                    }
                    if (token.is("final")) break;
                    if (common.isAny(token.text, &called_keywords)) {
                        self.go();
                        if (self.at('(')) _ = self.balanced();
                        continue;
                    }
                    if (found != null and !joined) break;
                    found = token.text;
                    joined = false;
                    self.go();
                } else if (token.isMark('[')) {
                    _ = self.balanced();
                } else if (token.isMark(':')) {
                    self.go();
                    if (!self.at(':')) {
                        // A list of bases, or the type of an enumeration: no further name follows.
                        if (found) |name| try self.tell(.{ .name = name, .what = .entity, .defined = true });
                        while (self.token) |other| {
                            if (other.isMark('{') or other.isMark(';')) return;
                            if (other.isMark('<')) self.angles() else if (other.isMark('(')) _ = self.balanced() else self.go();
                        }
                        return;
                    }
                    joined = true;
                    self.go();
                } else if (token.isMark('<')) {
                    const arguments = try self.typesBetween();
                    if (found) |name| try self.tell(.{ .name = name, .what = .specialisation, .types = arguments });
                    joined = false;
                    // `S<T>::U` names a member.
                    if (!self.at(':')) found = null;
                } else break;
            }
            const defined = self.at('{') or self.is("final");
            if (found) |name| try self.tell(.{ .name = name, .what = .entity, .defined = defined });
        }

        fn operator(self: *Self, is_member: bool, type_hash: u64) !void {
            self.go();
            var spelled = std.ArrayList(u8).init(self.allocator);
            while (self.token) |token| {
                if (token.isMark(';') or token.isMark('{')) break;
                if (token.isMark('(')) {
                    if (spelled.items.len > 0) break;
                    self.go();
                    if (self.at(')')) self.go();
                    try spelled.appendSlice("()");
                    continue;
                }
                if (token.kind == .mark or token.kind == .string) {
                    try spelled.appendSlice(token.text);
                } else if (spelled.items.len > 0 and token.kind == .name) {
                    try self.tell(.{ .name = token.text, .what = .function }); // the suffix of a literal
                }
                self.go();
                if (spelled.items.len > 3) break;
            }
            self.hash = std.hash.Wyhash.init(0);
            const taken = if (self.at('(')) try self.typesBetween() else &.{};
            if (spelled.items.len > 0 and !is_member) try self.tell(.{
                .name = spelled.items,
                .what = .operator,
                .parameters = self.hash.final(),
                .type_hash = type_hash,
                .types = taken,
            });
        }

        /// Goes behind the parameters of a function; returns its possible numbers of arguments. `(*name)` and `(&name)`
        /// declare a variable.
        fn parameters(self: *Self) !u64 {
            self.go();
            if (self.at('*') or self.at('&')) {
                self.go();
                if (self.token) |token| if (token.kind == .name) {
                    self.go();
                    if (self.at(')') or self.at('[')) try self.tell(.{ .name = token.text, .what = .entity });
                };
            }
            var count: usize = 0;
            var defaults: usize = 0;
            var has_default = false;
            var has_more = false;
            var has_words = false;
            var after_name = false;
            while (self.token) |token| {
                if (token.isMark(';')) break;
                if (token.isMark(')')) {
                    self.go();
                    break;
                }
                if (token.isMark(',')) {
                    count += 1;
                    has_default = false;
                    has_words = false;
                    after_name = false;
                    self.go();
                    continue;
                }
                if (token.isMark('=') and !has_default) {
                    has_default = true;
                    defaults += 1;
                }
                if (token.isMark('.')) has_more = true;
                if (!token.is("void")) has_words = true;
                if (token.isMark('<') and after_name) {
                    self.angles();
                } else if (token.isMark('(') or token.isMark('[') or token.isMark('{')) {
                    // Also for a parameter that is a function: `void (*f)(int)`.
                    has_words = true;
                    _ = self.balanced();
                } else {
                    if (token.is("void")) {
                        self.go();
                        if (!self.at(')') and !self.at(',')) has_words = true;
                        continue;
                    }
                    after_name = token.kind == .name;
                    self.go();
                    continue;
                }
                after_name = false;
            }
            if (has_words) count += 1;
            if (has_more) return any_arity;
            return arities(count - @min(defaults, count), count);
        }

        fn enumerators(self: *Self) !void {
            self.go();
            var expects = true;
            while (self.token) |token| {
                if (token.isMark('}')) return self.go();
                if (token.kind == .name and expects) {
                    try self.tell(.{ .name = token.text, .what = .entity });
                    expects = false;
                }
                if (token.isMark('(') or token.isMark('{') or token.isMark('[')) {
                    _ = self.balanced();
                    continue;
                }
                if (token.isMark(',')) expects = true;
                self.go();
            }
        }

        /// Goes behind brackets of either kind; returns the names of types in them: names that are not the last word of
        /// a parameter.
        fn typesBetween(self: *Self) ![]const []const u8 {
            var found = std.ArrayList([]const u8).init(self.allocator);
            const angle = self.at('<');
            var depth: usize = 0;
            var last: []const u8 = "";
            while (self.token) |token| {
                if (token.isMark(';') or token.isMark('{')) break;
                const ends = token.isMark(',') or token.isMark(')') or token.isMark('=');
                if (last.len > 0 and (angle or !ends) and !common.isAny(last, &namespaces_of_types)) try found.append(last);
                last = if (token.kind == .name and !common.isAny(token.text, &keywords)) token.text else "";
                if (token.isMark('(') or (angle and token.isMark('<'))) depth += 1;
                if (token.isMark(')') or (angle and token.isMark('>'))) depth -|= 1;
                self.go();
                if (depth == 0) break;
            }
            return found.items;
        }

        /// Goes behind angle brackets; a `<` that is no bracket ends before the next bracket of another kind, or at the
        /// end of the statement.
        fn angles(self: *Self) void {
            var depth: usize = 0;
            while (self.token) |token| {
                if (token.isMark('(') or token.isMark('{') or token.isMark('[')) {
                    _ = self.balanced();
                    continue;
                }
                if (token.isMark(';') or token.isMark('}') or token.isMark(')') or token.isMark(']')) return;
                const dash = token.isMark('-');
                if (token.isMark('<')) depth += 1;
                if (token.isMark('>')) depth -= 1;
                self.go();
                if (dash and self.at('>')) self.go();
                if (depth == 0) return;
            }
        }

        /// Goes behind the content of brackets; returns whether it has CUDA's attribute of a function of the GPU.
        fn balanced(self: *Self) bool {
            const token = self.token orelse return false;
            const open = token.text[0];
            const close: u8 = switch (open) {
                '(' => ')',
                '[' => ']',
                else => '}',
            };
            self.go();
            var for_gpu = false;
            var depth: usize = 1;
            while (self.token) |other| {
                if (other.isMark(open)) depth += 1;
                if (other.isMark(close)) depth -= 1;
                if (other.kind == .name and (other.is("device") or other.is("global"))) for_gpu = true;
                self.go();
                if (depth == 0) break;
            }
            return for_gpu;
        }

        /// Goes behind a statement without declarations.
        fn skip(self: *Self) void {
            while (self.token) |token| {
                if (token.isMark(';')) return self.go();
                if (token.isMark('}')) return;
                if (token.isMark('(') or token.isMark('{') or token.isMark('[')) {
                    _ = self.balanced();
                } else self.go();
            }
        }

        fn tell(self: *Self, found: Declaration) !void {
            try self.source.declared(self.namespaces.items, found);
        }
    };
}

const type_keys = [_][]const u8{ "class", "enum", "struct", "union" };

/// Namespaces that may be omitted in the name of a type.
const namespaces_of_types = [_][]const u8{ "at", "c10", "std", "torch" };

/// Words before parentheses that do not name a function.
const called_keywords = [_][]const u8{
    "__asm__",  "__attribute", "__attribute__", "__declspec", "__typeof__", "alignas", "asm",   "decltype",
    "explicit", "if",          "noexcept",      "requires",   "return",     "sizeof",  "throw", "typeof",
};

/// Built-in types.
const types = [_][]const u8{ "auto", "bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned", "void" };

/// Words in the position of a name that are not names.
const keywords = types ++ [_][]const u8{
    "const",    "constexpr", "default", "delete", "false", "inline",       "mutable", "new",      "nullptr",
    "override", "static",    "this",    "struct", "true",  "thread_local", "typedef", "typename", "volatile",
    "wchar_t",
};

const Told = struct {
    lexer: @import("lexer.zig").Lexer,
    out: std.ArrayList(u8),
    details: bool = false,

    pub fn next(self: *Told) ?Token {
        return self.lexer.next();
    }

    pub fn declared(self: *Told, namespaces: []const []const u8, found: Declaration) !void {
        const writer = self.out.writer();
        if (self.out.items.len > 0) try writer.writeByte(' ');
        for (namespaces) |namespace| try writer.print("{s}::", .{namespace});
        try writer.print("{s}:{s}", .{ found.name, @tagName(found.what)[0..1] });
        if (!self.details) return;
        for (0..8) |count| if (found.what == .function and found.arity >> @intCast(count) & 1 == 1) try writer.print("{d}", .{count});
        if (found.defined) try writer.writeByte('+');
        for (found.types) |name| try writer.print("<{s}", .{name});
        try writer.writeAll(found.from);
    }
};

fn listed(allocator: std.mem.Allocator, text: []const u8, details: bool) ![]const u8 {
    var source = Told{ .lexer = .{ .text = text }, .out = std.ArrayList(u8).init(allocator), .details = details };
    var parser = Parser(Told).init(allocator, &source);
    try parser.all();
    return source.out.items;
}

test "declarations of a text" {
    const cases = [_][2][]const u8{
        .{ "int a; extern int b, *c; static const char *d[] = {f(1)}, e = g;", "a:e b:e c:e d:e e:e g:e" },
        .{ "void f(int x); inline at::T g(at::S s) { int y; return h(y); } int i;", "f:f g:f i:e" },
        .{ "namespace a { namespace b::c { int x; } void f(); } int y;", "a:n a::b:n a::b::c:n a::b::c::x:e a::f:f y:e" },
        .{ "inline namespace v { int x; } namespace { int y; } namespace z = a::b;", "v:n x:e y:e z:n" },
        .{ "struct S { int m; void f(); }; class __attribute__((x)) T final : public B<int> { } t; struct U;", "S:e T:e t:e U:e" },
        .{ "enum E { A, B = f(1), C }; enum class F : int { D }; enum { G };", "E:e A:e B:e C:e F:e D:e G:e" },
        .{ "template <class T, int N = (1 > 2)> struct V { }; template <> struct V<int, 3> { };", "V:e V:s" },
        .{ "template <class T> auto f(T t) -> std::vector<T> { return t; } template class V<int>;", "f:f" },
        .{ "std::ostream& operator<<(std::ostream& o, const S& s); bool operator()(int); int operator\"\"_x(int);", "<<:o ():o _x:f \"\":o" },
        .{ "using namespace a::b; using a::c; using d = int; typedef int (*e)(int); typedef struct { int q; } g;", "b:d c:u d:e e:e g:e" },
        .{ "extern \"C\" { int f(); } extern \"C\" int g(); static_assert(a(1), \"x\"); int h;", "f:f g:f h:e" },
        .{ "void A::m() { } int A::n = 3; A::A(int x) : y(x) { } int k;", "k:e" },
        .{ "#pragma once\n[[nodiscard]] constexpr int f(int a = b<1>(2)) noexcept(g(1)); decltype(h(1)) i;", "f:f i:e" },
        .{ "template <class T> requires C<T> struct W { }; template <class T> concept D = C<T> && true;", "W:e D:e" },
        .{ "auto l = [](int a) { return a; }; int m{3}; int n = a < b; int o;", "l:e m:e n:e o:e" },
        .{ "template <> void f<S>(S s) { } template <> constexpr bool e<S> = true; template <> struct std::hash<S> { }; V<S> v;", "f:s e:s hash:s v:e" },
        .{ "constexpr int p = (q << 32); int r = (s < 3 ? t[u < 1] : 2); int v;", "p:e r:e v:e" },
    };
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for (cases) |case| try std.testing.expectEqualStrings(case[1], try listed(arena.allocator(), case[0], false));
}

test "functions, operators and specialisations" {
    const cases = [_][2][]const u8{
        .{ "void f(); void f(void); void f(int, std::pair<a, b> c = {}, void (*g)(int, int) = nullptr);", "f:f0 f:f0 f:f123" },
        .{ "void f(int, ...); template <class... T> void g(T... t); void h(void* p, int (&a)[2]);", "f:f01234567 g:f01234567 h:f2" },
        .{ "ostream& operator<<(std::ostream& out, const a::S<T>& s); bool operator==(A, const B&);", "<<:o<ostream<a<S<T ==:o<B" },
        .{ "struct A; struct B { }; enum class C : int { }; class D final { }; bool S<T>::operator==(B& b) { }", "A:e B:e+ C:e+ D:e+" },
        .{ "template <> struct hash<at::Device, int, N> { }; using at::Tensor;", "hash:s<Device<N Tensor:uat" },
    };
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for (cases) |case| try std.testing.expectEqualStrings(case[1], try listed(arena.allocator(), case[0], true));
}

const Hashes = struct {
    lexer: @import("lexer.zig").Lexer,
    found: [2]u64 = .{ 0, 0 },
    count: usize = 0,

    pub fn next(self: *Hashes) ?Token {
        return self.lexer.next();
    }

    pub fn declared(self: *Hashes, _: []const []const u8, found: Declaration) !void {
        if (found.what != .function) return;
        self.found[self.count] = found.type_hash;
        self.count += 1;
    }
};

test "types of functions on the host" {
    const cases = [_]struct { text: []const u8, same: bool }{
        .{ .text = "inline at::Tensor f(int); __attribute__((visibility(\"default\"))) Tensor f();", .same = true },
        .{ .text = "inline std::optional<Device> f(int a); std::optional<at::Device> f();", .same = true },
        .{ .text = "int f(int); long f();", .same = false },
        .{ .text = "char f(int); const char* f();", .same = false },
        .{ .text = "a::Tensor f(int); b::Tensor f();", .same = false },
        .{ .text = "S f(int); S& f();", .same = false },
        .{ .text = "float* f(int); const float* f();", .same = false },
        .{ .text = "V<int> f(int); V<long> f();", .same = false },
        .{ .text = "constexpr int f(int); constexpr int f();", .same = true },
        .{ .text = "template <class T> bool f(T); bool f(int);", .same = true },
    };
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for (cases) |case| {
        var source = Hashes{ .lexer = .{ .text = case.text } };
        var parser = Parser(Hashes).init(arena.allocator(), &source);
        try parser.all();
        try std.testing.expectEqual(2, source.count);
        try std.testing.expectEqual(case.same, source.found[0] == source.found[1]);
    }
    for ([_][]const u8{ "constexpr int f();", "__attribute__((device)) int f();", "template <class T> V<T> f(T);" }) |text| {
        var source = Hashes{ .lexer = .{ .text = text } };
        var parser = Parser(Hashes).init(arena.allocator(), &source);
        try parser.all();
        try std.testing.expectEqual(0, source.found[0]);
    }
}
