//! Decides whether a source has the same meaning with the headers that it seems to need as with all headers.
//!
//! It compares both preprocessed texts. The words from the project's own files must be equal: then every macro that
//! they use is equal. And no omitted header may declare a name that a search for one of those words could find: an
//! overload, a better match, a namespace, an operator, or a specialisation of a template.
const std = @import("std");
const common = @import("common");
const declarations = @import("declarations.zig");
const lexer = @import("lexer.zig");
const lookup = @import("lookup.zig");
const mentions = @import("mentions.zig");

pub const Reader = lookup.Reader;
pub const Spelled = mentions.Spelled;

/// The prefix of the files of pinned archives, which are not the project's.
const pinned = "external/";

/// The directory of our headers that replace pybind11's, which are not the project's either, wherever they are.
const binding = "rules/private/include/pybind/";

/// The reason why a source may have another meaning with the headers that it seems to need; null if it means the same.
///
/// Args: `needed` and `full`, the texts with the needed headers and with all headers.
pub fn difference(allocator: std.mem.Allocator, needed: []const u8, full: []const u8, spelled: Spelled, reader: Reader) !?[]const u8 {
    var files = Files.init(allocator);
    var mentioned = mentions.Mentions.init(allocator, spelled);
    const few = try Text.read(allocator, needed, &files, &mentioned);
    const all = try Text.read(allocator, full, &files, null);
    if (few.own_hash != all.own_hash) return "a macro that it uses differs";
    if (try extra(allocator, &few, &all)) |name| return try std.fmt.allocPrint(allocator, "it reads {s} only with fewer headers", .{name});
    const known = try lookup.Known.init(allocator, few.found.items, all.found.items, &mentioned);
    for (all.found.items) |found| {
        if (found.own or few.sameFile(&all, found.file) or !try known.hides(found, reader)) continue;
        const name = found.declaration.name;
        return try std.fmt.allocPrint(allocator, "{s} declares `{s}`", .{ files.all.items[found.file].name, name });
    }
    return null;
}

/// A header that is read only with fewer headers, or declares more with fewer headers; null if there is none.
fn extra(allocator: std.mem.Allocator, few: *const Text, all: *const Text) !?[]const u8 {
    var keys = std.AutoHashMap(u64, void).init(allocator);
    for (all.found.items) |found| try keys.put(found.key(), {});
    for (few.found.items) |found| {
        if (!found.own and !few.sameFile(all, found.file) and !keys.contains(found.key())) return few.words.files.all.items[found.file].name;
    }
    return null;
}

/// A hash of the words from the project's own files.
pub fn ownHash(allocator: std.mem.Allocator, text: []const u8) !u64 {
    var files = Files.init(allocator);
    var words = Words.init(allocator, text, &files);
    var own = std.hash.Wyhash.init(0);
    while (try words.next()) |token| if (files.all.items[words.file].own) Text.hash(&own, token);
    return own.final();
}

/// The names of files, and whether they are the project's.
pub const Files = struct {
    const File = struct { name: []const u8, own: bool };

    numbers: std.StringHashMap(usize),
    all: std.ArrayList(File),

    pub fn init(allocator: std.mem.Allocator) Files {
        return .{ .numbers = std.StringHashMap(usize).init(allocator), .all = std.ArrayList(File).init(allocator) };
    }

    fn number(self: *Files, name: []const u8) !usize {
        const found = try self.numbers.getOrPut(canonical(name));
        if (!found.found_existing) {
            found.value_ptr.* = self.all.items.len;
            try self.all.append(.{ .name = found.key_ptr.*, .own = isOwn(name) });
        }
        return found.value_ptr.*;
    }
};

/// Whether a name, or the text that begins with it, is that of a project's file.
pub fn isOwn(name: []const u8) bool {
    for ([_][]const u8{ pinned, binding, "<" }) |begin| if (std.mem.startsWith(u8, name, begin)) return false;
    return true;
}

/// The name of an archive's header below its directory: the smaller umbrella headers have the same names as torch's.
/// For other files the whole name.
fn canonical(name: []const u8) []const u8 {
    if (!std.mem.startsWith(u8, name, pinned)) return name;
    var rest = name;
    for ([_][]const u8{ "/include/", "/needed/" }) |directory| {
        if (std.mem.lastIndexOf(u8, rest, directory)) |found| rest = rest[found + directory.len ..];
    }
    return rest;
}

