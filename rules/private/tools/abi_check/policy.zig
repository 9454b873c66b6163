//! The dependencies that the ABI check allows, read from the files of rules/private/policy.
const std = @import("std");
const common = @import("common");

/// A library that an extension may need.
pub const Allowed = struct {
    /// The name; `#` stands for a number such as `13` or `11.0`.
    name: []const u8,
    /// For a library of CUDA or ROCm, the prefixes of its symbols, separated by blanks.
    prefixes: []const u8,

    pub fn is(self: *const Allowed, library: []const u8) bool {
        return matches(self.name, library);
    }
};

pub const Policy = struct {
    /// The newest allowed version, e.g. `2.28`, by family of symbol versions, e.g. `GLIBC`.
    families: std.StringHashMap([]const u8),
    /// The first Python with a symbol of the stable ABI.
    python: std.StringHashMap([]const u8),
    /// The oldest Python that must load a library.
    oldest_python: []const u8 = "0",
    /// The first torch with a function of its C shim, except functions of the first shim.
    shims: std.StringHashMap([]const u8),
    /// The libraries that an extension may need.
    libraries: []const Allowed = &.{},
    /// Weak symbols that may stay undefined; `*` at the end matches any text.
    weak: []const []const u8 = &.{},

    pub fn init(allocator: std.mem.Allocator) Policy {
        return .{
            .families = std.StringHashMap([]const u8).init(allocator),
            .python = std.StringHashMap([]const u8).init(allocator),
            .shims = std.StringHashMap([]const u8).init(allocator),
        };
    }

    /// The family of a symbol version, and the newest allowed version.
    pub fn familyOf(self: *const Policy, version: []const u8) struct { []const u8, ?[]const u8 } {
        const family = version[0 .. std.mem.indexOfScalar(u8, version, '_') orelse version.len];
        return .{ family, self.families.get(family) };
    }

    /// Whether a library may need a symbol version, e.g. `GLIBC_2.28`.
    pub fn judge(self: *const Policy, version: []const u8) enum { allowed, unknown, private, newer } {
        const family, const limit = self.familyOf(version);
        const is_newer = newer(version[@min(version.len, family.len + 1)..], limit orelse return .unknown) orelse return .private;
        return if (is_newer) .newer else .allowed;
    }

    /// Whether a weak symbol may stay undefined.
    pub fn isKnownWeak(self: *const Policy, symbol: []const u8) bool {
        for (self.weak) |known| {
            if (std.mem.endsWith(u8, known, "*")) {
                if (std.mem.startsWith(u8, symbol, known[0 .. known.len - 1])) return true;
            } else if (common.is(symbol, known)) return true;
        }
        return false;
    }

    pub fn allowsLibrary(self: *const Policy, name: []const u8) bool {
        for (self.libraries) |library| {
            if (library.is(name)) return true;
        }
        return false;
    }

    /// Whether a library belongs to CUDA or ROCm.
    pub fn isOfGpu(self: *const Policy, name: []const u8) bool {
        for (self.libraries) |library| {
            if (library.prefixes.len > 0 and library.is(name)) return true;
        }
        return false;
    }

    /// The library of CUDA or ROCm with the longest prefix of a symbol. No lower-case letter follows a prefix: `cuInit`
    /// has the prefix `cu`, `custom` does not.
    pub fn libraryLike(self: *const Policy, symbol: []const u8) ?Allowed {
        var found: ?Allowed = null;
        var longest: usize = 0;
        for (self.libraries) |library| {
            var prefixes = std.mem.tokenizeScalar(u8, library.prefixes, ' ');
            while (prefixes.next()) |prefix| {
                if (prefix.len <= longest or !std.mem.startsWith(u8, symbol, prefix)) continue;
                if (symbol.len > prefix.len and std.ascii.isLower(symbol[prefix.len])) continue;
                found = library;
                longest = prefix.len;
            }
        }
        return found;
    }
};

