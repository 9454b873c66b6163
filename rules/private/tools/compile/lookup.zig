//! Decides whether a search for the names that a project mentions could find a declaration.
const std = @import("std");
const common = @import("common");
const declarations = @import("declarations.zig");
const Mentions = @import("mentions.zig").Mentions;

/// The target of a text.
pub const Reader = enum {
    host,
    /// A GPU, for which headers are omitted that only host code uses.
    gpu,
};

/// A declaration, and its position.
pub const Found = struct {
    /// The number of the file, and whether it is the project's own.
    file: usize,
    own: bool,
    /// The number of words of the project's files before it.
    after: usize,
    namespaces: []const []const u8,
    declaration: declarations.Declaration,

    pub fn is(self: Found, what: declarations.What) bool {
        return self.declaration.what == what;
    }

    /// A key that declarations of the same entity share.
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

/// The declarations of the text with the needed headers, to find the additional ones of the other text. A number is
/// that of the words of the project's files before the first such declaration.
pub const Known = struct {
    allocator: std.mem.Allocator,
    mentions: *const Mentions,
    /// Declarations, see `Found.key`.
    keys: std.AutoHashMap(u64, usize),
    /// Types, variables and namespaces, with their namespaces, and the defined types.
    entities: std.AutoHashMap(u64, usize),
    defined: std.AutoHashMap(u64, usize),
    /// The entities by their last namespace.
    names: std.AutoHashMap(u64, usize),
    /// All names with their namespaces, and without.
    here: std.AutoHashMap(u64, usize),
    anywhere: std.StringHashMap(void),
    /// The names of functions, with their types.
    functions: std.AutoHashMap([2]u64, void),
    /// The types of the project's own functions by name: 0 if they differ, or for a type that is not compared.
    own_types: std.StringHashMap(u64),
    /// Namespaces with types: a call searches the namespaces of its arguments.
    typed: std.AutoHashMap(u64, void),
    /// The namespaces that a namespace searches, by their last names, in the text with all headers.
    searches: std.StringHashMap(std.ArrayList([]const u8)),
    /// Namespaces that the project's files search implicitly, and the namespaces that these search.
    opened: std.StringHashMap(void),
    /// Types that can have values only with all headers: names, and names with their namespaces.
    foreign: std.StringHashMap(void),
    foreign_entities: std.AutoHashMap(u64, void),
    /// All declarations of the text with all headers, except specialisations, with their namespaces.
    primary: std.AutoHashMap(u64, void),

    /// Args: `needed` and `full`, the declarations of the texts with the needed headers and with all headers; of the
    /// project's own files only functions.
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
            .own_types = std.StringHashMap(u64).init(allocator),
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
        if (found.own and found.is(.function)) {
            const own = try self.own_types.getOrPut(name);
            const same = !own.found_existing or own.value_ptr.* == found.declaration.type_hash;
            own.value_ptr.* = if (same) found.declaration.type_hash else 0;
        }
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

    /// Whether an entity is declared in time: not after the position of a declaration of the other text, or before the
    /// project's files mention its name.
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

    /// Whether a search of the project's files may find a declaration of the other text.
    pub fn hides(self: *const Known, found: Found, reader: Reader) !bool {
        if (self.inTime(&self.keys, found.key(), found)) return false;
        const path = found.namespaces;
        const declaration = found.declaration;
        const name = declaration.name;
        const mentions = self.mentions;
        // For the GPU, calls on the host are equivalent if they have the same type, whichever overload is called.
        if (reader == .gpu and !mentions.sees(declaration) and
            (self.own_types.get(name) orelse declaration.type_hash) == declaration.type_hash and
            self.functions.contains(.{ hashOf(&.{}, name), declaration.type_hash })) return false;
        switch (declaration.what) {
            .directive => return self.opened.contains(lastOf(path)),
            .operator => return mentions.uses(name) and !self.isForeign(found) and self.belongs(path) and
                !(reader == .gpu and isStream(declaration.types) and !mentions.sees(declaration)),
            .specialisation => return self.hasTemplate(found) and !self.isForeign(found) and
                (mentions.names.contains(name) or mentions.all(declaration.types)),
            .entity, .namespace, .using, .function => {},
        }
        // <iostream> has an object for each file, which initialises streams before the file's own objects.
        if (common.is(name, "__ioinit")) return !self.inTime(&self.entities, hashOf(path, name), found);
        const mention = mentions.names.get(name) orelse return false;
        const called = mention.arity & declaration.arity != 0;
        if (declaration.what != .function and self.inTime(if (declaration.defined) &self.defined else &self.entities, hashOf(path, name), found)) return false;
        // A search of the other namespace finds it anyway.
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

    /// Whether a specialised template may be in both texts; its name may include its namespaces.
    fn hasTemplate(self: *const Known, found: Found) bool {
        const key = hashOf(found.namespaces, found.declaration.name);
        return self.here.contains(key) or (self.anywhere.contains(found.declaration.name) and !self.primary.contains(key));
    }

    fn isForeign(self: *const Known, found: Found) bool {
        for (found.declaration.types) |name|
            if (self.foreign.contains(name) or self.foreign_entities.contains(hashOf(found.namespaces, name))) return true;
        return false;
    }

    /// Whether a value may have a type of the namespace, so that a call with it searches there: any function of torch
    /// may return a type of an outer namespace; others only count if the project's files mention them.
    fn belongs(self: *const Known, path: []const []const u8) bool {
        const outer = path.len <= 1 or (path.len == 2 and common.is(path[0], "torch") and common.is(path[1], "autograd"));
        return self.typed.contains(hashOf(path, "")) and (outer or self.mentions.all(path));
    }

    fn reaches(self: *const Known, from: []const u8, to: []const u8) !bool {
        var reached = std.StringHashMap(void).init(self.allocator);
        try self.reach(from, &reached);
        return reached.contains(to);
    }

    /// Adds a namespace, and the namespaces that it searches.
    fn reach(self: *const Known, name: []const u8, into: *std.StringHashMap(void)) !void {
        const entry = try into.getOrPut(name);
        if (entry.found_existing) return;
        if (self.searches.get(name)) |others| for (others.items) |other| try self.reach(other, into);
    }
};

/// Whether an operator reads or writes a stream: it is only for the host, and returns the stream.
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