/// The words of a text, and the file of each.
pub const Words = struct {
    lexer: lexer.Lexer,
    files: *Files,
    /// The open files, the source first.
    open: std.ArrayList(usize),
    /// The file of the last word.
    file: usize = 0,

    pub fn init(allocator: std.mem.Allocator, text: []const u8, files: *Files) Words {
        return .{ .lexer = .{ .text = text }, .files = files, .open = std.ArrayList(usize).init(allocator) };
    }

    pub fn next(self: *Words) !?lexer.Token {
        while (self.lexer.next()) |token| {
            if (token.kind != .directive) return token;
            const marker = Marker.of(token.text) orelse return token;
            // A `#line` renames a file, but does not change its owner.
            if (marker.enters or self.open.items.len == 0) {
                try self.open.append(try self.files.number(marker.name));
            } else if (marker.leaves and self.open.items.len > 1) {
                self.open.items.len -= 1;
            }
            self.file = self.open.items[self.open.items.len - 1];
        }
        return null;
    }
};

/// `# 12 "name" 1 3`, a preprocessor's marker for the origin of the next line.
const Marker = struct {
    name: []const u8,
    enters: bool = false,
    leaves: bool = false,

    /// Null for another directive.
    fn of(line: []const u8) ?Marker {
        const rest = std.mem.trimLeft(u8, line[1..], " \t");
        if (rest.len == 0 or !std.ascii.isDigit(rest[0])) return null;
        const open = std.mem.indexOfScalar(u8, rest, '"') orelse return null;
        const close = std.mem.lastIndexOfScalar(u8, rest, '"').?;
        if (close == open) return null;
        var marker = Marker{ .name = rest[open + 1 .. close] };
        var flags = std.mem.tokenizeScalar(u8, rest[close + 1 ..], ' ');
        while (flags.next()) |flag| {
            if (common.is(flag, "1")) marker.enters = true;
            if (common.is(flag, "2")) marker.leaves = true;
        }
        return marker;
    }
};

/// A preprocessed text, as the source of the parser of declarations.
const Text = struct {
    allocator: std.mem.Allocator,
    words: Words,
    /// The mentions of the project's files, if they are recorded.
    mentioned: ?*mentions.Mentions,
    /// The hash of the words of the project's files, and of those of each header.
    own: std.hash.Wyhash = std.hash.Wyhash.init(0),
    hashes: std.AutoHashMap(usize, std.hash.Wyhash),
    /// The number of words of the project's files before this one, and before the first of each header.
    own_words: usize = 0,
    places: std.AutoHashMap(usize, usize),
    own_hash: u64 = 0,
    found: std.ArrayList(lookup.Found),
    failed: ?anyerror = null,

    fn read(allocator: std.mem.Allocator, text: []const u8, files: *Files, mentioned: ?*mentions.Mentions) !Text {
        var self = Text{
            .allocator = allocator,
            .words = Words.init(allocator, text, files),
            .mentioned = mentioned,
            .hashes = std.AutoHashMap(usize, std.hash.Wyhash).init(allocator),
            .places = std.AutoHashMap(usize, usize).init(allocator),
            .found = std.ArrayList(lookup.Found).init(allocator),
        };
        var parser = declarations.Parser(Text).init(allocator, &self);
        try parser.all();
        if (self.failed) |err| return err;
        self.own_hash = self.own.final();
        return self;
    }

    /// The next word, for the parser.
    pub fn next(self: *Text) ?lexer.Token {
        return self.step() catch |err| {
            self.failed = err;
            return null;
        };
    }

    fn step(self: *Text) !?lexer.Token {
        const token = try self.words.next() orelse return null;
        if (self.isOwn()) {
            hash(&self.own, token);
            self.own_words += 1;
            if (self.mentioned) |mentioned| try mentioned.add(token);
            return token;
        }
        const state = try self.hashes.getOrPut(self.words.file);
        if (!state.found_existing) {
            state.value_ptr.* = std.hash.Wyhash.init(0);
            try self.places.put(self.words.file, self.own_words);
        }
        hash(state.value_ptr, token);
        return token;
    }

    fn isOwn(self: *const Text) bool {
        return self.words.files.all.items[self.words.file].own;
    }

    fn hash(into: *std.hash.Wyhash, token: lexer.Token) void {
        into.update(token.text);
        into.update(" ");
    }

    /// Notes a declaration, for the parser.
    pub fn declared(self: *Text, namespaces: []const []const u8, found: declarations.Declaration) !void {
        if (self.isOwn() and found.what != .function and found.what != .directive) return;
        const last = if (self.found.items.len > 0) self.found.items[self.found.items.len - 1].namespaces else &.{};
        const path = if (equal(last, namespaces)) last else try self.allocator.dupe([]const u8, namespaces);
        try self.found.append(.{ .file = self.words.file, .own = self.isOwn(), .after = self.own_words, .namespaces = path, .declaration = found });
    }

    /// Whether a file has the same words in another text, at the same position among the project's words.
    fn sameFile(self: *const Text, other: *const Text, file: usize) bool {
        const position = self.places.get(file) orelse return false;
        if (position != other.places.get(file) orelse return false) return false;
        var state = self.hashes.get(file) orelse return false;
        var another = other.hashes.get(file) orelse return false;
        return state.final() == another.final();
    }
};

