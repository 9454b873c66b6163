//! Reads the symbols of the libraries of a CUDA or ROCm release, or of a Python: toolchains/lock/*.symbols, written by
//! py_driver/matrix/library_symbols.py, which documents the layout.
const std = @import("std");
const common = @import("common");

/// The symbols of a library of a release.
pub const Library = struct {
    release: []const u8,
    name: []const u8,
    symbols: std.StringHashMap(void),
};

/// Adds the libraries of a file to a list.
pub fn read(allocator: std.mem.Allocator, path: []const u8, libraries: *std.ArrayList(Library)) !void {
    var lines = std.mem.tokenizeScalar(u8, try common.read(allocator, path), '\n');
    const release = lines.next() orelse return damaged(path);
    var current: ?*Library = null;
    while (lines.next()) |line| {
        if (line[0] == '[') {
            const end = std.mem.indexOfScalar(u8, line, ']') orelse return damaged(path);
            current = try libraries.addOne();
            current.?.* = .{
                .release = release,
                .name = line[1..end],
                .symbols = std.StringHashMap(void).init(allocator),
            };
        } else try (current orelse return damaged(path)).symbols.put(line, {});
    }
}

fn damaged(path: []const u8) common.Failure {
    return common.fail("{s}: not a table of symbols", .{path});
}
