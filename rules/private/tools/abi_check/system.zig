//! Reads the symbols of the system's libraries, with their versions: rules/private/policy/system_symbols.txt, which
//! system.py beside it writes.
const std = @import("std");
const common = @import("common");

/// The symbols of a library, with the names of their versions separated by blanks.
pub const Library = struct {
    cpu: []const u8,
    name: []const u8,
    symbols: std.StringHashMap([]const u8),

    fn has(self: *const Library, symbol: []const u8, version: []const u8) bool {
        var versions = std.mem.tokenizeScalar(u8, self.symbols.get(symbol) orelse return false, ' ');
        while (versions.next()) |candidate| if (common.is(candidate, version)) return true;
        return false;
    }
};

pub const System = struct {
    libraries: []const Library = &.{},

    pub fn read(allocator: std.mem.Allocator, path: []const u8) !System {
        var found = std.ArrayList(Library).init(allocator);
        var lines = std.mem.tokenizeScalar(u8, try common.read(allocator, path), '\n');
        while (lines.next()) |line| {
            if (line[0] == '#') continue;
            const blank = std.mem.indexOfScalar(u8, line, ' ') orelse return damaged(path);
            if (line[0] == '[') {
                if (line[line.len - 1] != ']') return damaged(path);
                try found.append(.{
                    .cpu = line[1..blank],
                    .name = line[blank + 1 .. line.len - 1],
                    .symbols = std.StringHashMap([]const u8).init(allocator),
                });
            } else {
                if (found.items.len == 0) return damaged(path);
                try found.items[found.items.len - 1].symbols.put(line[0..blank], line[blank + 1 ..]);
            }
        }
        return .{ .libraries = found.items };
    }

    /// Whether the symbols of a library are recorded.
    pub fn knows(self: *const System, cpu: []const u8, library: []const u8) bool {
        for (self.libraries) |*recorded| {
            if (common.is(recorded.cpu, cpu) and common.is(recorded.name, library)) return true;
        }
        return false;
    }

    /// Whether any library defines a symbol in a version. The loader compares the name of the version, not the library:
    /// newer releases of glibc have moved symbols between libraries.
    pub fn defines(self: *const System, cpu: []const u8, symbol: []const u8, version: []const u8) bool {
        for (self.libraries) |*library| {
            if (common.is(library.cpu, cpu) and library.has(symbol, version)) return true;
        }
        return false;
    }

    /// The library that defines a symbol in any version.
    pub fn definer(self: *const System, cpu: []const u8, symbol: []const u8) ?[]const u8 {
        for (self.libraries) |*library| {
            if (common.is(library.cpu, cpu) and library.symbols.contains(symbol)) return library.name;
        }
        return null;
    }
};

fn damaged(path: []const u8) common.Failure {
    return common.fail("{s}: not a table of the system's symbols", .{path});
}