fn equal(path: []const []const u8, other: []const []const u8) bool {
    if (path.len != other.len) return false;
    for (path, other) |name, another| if (!common.is(name, another)) return false;
    return true;
}

fn compared(allocator: std.mem.Allocator, own: []const u8, left_out: []const u8, reader: Reader) !?[]const u8 {
    const common_text =
        \\# 1 "a.cu"
        \\# 1 "external/torch/include/all.h" 1 3
        \\namespace std { struct ostream { }; template <class T> struct hash; struct string { }; }
        \\namespace at { struct Tensor { }; Tensor add(Tensor a); std::ostream& operator<<(std::ostream& o, Tensor t); }
        \\namespace torch { using namespace at; namespace nn { struct Module { }; } struct Opaque; }
        \\
    ;
    const back = "# 2 \"a.cu\" 2\n";
    var names = std.StringHashMap(void).init(allocator);
    var words = lexer.Lexer{ .text = own };
    while (words.next()) |token| if (token.kind == .name) try names.put(token.text, {});
    const more = try std.mem.concat(allocator, u8, &.{ "# 1 \"external/torch/include/more.h\" 1 3\n", left_out, "\n# 9 \"external/torch/include/all.h\" 2 3\n" });
    const needed = try std.mem.concat(allocator, u8, &.{ common_text, back, own });
    const full = try std.mem.concat(allocator, u8, &.{ common_text, more, back, own });
    return difference(allocator, needed, full, .{ .words = &names }, reader);
}

