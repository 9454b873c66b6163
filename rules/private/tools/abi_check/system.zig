//! Reads which symbols the libraries of the system define, and in which versions: rules/private/policy/system_symbols.txt,
//! which system.py writes there.
const std = @import("std");
const common = @import("common");

/// What a library defines: a symbol, and the names of its versions with blanks between them.
pub const Library = struct {
    cpu: []const u8,
    name: []const u8,
    symbols: std.StringHashMap([]const u8),

    fn has(self: *const Library, symbol: []const u8, version: []const u8) bool {
        var versions = std.mem.tokenizeScalar(u8, self.symbols.get(symbol) orelse return false, ' ');
        while (versions.next()) |one| if (common.is(one, version)) return true;
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
        for (self.libraries) |*one| {
            if (common.is(one.cpu, cpu) and common.is(one.name, library)) return true;
        }
        return false;
    }

    /// Whether some library defines a symbol in a version. The loader compares the version's name, and not whose it is:
    /// newer releases of glibc have moved symbols from one library to another.
    pub fn defines(self: *const System, cpu: []const u8, symbol: []const u8, version: []const u8) bool {
        for (self.libraries) |*one| {
            if (common.is(one.cpu, cpu) and one.has(symbol, version)) return true;
        }
        return false;
    }

    /// The library that defines a symbol in any version.
    pub fn definer(self: *const System, cpu: []const u8, symbol: []const u8) ?[]const u8 {
        for (self.libraries) |*one| {
            if (common.is(one.cpu, cpu) and one.symbols.contains(symbol)) return one.name;
        }
        return null;
    }
};

fn damaged(path: []const u8) common.Failure {
    return common.fail("{s}: not a table of the system's symbols", .{path});
}