/// The libraries of a file: on each line a name, and the prefixes of the library's symbols.
pub fn readLibraries(allocator: std.mem.Allocator, path: []const u8) ![]const Allowed {
    var found = std.ArrayList(Allowed).init(allocator);
    for (try readLines(allocator, path)) |line| {
        const blank = std.mem.indexOfScalar(u8, line, ' ') orelse line.len;
        try found.append(.{ .name = line[0..blank], .prefixes = line[blank..] });
    }
    return found.items;
}

/// Reads the lines of a file, split at the first blank; `#` begins a comment line.
pub fn readTable(allocator: std.mem.Allocator, path: []const u8, table: *std.StringHashMap([]const u8)) !void {
    for (try readLines(allocator, path)) |line| {
        const blank = std.mem.indexOfScalar(u8, line, ' ') orelse
            return common.fail("{s}: not a name and a version: {s}", .{ path, line });
        try table.put(line[0..blank], line[blank + 1 ..]);
    }
}

/// The lines of a file, without comments.
pub fn readLines(allocator: std.mem.Allocator, path: []const u8) ![]const []const u8 {
    var found = std.ArrayList([]const u8).init(allocator);
    var lines = std.mem.tokenizeScalar(u8, try common.read(allocator, path), '\n');
    while (lines.next()) |line| {
        if (line[0] != '#') try found.append(line);
    }
    return found.items;
}

/// Whether a version is newer than another; null if either is not a list of numbers.
pub fn newer(version: []const u8, limit: []const u8) ?bool {
    var ours = std.mem.splitScalar(u8, version, '.');
    var theirs = std.mem.splitScalar(u8, limit, '.');
    var verdict: ?bool = null;
    while (true) {
        const part = ours.next();
        const other = theirs.next();
        if (part == null and other == null) return verdict orelse false;
        const a = std.fmt.parseInt(u32, part orelse "0", 10) catch return null;
        const b = std.fmt.parseInt(u32, other orelse "0", 10) catch return null;
        if (verdict == null and a != b) verdict = a > b;
    }
}

fn matches(pattern: []const u8, name: []const u8) bool {
    const hole = std.mem.indexOfScalar(u8, pattern, '#') orelse return common.is(pattern, name);
    if (!std.mem.startsWith(u8, name, pattern[0..hole])) return false;
    const rest = name[hole..];
    if (rest.len == 0 or !std.mem.endsWith(u8, rest, pattern[hole + 1 ..])) return false;
    const number = rest[0 .. rest.len - (pattern.len - hole - 1)];
    for (number) |c| {
        if (!std.ascii.isDigit(c) and c != '.') return false;
    }
    return number.len > 0 and std.ascii.isDigit(number[0]);
}

test "newer versions" {
    const cases = [_]struct { version: []const u8, limit: []const u8, newer: ?bool }{
        .{ .version = "2.28", .limit = "2.28", .newer = false },
        .{ .version = "2.29", .limit = "2.28", .newer = true },
        .{ .version = "2.9", .limit = "2.10", .newer = false },
        .{ .version = "3.4.30", .limit = "3.4.3", .newer = true },
        .{ .version = "3", .limit = "2.28", .newer = true },
        .{ .version = "2.0", .limit = "2", .newer = false },
        .{ .version = "2.0.1", .limit = "2", .newer = true },
        .{ .version = "1.9.x", .limit = "2", .newer = null },
        .{ .version = "2", .limit = "", .newer = null },
        .{ .version = "PRIVATE", .limit = "2.28", .newer = null },
    };
    for (cases) |case| try std.testing.expectEqual(case.newer, newer(case.version, case.limit));
}

test "names of libraries" {
    for ([_][]const u8{ "libcudart.so.13", "libcudart.so.11.0" }) |name| try std.testing.expect(matches("libcudart.so.#", name));
    for ([_][]const u8{ "libcudart.so.", "libcudart.so", "libcudart.so..", "libcudart.so.1a", "libcuda.so.1" }) |name|
        try std.testing.expect(!matches("libcudart.so.#", name));
    try std.testing.expect(matches("libc.so.6", "libc.so.6"));
    try std.testing.expect(!matches("libc.so.6", "libc.so.66"));
}
