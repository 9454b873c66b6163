//! Assembles directories: a variant in the layout that the `kernels` client loads, and the bundle of all variants.
const std = @import("std");
const common = @import("common");

const Value = std.json.Value;

/// Writes a variant directory: the files, the extension under its unique name, and metadata.json with the files'
/// digests and the version of these rules.
pub fn variant(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var id: []const u8 = "";
    var template: []const u8 = "";
    var builder: []const u8 = "";
    var out: []const u8 = "";
    var names = std.ArrayList([]const u8).init(allocator);
    var paths = std.ArrayList([]const u8).init(allocator);
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--id")) {
            id = try common.read(allocator, value);
        } else if (common.is(flag, "--template")) {
            template = try common.read(allocator, value);
        } else if (common.is(flag, "--builder")) {
            builder = value;
        } else if (common.is(flag, "--out")) {
            out = value;
        } else if (common.is(flag, "--file")) {
            try names.append(value);
            try paths.append(try arguments.value(flag));
        } else if (common.is(flag, "--extension")) {
            try names.append(try std.fmt.allocPrint(allocator, "{s}{s}", .{ id, value }));
            try paths.append(try arguments.value(flag));
        } else return common.fail("variant: no such flag: {s}", .{flag});
    }
    const root = try open(out);
    var digests = std.json.ObjectMap.init(allocator);
    for (names.items, paths.items) |name, path| {
        var content: []const u8 = try common.read(allocator, path);
        if (common.is(name, "_ops.py")) content = try std.mem.replaceOwned(u8, allocator, content, "@ID@", id);
        try put(root, name, content);
        try digests.put(name, .{ .string = try digest(allocator, content) });
    }
    var metadata = std.json.parseFromSliceLeaky(Value, allocator, template, .{}) catch
        return common.fail("variant: the metadata is not valid JSON", .{});
    sort(&digests);
    var record = std.json.ObjectMap.init(allocator);
    try record.put("algorithm", .{ .string = "sha256" });
    try record.put("files", .{ .object = digests });
    try metadata.object.put("digest", .{ .object = record });
    try metadata.object.put("id", .{ .string = id });
    // Keys of the client. The commit is not among them: it would change every variant with every commit.
    var version = std.json.ObjectMap.init(allocator);
    try version.put("version", .{ .string = builder });
    var provenance = std.json.ObjectMap.init(allocator);
    try provenance.put("kernel-builder", .{ .object = version });
    try metadata.object.put("provenance", .{ .object = provenance });
    sort(&metadata.object);
    const text = try std.json.stringifyAlloc(allocator, metadata, .{ .whitespace = .indent_2 });
    try put(root, "metadata.json", try std.mem.concat(allocator, u8, &.{ text, "\n" }));
}

/// Copies variant directories into a directory, each under its name.
pub fn bundle(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var out: ?std.fs.Dir = null;
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--out")) {
            out = try open(value);
        } else if (common.is(flag, "--variant")) {
            const path = try arguments.value(flag);
            const root = out orelse return common.fail("bundle: --out comes first", .{});
            var source = std.fs.cwd().openDir(path, .{ .iterate = true }) catch |err|
                return common.fail("cannot open {s}: {s}", .{ path, @errorName(err) });
            var walker = try source.walk(allocator);
            while (try walker.next()) |entry| {
                if (entry.kind == .directory) continue;
                const name = try std.fs.path.join(allocator, &.{ value, entry.path });
                try put(root, name, try source.readFileAlloc(allocator, entry.path, std.math.maxInt(usize)));
            }
        } else return common.fail("bundle: no such flag: {s}", .{flag});
    }
}

fn open(path: []const u8) !std.fs.Dir {
    return std.fs.cwd().makeOpenPath(path, .{}) catch |err|
        common.fail("cannot create {s}: {s}", .{ path, @errorName(err) });
}

fn put(root: std.fs.Dir, name: []const u8, content: []const u8) !void {
    if (std.fs.path.dirname(name)) |parent| try root.makePath(parent);
    root.writeFile(.{ .sub_path = name, .data = content }) catch |err|
        return common.fail("cannot write {s}: {s}", .{ name, @errorName(err) });
}

fn digest(allocator: std.mem.Allocator, content: []const u8) ![]const u8 {
    var hash: [32]u8 = undefined;
    std.crypto.hash.sha2.Sha256.hash(content, &hash, .{});
    const encoder = std.base64.standard.Encoder;
    return encoder.encode(try allocator.alloc(u8, encoder.calcSize(hash.len)), &hash);
}

const ByName = struct {
    names: []const []const u8,

    pub fn lessThan(self: ByName, a: usize, b: usize) bool {
        return std.mem.lessThan(u8, self.names[a], self.names[b]);
    }
};

fn sort(map: *std.json.ObjectMap) void {
    map.sort(ByName{ .names = map.keys() });
}
