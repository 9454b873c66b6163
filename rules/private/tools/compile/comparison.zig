//! Whether a source means the same with the headers that it seems to need as with all of them.
//!
//! Both texts that a preprocessor has made are read. The words that come from the project's own files must be equal: then
//! every macro that they mention is. And no header that was left out may declare what a search for one of those words
//! could find: an overload, a better match, a namespace, an operator, or a specialisation of a template.
const std = @import("std");
const common = @import("common");
const declarations = @import("declarations.zig");
const lexer = @import("lexer.zig");

/// How the names of the files of pinned archives begin: those that are not the project's.
const pinned = "external/";

/// For whom a text is.
pub const Reader = enum {
    host,
    /// A GPU, for which headers are left out that only code of the host uses.
    gpu,
};

/// What the project's own files and the flags of the command spell, before they are preprocessed.
pub const Spelled = struct {
    names: *const std.StringHashMap(void),
    /// Whether a macro may make a name of two.
    joins: bool,
};

/// Why a source may mean something else with the headers that it seems to need; null if it means the same.
///
/// Args: `needed` and `full`, the texts with the headers that are needed and with all.
pub fn difference(allocator: std.mem.Allocator, needed: []const u8, full: []const u8, spelled: Spelled, reader: Reader) !?[]const u8 {
    var files = Files.init(allocator);
    var mentions = Mentions.init(allocator, spelled);
    const few = try Text.read(allocator, needed, &files, &mentions);
    const all = try Text.read(allocator, full, &files, null);
    if (few.own_hash != all.own_hash) return "a macro that it mentions is another one";
    const known = try Known.init(allocator, &few, &all, &mentions);
    for (all.found.items) |found| {
        if (files.all.items[found.file].own) continue;
        if (few.sameFile(&all, found.file) or !try known.hides(found, reader)) continue;
        const name = found.declaration.name;
        return try std.fmt.allocPrint(allocator, "{s} declares `{s}`", .{ files.all.items[found.file].name, name });
    }
    return null;
}

/// Of the words that come from the project's own files.
pub fn ownHash(allocator: std.mem.Allocator, text: []const u8) !u64 {
    var files = Files.init(allocator);
    var words = Words.init(allocator, text, &files);
    var own = std.hash.Wyhash.init(0);
    while (try words.next()) |token| if (files.all.items[words.file].own) Text.hash(&own, token);
    return own.final();
}

/// Names of files, and whose they are.
const Files = struct {
    const File = struct { name: []const u8, own: bool };

    numbers: std.StringHashMap(usize),
    all: std.ArrayList(File),

    fn init(allocator: std.mem.Allocator) Files {
        return .{ .numbers = std.StringHashMap(usize).init(allocator), .all = std.ArrayList(File).init(allocator) };
    }

    fn number(self: *Files, name: []const u8) !usize {
        const found = try self.numbers.getOrPut(canonical(name));
        if (!found.found_existing) {
            found.value_ptr.* = self.all.items.len;
            const own = !std.mem.startsWith(u8, name, pinned) and !std.mem.startsWith(u8, name, "<");
            try self.all.append(.{ .name = found.key_ptr.*, .own = own });
        }
        return found.value_ptr.*;
    }
};

/// What a header of an archive is called below its directory: the smaller umbrella headers are called as torch's own. For
/// other files the whole name.
fn canonical(name: []const u8) []const u8 {
    if (!std.mem.startsWith(u8, name, pinned)) return name;
    var rest = name;
    for ([_][]const u8{ "/include/", "/needed/" }) |directory| {
        if (std.mem.lastIndexOf(u8, rest, directory)) |found| rest = rest[found + directory.len ..];
    }
    return rest;
}

