//! Equal texts: the front end of the device compiler reads each once, for all architectures that have it.
const std = @import("std");
const common = @import("common");

/// What stands in a file in place of a text, or of what was made of it, followed by the name of the architecture that has
/// the same.
pub const same = "same as ";

/// More than such a line is never long.
pub const longest = same.len + 16;

/// What the front end (of CUDA 13.0 and later) compiles in another way for another architecture though the text is equal:
/// it falls back to another scope or order where an architecture lacks one. All else that depends on the architecture is
/// an error there, as the messages in cicc say.
const builtin = "__nv_atomic_";

/// Names in CUDA's headers that begin so and are none.
const helpers = [_][]const u8{ "enable_if", "triv_cp_helper" };

/// Bitcode has two dialects: one from compute_100 on, and one below (`-nvvm-version` of cicc).
fn dialect(arch: []const u8) !bool {
    const digits = std.mem.trimRight(u8, arch, "af");
    return (std.fmt.parseInt(u32, digits, 10) catch return common.fail("no number: {s}", .{arch})) >= 100;
}

/// A text to make: for the host, or for the architecture with a number, as an option for nvcc names it.
pub const Text = struct { arch: ?[]const u8, out: []const u8, gencode: []const u8 };

/// Replaces each text that a lower architecture has too by a line that names it.
pub fn share(allocator: std.mem.Allocator, made: []const Text) !void {
    const Content = struct { arch: []const u8, text: []const u8 };
    var lower = std.ArrayList(Content).init(allocator);
    for (made) |one| {
        const arch = one.arch orelse continue;
        const text = try common.read(allocator, one.out);
        if (depends(text)) continue;
        for (lower.items) |other| {
            if (try dialect(other.arch) != try dialect(arch) or !common.is(text, other.text)) continue;
            try common.write(one.out, try std.mem.concat(allocator, u8, &.{ same, other.arch }));
            break;
        } else try lower.append(.{ .arch = arch, .text = text });
    }
}

fn depends(text: []const u8) bool {
    var at: usize = 0;
    search: while (std.mem.indexOfPos(u8, text, at, builtin)) |found| {
        at = found + builtin.len;
        for (helpers) |name| if (std.mem.startsWith(u8, text[at..], name)) continue :search;
        return true;
    }
    return false;
}

/// `--arch NUMBER BITCODE STUB BITCODE_TO_WRITE STUB_TO_WRITE` for each architecture: in place of a line that names another
/// one, what was made for that. `--stub TO_WRITE`: the stub of the last one.
pub fn spread(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const Made = struct { bitcode: []const u8, stub: []const u8 };
    const Wanted = struct { arch: []const u8, bitcode: []const u8, stub: []const u8 };
    var made = std.StringHashMap(Made).init(allocator);
    var wanted = std.ArrayList(Wanted).init(allocator);
    var last: []const u8 = "";
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--stub")) {
            last = value;
        } else if (common.is(flag, "--arch")) {
            try made.put(value, .{
                .bitcode = try common.read(allocator, try arguments.value(flag)),
                .stub = try common.read(allocator, try arguments.value(flag)),
            });
            try wanted.append(.{ .arch = value, .bitcode = try arguments.value(flag), .stub = try arguments.value(flag) });
        } else return common.fail("spread: no such flag: {s}", .{flag});
    }
    for (wanted.items, 1..) |one, count| {
        var found = made.get(one.arch).?;
        if (std.mem.startsWith(u8, found.bitcode, same))
            found = made.get(found.bitcode[same.len..]) orelse return common.fail("spread: nothing is {s}", .{found.bitcode});
        try common.write(one.bitcode, found.bitcode);
        try common.write(one.stub, found.stub);
        if (count == wanted.items.len) try common.write(last, found.stub);
    }
}

test "texts that depend on the architecture" {
    try std.testing.expect(!depends("struct __nv_atomic_enable_if { }; __nv_atomic_triv_cp_helper<T>"));
    try std.testing.expect(depends("__nv_atomic_enable_if; __nv_atomic_fetch_add(p, 1, 0, 0);"));
}

test "dialects" {
    for ([_][]const u8{ "75", "90a", "99" }) |arch| try std.testing.expect(!try dialect(arch));
    for ([_][]const u8{ "100", "100f", "121a" }) |arch| try std.testing.expect(try dialect(arch));
}
