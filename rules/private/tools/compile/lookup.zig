//! Whether a search for the names that a project mentions could find a declaration.
const std = @import("std");
const common = @import("common");
const declarations = @import("declarations.zig");
const Mentions = @import("mentions.zig").Mentions;

/// For whom a text is.
pub const Reader = enum {
    host,
    /// A GPU, for which headers are left out that only code of the host uses.
    gpu,
};

/// What headers declare, and where.
pub const Found = struct {
    /// The number of the file, and whether it is one of the project's own.
    file: usize,
    own: bool,
    /// How many words of the project's files stand before it.
    after: usize,
    namespaces: []const []const u8,
    declaration: declarations.Declaration,

    pub fn is(self: Found, what: declarations.What) bool {
        return self.declaration.what == what;
    }

    /// What another declaration of the same has in common with it.
    pub fn key(self: Found) u64 {
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

/// What the text with the headers that are needed declares, to tell what the other one has besides; where a number is kept,
/// it is that of the words of the project's files before the first such declaration.
pub const Known = struct {
    allocator: std.mem.Allocator,
    mentions: *const Mentions,
    /// Declarations, see `Found.key`.
    keys: std.AutoHashMap(u64, usize),
    /// Types, variables and namespaces, with theirs, and those of the types that are defined.
    entities: std.AutoHashMap(u64, usize),
    defined: std.AutoHashMap(u64, usize),
    /// The entities by the last namespace.
    names: std.AutoHashMap(u64, usize),
    /// All names with their namespaces, and without.
    here: std.AutoHashMap(u64, usize),
    anywhere: std.StringHashMap(void),
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
    /// Templates and all else that the text of all headers declares, less specialisations, with their namespaces.
    primary: std.AutoHashMap(u64, void),

    /// Args: `needed` and `full`, the declarations of the texts with the headers that are needed and with all; of the
    /// project's own files functions alone.
    pub fn init(allocator: std.mem.Allocator, needed: []const Found, full: []const Found, mentions: *const Mentions) !Known {
        var self = Known{
            .allocator = allocator,
            .mentions = mentions,
            .keys = std.AutoHashMap(u64, usize).init(allocator),
            .entities = std.AutoHashMap(u64, usize).init(allocator),
            .defined = std.AutoHashMap(u64, usize).init(allocator),
            .names = std.AutoHashMap(u64, usize).init(allocator),
            .here = std.AutoHashMap(u64, usize).init(allocator),
            .anywhere = std.StringHashMap(void).init(allocator),
            .functions = std.AutoHashMap([2]u64, void).init(allocator),
            .typed = std.AutoHashMap(u64, void).init(allocator),
            .searches = std.StringHashMap(std.ArrayList([]const u8)).init(allocator),
            .opened = std.StringHashMap(void).init(allocator),
            .foreign = std.StringHashMap(void).init(allocator),
            .primary = std.AutoHashMap(u64, void).init(allocator),
            .foreign_entities = std.AutoHashMap(u64, void).init(allocator),
        };
        for (needed) |found| try self.add(found);
        for (full) |found| try self.addFull(found);
        for (mentions.aliases.items) |alias| try self.search(alias[0], alias[1]);
        for (needed) |found| {
            const name = found.declaration.name;
            if (found.declaration.defined or mentions.names.contains(name)) _ = self.foreign.remove(name);
        }
        try self.reach("", &self.opened);
        var opened = mentions.opened.keyIterator();
        while (opened.next()) |name| try self.reach(name.*, &self.opened);
        return self;
    }

    fn add(self: *Known, found: Found) !void {
        const path = found.namespaces;
        const name = found.declaration.name;
        if (!found.own) try note(&self.keys, found.key(), found.after);
        try note(&self.here, hashOf(path, name), found.after);
        try self.anywhere.put(name, {});
        switch (found.declaration.what) {
            .directive => {},
            .function, .operator => if (found.declaration.type_hash != 0)
                try self.functions.put(.{ hashOf(&.{}, name), found.declaration.type_hash }, {}),
            .entity, .specialisation, .namespace, .using => {
                if (found.is(.entity)) try self.typed.put(hashOf(path, ""), {});
                try note(&self.entities, hashOf(path, name), found.after);
                try note(&self.names, hashOf(&.{lastOf(path)}, name), found.after);
                if (found.declaration.defined) try note(&self.defined, hashOf(path, name), found.after);
            },
        }
    }

    fn note(map: *std.AutoHashMap(u64, usize), key: u64, after: usize) !void {
        const found = try map.getOrPut(key);
        found.value_ptr.* = if (found.found_existing) @min(found.value_ptr.*, after) else after;
    }

    /// Whether something is declared in time: before the project's files have more words than before a declaration of the
    /// other text, or before they mention its name.
    fn inTime(self: *const Known, map: *const std.AutoHashMap(u64, usize), key: u64, found: Found) bool {
        const after = map.get(key) orelse return false;
        const mention = self.mentions.names.get(found.declaration.name);
        return after <= found.after or (mention != null and after <= mention.?.first);
    }

    fn search(self: *Known, from: []const u8, to: []const u8) !void {
        const others = try self.searches.getOrPut(from);
        if (!others.found_existing) others.value_ptr.* = std.ArrayList([]const u8).init(self.allocator);
        try others.value_ptr.append(to);
    }

    fn addFull(self: *Known, found: Found) !void {
        const path = found.namespaces;
        const name = found.declaration.name;
        if (!found.is(.specialisation)) try self.primary.put(hashOf(path, name), {});
        if (found.is(.directive)) {
            try self.search(lastOf(path), name);
        } else if (found.own) {
            return;
        } else if (found.declaration.defined and !self.defined.contains(hashOf(path, name))) {
            try self.foreign.put(name, {});
            try self.foreign_entities.put(hashOf(path, name), {});
        }
    }

    /// Whether a declaration of the other text may be what a search of the project's files finds.
    pub fn hides(self: *const Known, found: Found, reader: Reader) !bool {
        if (self.inTime(&self.keys, found.key(), found)) return false;
        const path = found.namespaces;
        const declaration = found.declaration;
        const name = declaration.name;
        const mentions = self.mentions;
        // For the GPU, a call on the host is as good as another one of the same type.
        if (reader == .gpu and !mentions.sees(declaration) and
            self.functions.contains(.{ hashOf(&.{}, name), declaration.type_hash })) return false;
        switch (declaration.what) {
            .directive => return self.opened.contains(lastOf(path)),
            .operator => return mentions.uses(name) and !self.isForeign(found) and self.belongs(path) and
                !(reader == .gpu and isStream(declaration.types) and !mentions.sees(declaration)),
            .specialisation => return self.hasTemplate(found) and !self.isForeign(found) and
                (mentions.names.contains(name) or mentions.all(declaration.types)),
            .entity, .namespace, .using, .function => {},
        }
        // <iostream> has an object for each file, which makes streams ready before what that file constructs.
        if (common.is(name, "__ioinit")) return !self.inTime(&self.entities, hashOf(path, name), found);
        const mention = mentions.names.get(name) orelse return false;
        const called = mention.arity & declaration.arity != 0;
        if (declaration.what != .function and self.inTime(if (declaration.defined) &self.defined else &self.entities, hashOf(path, name), found)) return false;
        // It is what a search of the other namespace finds anyway.
        if (declaration.what == .using and self.inTime(&self.names, hashOf(&.{declaration.from}, name), found) and
            try self.reaches(lastOf(path), declaration.from)) return false;
        const is_open = for (path) |namespace| {
            if (!self.opened.contains(namespace)) break false;
        } else true;
        if (is_open and (mention.plain or mention.global or called)) return true;
        if (path.len == 0) return mention.global;
        if (called and declaration.what == .function and self.belongs(path)) return true;
        for (path[0 .. path.len - 1]) |namespace| {
            if (!self.opened.contains(namespace) and !mentions.names.contains(namespace)) return false;
        }
        for (mention.within.keys()) |within| {
            if (try self.reaches(within, lastOf(path))) return true;
        }
        return false;
    }

    /// Whether a template that is specialised may be one that both texts have; it may be named with its namespaces.
    fn hasTemplate(self: *const Known, found: Found) bool {
        const key = hashOf(found.namespaces, found.declaration.name);
        return self.here.contains(key) or (self.anywhere.contains(found.declaration.name) and !self.primary.contains(key));
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
    return common.isAny(types[0], &.{ "basic_istream", "basic_ostream", "istream", "ostream" });
}

fn lastOf(path: []const []const u8) []const u8 {
    return if (path.len > 0) path[path.len - 1] else "";
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