test "declarations of an omitted header that a source may find" {
    const Case = struct { own: []const u8, left_out: []const u8, gpu: bool, host: bool };
    const cases = [_]Case{
        // A better match.
        .{ .own = "using namespace torch; int save(const Tensor& t); int f(Tensor t) { return save(t); }", .left_out = "namespace torch { int save(Tensor t); }", .host = false, .gpu = true },
        .{ .own = "int save(const at::Tensor& t); int f(at::Tensor t) { return save(t); }", .left_out = "namespace at { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "int f(at::Tensor t) { return save(t, 1); }", .left_out = "namespace at { long save(Tensor t); }", .host = true, .gpu = true },
        .{ .own = "int f(at::Tensor t) { return save<at::Tensor>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = false, .gpu = false },
        .{ .own = "int f(at::Tensor t) { return save<std::hash<int>, 1>(t, 2); }", .left_out = "namespace at { template <class T> void save(T); }", .host = true, .gpu = true },
        .{ .own = "int f(at::Tensor t) { return save<(1 > 2), 3>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = false, .gpu = false },
        .{ .own = "void f() { save<int><<<1, 2>>>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = false, .gpu = false },
        .{ .own = "using namespace at; int g(int save) { return save < 3 && f(save << 2); }", .left_out = "namespace at { struct save { }; }", .host = false, .gpu = false },
        .{ .own = "void f() { save<<<1, 2>>>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = false, .gpu = false },
        .{ .own = "int save(int a); int f(at::Tensor t) { return t.save(1) + t->save(1); }", .left_out = "namespace at { long save(Tensor t); }", .host = true, .gpu = true },
        .{ .own = "auto f = &at::save;", .left_out = "namespace at { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "namespace at { namespace native { int view(int); int f() { return view(1); } } }", .left_out = "namespace at { namespace native { long view(int x); } }", .host = false, .gpu = false },
        .{ .own = "int f() { return view(1); }", .left_out = "namespace at { namespace native { long view(int x); } }", .host = true, .gpu = true },
        // Of a call on the host, a GPU needs only the type.
        .{ .own = "auto f() { return torch::add(t); }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = true },
        .{ .own = "namespace torch { float add(Any a); void f() { run(add(t)); } }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = false },
        .{ .own = "namespace torch { Tensor add(Any a); float add(Any a, int b); void f() { run(add(t)); } }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = false },
        .{ .own = "namespace torch { Tensor add(Any a); void f() { run(add(t)); } }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = true },
        .{ .own = "decltype(t) f() { return torch::add(t); }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = true },
        .{ .own = "decltype(g(torch::add(t))) f();", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = false },
        .{ .own = "decltype(torch::add(t)) f();", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = false },
        .{ .own = "auto f() { return torch::add(t); }", .left_out = "namespace torch { constexpr at::Tensor add(at::Tensor a); }", .host = false, .gpu = false },
        // Namespaces, types, aliases.
        .{ .own = "using namespace torch; int data[4]; int g() { return data[0]; }", .left_out = "namespace torch::data { }", .host = false, .gpu = false },
        .{ .own = "int data[4]; int g() { return data[0]; }", .left_out = "namespace torch::data { }", .host = true, .gpu = true },
        .{ .own = "namespace F = torch::nn; int g() { return F::relu; }", .left_out = "namespace torch { namespace nn { int relu; } }", .host = false, .gpu = false },
        .{ .own = "torch::Opaque* o;", .left_out = "namespace torch { struct Opaque { }; }", .host = false, .gpu = false },
        .{ .own = "torch::Tensor o;", .left_out = "namespace torch { using at::Tensor; }", .host = true, .gpu = true },
        .{ .own = "torch::Tensor o;", .left_out = "namespace torch { using nn::Tensor; }", .host = false, .gpu = false },
        .{ .own = "int g() { return std::save(1); }", .left_out = "namespace at { int save(int x); }", .host = true, .gpu = true },
        .{ .own = "namespace torch { int g() { return x; } }", .left_out = "namespace torch { using namespace nn; }", .host = false, .gpu = false },
        .{ .own = "int h;", .left_out = "namespace std { static ios_base::Init __ioinit; }", .host = false, .gpu = false },
        // All ways to mention a name.
        .{ .own = "using namespace torch; int f(int n) { return n-- > save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "using namespace torch; int f() { return ::save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "using namespace torch; bool f() { return 3 > ::save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "namespace mine { using namespace torch; } int f() { return mine::save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "namespace A = torch; namespace B = A; int f() { return B::save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "void g() { namespace A = torch; A::save(t); } void h() { namespace A = std; }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "using namespace torch; int f() { return 8 bitor save(t); }", .left_out = "namespace torch { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "auto f() -> Range { }  using namespace at;", .left_out = "namespace at { struct Range { }; }", .host = false, .gpu = false },
        .{ .own = "struct A { auto f() const -> Range { } auto g() noexcept -> Range& { } };  using namespace at;", .left_out = "namespace at { struct Range { }; }", .host = false, .gpu = false },
        .{ .own = "int f(A* a) { return a->Range; } using namespace at;", .left_out = "namespace at { struct Range { }; }", .host = true, .gpu = true },
        .{ .own = "struct Range { }; template <> struct at::Trait<int> { using type = Range; };", .left_out = "namespace at { struct Range { }; }", .host = false, .gpu = false },
        .{ .own = "struct Range { }; at::Tensor at::f(Range r) { }", .left_out = "namespace at { struct Range { }; }", .host = false, .gpu = false },
        .{ .own = "void g(std::string o, at::Tensor t) { o not_eq t; }", .left_out = "namespace at { bool operator!=(std::string o, Tensor s); }", .host = false, .gpu = false },
        // Operators and specialisations.
        .{ .own = "void g(std::string o, at::Tensor t) { o != t; }", .left_out = "namespace at { bool operator==(std::string o, Tensor s); }", .host = false, .gpu = false },
        .{ .own = "void g(std::string o, at::Tensor t) { o < t; }", .left_out = "namespace at { auto operator<=>(std::string o, Tensor s); }", .host = false, .gpu = false },
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o << t; }", .left_out = "namespace at { std::ostream& operator<<(std::ostream& o, std::string s); }", .host = false, .gpu = true },
        .{ .own = "decltype(o << t) g;", .left_out = "namespace at { std::ostream& operator<<(std::ostream& o, std::string s); }", .host = false, .gpu = false },
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o << t; }", .left_out = "struct X { }; namespace at { std::ostream& operator<<(std::ostream& o, X s); }", .host = true, .gpu = true },
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o + t; }", .left_out = "namespace at { std::ostream& operator<<(std::ostream& o, std::string s); }", .host = true, .gpu = true },
        .{ .own = "std::hash<at::Tensor> h;", .left_out = "namespace std { template <> struct hash<at::Tensor> { }; }", .host = false, .gpu = false },
        .{ .own = "std::hash<at::Tensor> h;", .left_out = "template <> struct std::hash<at::Tensor> { };", .host = false, .gpu = false },
        .{ .own = "auto h = at::add<at::Tensor>(t);", .left_out = "namespace at { template <> Tensor add<Tensor>(Tensor a) { return a; } }", .host = false, .gpu = false },
        .{ .own = "int h;", .left_out = "namespace std { template <> struct hash<at::Tensor> { }; }", .host = true, .gpu = true },
        .{ .own = "std::hash<at::Tensor> h;", .left_out = "struct X { }; namespace std { template <> struct hash<X> { }; }", .host = true, .gpu = true },
    };
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    for (cases) |case| {
        for ([_]Reader{ .host, .gpu }) |reader| {
            const found = try compared(arena.allocator(), case.own, case.left_out, reader);
            std.testing.expectEqual(if (reader == .host) case.host else case.gpu, found == null) catch |err| {
                std.debug.print("{s} {s} {s}: {?s}\n", .{ @tagName(reader), case.own, case.left_out, found });
                return err;
            };
        }
    }
}

test "headers that are read only with fewer headers" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    const words = std.StringHashMap(void).init(a);
    const begin = "# 1 \"a.cu\"\n# 1 \"external/t/needed/b.h\" 1\nint x; int f(int);\n";
    const all = "# 1 \"a.cu\"\n# 1 \"external/t/include/b.h\" 1\nint f(int); int x; int f(long);\n";
    try std.testing.expectEqual(null, try difference(a, begin, all, .{ .words = &words }, .host));
    for ([_][]const u8{ "# 1 \"external/t/include/c.h\" 1\nint y;\n", "int f(char);\n" }) |more| {
        const few = try std.mem.concat(a, u8, &.{ begin, more });
        try std.testing.expect(try difference(a, few, all, .{ .words = &words }, .host) != null);
    }
}

test "the position of a header" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var words = std.StringHashMap(void).init(a);
    for ([_][]const u8{ "Range", "at", "f" }) |word| try words.put(word, {});
    const header = "# 1 \"external/t/include/range.h\" 1\nnamespace at { struct Range { }; }\n# 2 \"a.cu\" 2\n";
    const cases = [_]struct { before: []const u8, after: []const u8, same: bool }{
        .{ .before = "struct Range { }; namespace at { int f(Range r); }\n", .after = "", .same = false },
        .{ .before = "", .after = "struct Range { }; namespace at { int f(Range r); }\n", .same = true },
        .{ .before = "int x;\n", .after = "namespace at { int f(Range r); }\n", .same = true },
    };
    for (cases) |case| {
        const needed = try std.mem.concat(a, u8, &.{ "# 1 \"a.cu\"\n", case.before, header, case.after });
        const full = try std.mem.concat(a, u8, &.{ "# 1 \"a.cu\"\n", header, case.before, case.after });
        try std.testing.expectEqual(case.same, try difference(a, needed, full, .{ .words = &words }, .host) == null);
    }
}

test "words of the project's own files are the same" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var names = std.StringHashMap(void).init(a);
    const text = "# 1 \"a.cu\"\n# 1 \"external/b.h\" 1\nint x;\n# 2 \"a.cu\" 2\n";
    const cases = [_]struct { needed: []const u8, full: []const u8, same: bool }{
        .{ .needed = "int y;\n\n\nint z;", .full = "# 3 \"a.cu\"\nint  y; int z;", .same = true },
        .{ .needed = "int y;", .full = "int z;", .same = false },
        .{ .needed = "int y;", .full = "", .same = false },
        // A `#line` does not change the owner of the file.
        .{ .needed = "# 1 \"external/b.h\"\nint y;", .full = "# 1 \"external/b.h\"\nint z;", .same = false },
        .{ .needed = "R\"(\n# 1 \"external/b.h\" 1\n)\" y;", .full = "R\"(\n# 1 \"external/b.h\" 1\n)\" z;", .same = false },
    };
    for (cases) |case| {
        const needed = try std.mem.concat(a, u8, &.{ text, case.needed });
        const full = try std.mem.concat(a, u8, &.{ text, case.full });
        const found = try difference(a, needed, full, .{ .words = &names }, .host);
        try std.testing.expectEqual(case.same, found == null);
    }
}