/// The words of a text, and the file of each.
const Words = struct {
    lexer: lexer.Lexer,
    files: *Files,
    /// The open files, the source first.
    open: std.ArrayList(usize),
    /// That of the last word.
    file: usize = 0,

    fn init(allocator: std.mem.Allocator, text: []const u8, files: *Files) Words {
        return .{ .lexer = .{ .text = text }, .files = files, .open = std.ArrayList(usize).init(allocator) };
    }

    fn next(self: *Words) !?lexer.Token {
        while (self.lexer.next()) |token| {
            if (token.kind != .directive) return token;
            const marker = Marker.of(token.text) orelse return token;
            // A `#line` renames a file, which stays whose it is.
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

/// `# 12 "name" 1 3`, by which a preprocessor says where the next line is from.
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

/// How the project's own files mention a name.
const Mention = struct {
    /// Without a namespace before it.
    plain: bool = false,
    /// With parentheses or angle brackets behind it: with how many arguments, as in `declarations.Declaration.arity`.
    arity: u64 = 0,
    /// As `::name`.
    global: bool = false,
    /// The namespaces before it.
    within: std.StringArrayHashMapUnmanaged(void) = .{},
};

/// What the project's own files mention. What stands behind `.` or `->` is in no namespace, and a name that only a macro of
/// the toolchains spells has the meaning that those give it.
const Mentions = struct {
    const Bracket = struct { name: []const u8 = "", commas: usize = 0, empty: bool = true, unsure: bool = false };

    allocator: std.mem.Allocator,
    spelled: Spelled,
    names: std.StringHashMap(Mention),
    /// The namespaces that they open, or search with `using namespace`.
    opened: std.StringHashMap(void),
    /// Other names of namespaces.
    aliases: std.StringHashMap([]const u8),
    /// Marks that stand side by side.
    marks: std.AutoHashMap([2]u8, void),
    /// The last words, the newest first.
    last: [4]lexer.Token = .{lexer.Token{ .kind = .mark, .text = ";" }} ** 4,
    state: enum { elsewhere, namespace, alias } = .elsewhere,
    alias: []const u8 = "",
    /// The name before the angle brackets that the last words are.
    template: []const u8 = "",
    brackets: std.ArrayList(Bracket),

    fn init(allocator: std.mem.Allocator, spelled: Spelled) Mentions {
        return .{
            .allocator = allocator,
            .spelled = spelled,
            .names = std.StringHashMap(Mention).init(allocator),
            .opened = std.StringHashMap(void).init(allocator),
            .aliases = std.StringHashMap([]const u8).init(allocator),
            .marks = std.AutoHashMap([2]u8, void).init(allocator),
            .brackets = std.ArrayList(Bracket).init(allocator),
        };
    }

    fn add(self: *Mentions, token: lexer.Token) !void {
        const last = self.last;
        const name = if (last[0].kind == .name) try self.mention(token) else "";
        if (self.template.len > 0 and !token.isMark('<')) {
            // `name<<<` launches a kernel, which no header of torch has.
            const launches = last[0].isMark('<') and last[1].isMark('<') and last[2].isMark('<');
            if (!launches) self.names.getPtr(self.template).?.arity = declarations.any_arity;
            self.template = "";
        }
        if (token.kind == .name) {
            if (token.is("namespace")) {
                self.state = .namespace;
            } else if (self.state != .elsewhere) {
                try self.opened.put(token.text, {});
                if (self.state == .alias) try self.aliases.put(self.alias, token.text) else self.alias = token.text;
            }
        } else if (self.state != .elsewhere and !token.isMark(':')) {
            self.state = if (token.isMark('=')) .alias else .elsewhere;
        }
        try self.count(token, name);
        self.last = .{ token, last[0], last[1], last[2] };
    }

    /// Notes the last word, a name, which `after` follows; the name if it is called with arguments that follow.
    fn mention(self: *Mentions, after: lexer.Token) ![]const u8 {
        const last = self.last;
        const name = last[0].text;
        if (!self.spelled.joins and !self.spelled.names.contains(name)) return "";
        const found = try self.names.getOrPut(name);
        if (!found.found_existing) found.value_ptr.* = .{};
        const mentioned = found.value_ptr;
        const is_member = last[1].isMark('.') or (last[1].isMark('>') and last[2].isMark('-'));
        if (is_member and !after.isMark(':')) return "";
        if (last[1].isMark(':') and last[2].isMark(':')) {
            if (last[3].kind == .name) {
                try mentioned.within.put(self.allocator, last[3].text, {});
            } else if (!last[3].isMark('>')) mentioned.global = true;
        } else if (after.isMark('(')) {
            // `int name(` declares it, and `return name(` calls it.
            const declares = last[1].kind == .name and !isBeforeCall(last[1].text);
            return if (declares) "" else name;
        } else if (after.isMark('<')) {
            self.template = name;
        } else mentioned.plain = true;
        return "";
    }

    /// Counts the arguments of calls.
    fn count(self: *Mentions, token: lexer.Token, name: []const u8) !void {
        if (token.kind != .mark) return self.fill();
        const mark = token.text[0];
        if (self.last[0].kind == .mark) try self.marks.put(.{ self.last[0].text[0], mark }, {});
        try self.marks.put(.{ 0, mark }, {});
        switch (mark) {
            '(', '[', '{' => {
                self.fill();
                try self.brackets.append(.{ .name = name });
            },
            ')', ']', '}' => {
                const call = self.brackets.pop() orelse return;
                if (call.name.len == 0) return;
                const mentioned = self.names.getPtr(call.name).?;
                const most = if (call.empty) 0 else call.commas + 1;
                // Between angle brackets commas part no arguments, and a pack stands for any number of them.
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

    /// Whether an operator is used somewhere.
    fn uses(self: *const Mentions, operator: []const u8) bool {
        if (operator.len == 1) return self.marks.contains(.{ 0, operator[0] });
        for (operator[0 .. operator.len - 1], operator[1..]) |first, second| if (!self.marks.contains(.{ first, second })) return false;
        return true;
    }

    /// Whether they ask for more of an expression than its value: which functions there are may then be seen.
    fn observes(self: *const Mentions) bool {
        for ([_][]const u8{ "declval", "decltype", "noexcept", "requires" }) |name| if (self.names.contains(name)) return true;
        return false;
    }

    fn all(self: *const Mentions, path: []const []const u8) bool {
        for (path) |name| if (!self.names.contains(name)) return false;
        return true;
    }
};

/// What headers declare, and where.
const Found = struct {
    file: usize,
    namespaces: []const []const u8,
    declaration: declarations.Declaration,

    fn is(self: Found, what: declarations.What) bool {
        return self.declaration.what == what;
    }

    /// What another declaration of the same has in common with it.
    fn key(self: Found) u64 {
        const declaration = self.declaration;
        var state = std.hash.Wyhash.init(hashOf(self.namespaces, declaration.name));
        state.update(@tagName(declaration.what));
        state.update(std.mem.asBytes(&declaration.parameters));
        state.update(std.mem.asBytes(&declaration.type_hash));
        if (declaration.defined) state.update("defined");
        for (declaration.types) |name| state.update(name);
        return state.final();
    }
};

/// A preprocessed text, as the parser of its declarations reads it.
const Text = struct {
    allocator: std.mem.Allocator,
    words: Words,
    /// Where what the project's files mention is noted.
    mentions: ?*Mentions,
    /// Of the words of the project's files, and of those of each header.
    own: std.hash.Wyhash = std.hash.Wyhash.init(0),
    hashes: std.AutoHashMap(usize, std.hash.Wyhash),
    own_hash: u64 = 0,
    found: std.ArrayList(Found),
    failed: ?anyerror = null,

    fn read(allocator: std.mem.Allocator, text: []const u8, files: *Files, mentions: ?*Mentions) !Text {
        var self = Text{
            .allocator = allocator,
            .words = Words.init(allocator, text, files),
            .mentions = mentions,
            .hashes = std.AutoHashMap(usize, std.hash.Wyhash).init(allocator),
            .found = std.ArrayList(Found).init(allocator),
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
            if (self.mentions) |mentions| try mentions.add(token);
            return token;
        }
        const state = try self.hashes.getOrPut(self.words.file);
        if (!state.found_existing) state.value_ptr.* = std.hash.Wyhash.init(0);
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
        if (self.isOwn() and found.what != .function) return;
        const last = if (self.found.items.len > 0) self.found.items[self.found.items.len - 1].namespaces else &.{};
        const path = if (equal(last, namespaces)) last else try self.allocator.dupe([]const u8, namespaces);
        try self.found.append(.{ .file = self.words.file, .namespaces = path, .declaration = found });
    }

    /// Whether a file has the same words in another text.
    fn sameFile(self: *const Text, other: *const Text, file: usize) bool {
        var state = self.hashes.get(file) orelse return false;
        var another = other.hashes.get(file) orelse return false;
        return state.final() == another.final();
    }
};

/// What the text with the headers that are needed declares, to tell what the other one has besides.
const Known = struct {
    allocator: std.mem.Allocator,
    mentions: *const Mentions,
    /// Declarations, see `Found.key`.
    keys: std.AutoHashMap(u64, void),
    /// Types, variables and namespaces, with theirs, and those of the types that are defined.
    entities: std.AutoHashMap(u64, void),
    defined: std.AutoHashMap(u64, void),
    /// The entities by the last namespace.
    names: std.AutoHashMap(u64, void),
    /// Names of functions with their types.
    functions: std.AutoHashMap([2]u64, void),
    /// Namespaces that have types: a call searches those of its arguments.
    typed: std.AutoHashMap(u64, void),
    /// Which namespaces a namespace searches, by their last names; this is of the text of all headers.
    searches: std.StringHashMap(std.ArrayList([]const u8)),
    /// Namespaces that the project's files search without a word, and those that these search.
    opened: std.StringHashMap(void),
    /// Types of which there can be a value only where no header was left out: names, and names with their namespaces.
    foreign: std.StringHashMap(void),
    foreign_entities: std.AutoHashMap(u64, void),

    fn init(allocator: std.mem.Allocator, needed: *const Text, full: *const Text, mentions: *const Mentions) !Known {
        var self = Known{
            .allocator = allocator,
            .mentions = mentions,
            .keys = std.AutoHashMap(u64, void).init(allocator),
            .entities = std.AutoHashMap(u64, void).init(allocator),
            .defined = std.AutoHashMap(u64, void).init(allocator),
            .names = std.AutoHashMap(u64, void).init(allocator),
            .functions = std.AutoHashMap([2]u64, void).init(allocator),
            .typed = std.AutoHashMap(u64, void).init(allocator),
            .searches = std.StringHashMap(std.ArrayList([]const u8)).init(allocator),
            .opened = std.StringHashMap(void).init(allocator),
            .foreign = std.StringHashMap(void).init(allocator),
            .foreign_entities = std.AutoHashMap(u64, void).init(allocator),
        };
        for (needed.found.items) |found| try self.add(needed, found);
        for (full.found.items) |found| try self.addFull(found);
        for (needed.found.items) |found| {
            const name = found.declaration.name;
            if (found.declaration.defined or mentions.names.contains(name)) _ = self.foreign.remove(name);
        }
        try self.reach("", &self.opened);
        var opened = mentions.opened.keyIterator();
        while (opened.next()) |name| try self.reach(name.*, &self.opened);
        return self;
    }

    fn add(self: *Known, needed: *const Text, found: Found) !void {
        const path = found.namespaces;
        const name = found.declaration.name;
        if (!needed.words.files.all.items[found.file].own) try self.keys.put(found.key(), {});
        switch (found.declaration.what) {
            .directive => {},
            .function, .operator => if (found.declaration.type_hash != 0)
                try self.functions.put(.{ hashOf(&.{}, name), found.declaration.type_hash }, {}),
            .entity, .specialisation, .namespace, .using => {
                if (found.is(.entity)) try self.typed.put(hashOf(path, ""), {});
                try self.entities.put(hashOf(path, name), {});
                try self.names.put(hashOf(&.{lastOf(path)}, name), {});
                if (found.declaration.defined) try self.defined.put(hashOf(path, name), {});
            },
        }
    }

    fn addFull(self: *Known, found: Found) !void {
        const path = found.namespaces;
        const name = found.declaration.name;
        if (found.is(.directive)) {
            const others = try self.searches.getOrPut(lastOf(path));
            if (!others.found_existing) others.value_ptr.* = std.ArrayList([]const u8).init(self.allocator);
            try others.value_ptr.append(name);
        } else if (found.declaration.defined and !self.defined.contains(hashOf(path, name))) {
            try self.foreign.put(name, {});
            try self.foreign_entities.put(hashOf(path, name), {});
        }
    }

    /// Whether a declaration of the other text may be what a search of the project's files finds.
    fn hides(self: *const Known, found: Found, reader: Reader) !bool {
        if (self.keys.contains(found.key())) return false;
        const path = found.namespaces;
        const declaration = found.declaration;
        const name = declaration.name;
        const mentions = self.mentions;
        // For the GPU, a call on the host is as good as another one of the same type.
        if (reader == .gpu and !mentions.observes() and
            self.functions.contains(.{ hashOf(&.{}, name), declaration.type_hash }) and
            !(if (mentions.names.get(name)) |mention| mention.plain else false)) return false;
        switch (declaration.what) {
            .directive => return self.opened.contains(lastOf(path)),
            .operator => return mentions.uses(name) and !self.isForeign(found) and self.belongs(path) and
                !(reader == .gpu and isStream(declaration.types) and !mentions.observes()),
            .specialisation => return self.entities.contains(hashOf(path, name)) and !self.isForeign(found) and
                (mentions.names.contains(name) or mentions.all(declaration.types)),
            .entity, .namespace, .using, .function => {},
        }
        const mention = mentions.names.get(name) orelse return false;
        const called = mention.arity & declaration.arity != 0;
        if (declaration.what != .function and (if (declaration.defined) &self.defined else &self.entities).contains(hashOf(path, name))) return false;
        // It is what a search of the other namespace finds anyway.
        if (declaration.what == .using and self.names.contains(hashOf(&.{declaration.from}, name)) and
            try self.reaches(lastOf(path), declaration.from)) return false;
        const is_open = for (path) |namespace| {
            if (!self.opened.contains(namespace)) break false;
        } else true;
        if (is_open and (mention.plain or called)) return true;
        if (path.len == 0) return mention.global;
        if (called and declaration.what == .function and self.belongs(path)) return true;
        for (path[0 .. path.len - 1]) |namespace| {
            if (!self.opened.contains(namespace) and !mentions.names.contains(namespace)) return false;
        }
        for (mention.within.keys()) |within| {
            if (try self.reaches(within, lastOf(path))) return true;
            if (mentions.aliases.get(within)) |other| if (try self.reaches(other, lastOf(path))) return true;
        }
        return false;
    }

    fn isForeign(self: *const Known, found: Found) bool {
        for (found.declaration.types) |name|
            if (self.foreign.contains(name) or self.foreign_entities.contains(hashOf(found.namespaces, name))) return true;
        return false;
    }

    /// Whether a value may be of a type of the namespace, so that a call with it is searched there: of the outer ones any
    /// function of torch may return one, of others those that the project's files mention.
    fn belongs(self: *const Known, path: []const []const u8) bool {
        const outer = path.len <= 1 or (path.len == 2 and common.is(path[0], "torch") and common.is(path[1], "autograd"));
        return self.typed.contains(hashOf(path, "")) and (outer or self.mentions.all(path));
    }

    fn reaches(self: *const Known, from: []const u8, to: []const u8) !bool {
        var reached = std.StringHashMap(void).init(self.allocator);
        try self.reach(from, &reached);
        return reached.contains(to);
    }

    /// Adds a namespace, and those that it searches.
    fn reach(self: *const Known, name: []const u8, into: *std.StringHashMap(void)) !void {
        const there = try into.getOrPut(name);
        if (there.found_existing) return;
        if (self.searches.get(name)) |others| for (others.items) |other| try self.reach(other, into);
    }
};

/// Whether an operator reads or writes a stream: it is for the host alone, and returns the stream.
fn isStream(types: []const []const u8) bool {
    if (types.len == 0) return false;
    for ([_][]const u8{ "basic_istream", "basic_ostream", "istream", "ostream" }) |name| if (common.is(types[0], name)) return true;
    return false;
}

/// Whether a word that is no name may stand before a call.
fn isBeforeCall(word: []const u8) bool {
    for ([_][]const u8{
        "and", "case", "co_await", "co_return", "co_yield", "delete", "do",     "else", "goto",
        "new", "not",  "or",       "return",    "sizeof",   "throw",  "typeid", "xor",
    }) |name| if (common.is(word, name)) return true;
    return false;
}

fn lastOf(path: []const []const u8) []const u8 {
    return if (path.len > 0) path[path.len - 1] else "";
}

fn equal(path: []const []const u8, other: []const []const u8) bool {
    if (path.len != other.len) return false;
    for (path, other) |name, another| if (!common.is(name, another)) return false;
    return true;
}

fn hashOf(namespaces: []const []const u8, name: []const u8) u64 {
    var state = std.hash.Wyhash.init(0);
    for (namespaces) |namespace| {
        state.update(namespace);
        state.update("::");
    }
    state.update(name);
    return state.final();
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
    const extra = try std.mem.concat(allocator, u8, &.{ "# 1 \"external/torch/include/more.h\" 1 3\n", left_out, "\n# 9 \"external/torch/include/all.h\" 2 3\n" });
    const needed = try std.mem.concat(allocator, u8, &.{ common_text, back, own });
    const full = try std.mem.concat(allocator, u8, &.{ common_text, extra, back, own });
    return difference(allocator, needed, full, .{ .names = &names, .joins = false }, reader);
}

test "what a source may find in a header that was left out" {
    const Case = struct { own: []const u8, left_out: []const u8, gpu: bool, host: bool };
    const cases = [_]Case{
        // A better match.
        .{ .own = "using namespace torch; int save(const Tensor& t); int f(Tensor t) { return save(t); }", .left_out = "namespace torch { int save(Tensor t); }", .host = false, .gpu = true },
        .{ .own = "int save(const at::Tensor& t); int f(at::Tensor t) { return save(t); }", .left_out = "namespace at { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "int f(at::Tensor t) { return save(t, 1); }", .left_out = "namespace at { long save(Tensor t); }", .host = true, .gpu = true },
        .{ .own = "int f(at::Tensor t) { return save<at::Tensor>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = false, .gpu = false },
        .{ .own = "void f() { save<<<1, 2>>>(t); }", .left_out = "namespace at { template <class T> void save(T); }", .host = true, .gpu = true },
        .{ .own = "int save(int a); int f(at::Tensor t) { return t.save(1) + t->save(1); }", .left_out = "namespace at { long save(Tensor t); }", .host = true, .gpu = true },
        .{ .own = "auto f = &at::save;", .left_out = "namespace at { long save(Tensor t); }", .host = false, .gpu = false },
        .{ .own = "namespace at { namespace native { int view(int); int f() { return view(1); } } }", .left_out = "namespace at { namespace native { long view(int x); } }", .host = false, .gpu = false },
        .{ .own = "int f() { return view(1); }", .left_out = "namespace at { namespace native { long view(int x); } }", .host = true, .gpu = true },
        // A call on the host tells a GPU nothing but its type.
        .{ .own = "auto f() { return torch::add(t); }", .left_out = "namespace torch { at::Tensor add(at::Tensor a); }", .host = false, .gpu = true },
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
        // Operators and specialisations.
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o << t; }", .left_out = "namespace at { std::ostream& operator<<(std::ostream& o, std::string s); }", .host = false, .gpu = true },
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o << t; }", .left_out = "struct X { }; namespace at { std::ostream& operator<<(std::ostream& o, X s); }", .host = true, .gpu = true },
        .{ .own = "void g(std::ostream& o, at::Tensor t) { o + t; }", .left_out = "namespace at { std::ostream& operator<<(std::ostream& o, std::string s); }", .host = true, .gpu = true },
        .{ .own = "std::hash<at::Tensor> h;", .left_out = "namespace std { template <> struct hash<at::Tensor> { }; }", .host = false, .gpu = false },
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
        // Whatever a `#line` says, the file is the project's.
        .{ .needed = "# 1 \"external/b.h\"\nint y;", .full = "# 1 \"external/b.h\"\nint z;", .same = false },
        .{ .needed = "R\"(\n# 1 \"external/b.h\" 1\n)\" y;", .full = "R\"(\n# 1 \"external/b.h\" 1\n)\" z;", .same = false },
    };
    for (cases) |case| {
        const needed = try std.mem.concat(a, u8, &.{ text, case.needed });
        const full = try std.mem.concat(a, u8, &.{ text, case.full });
        const found = try difference(a, needed, full, .{ .names = &names, .joins = false }, .host);
        try std.testing.expectEqual(case.same, found == null);
    }
}
