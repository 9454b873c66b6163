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

/// Replaces each text that a lower architecture has too by a line that names it.
pub fn share(allocator: std.mem.Allocator, archs: []const []const u8, paths: []const []const u8) !void {
    var contents = std.ArrayList([]const u8).init(allocator);
    for (paths, archs, 0..) |path, arch, i| {
        const text = try common.read(allocator, path);
        try contents.append(text);
        if (depends(text)) continue;
        for (contents.items[0..i], archs[0..i]) |other, lower| {
            if (try dialect(lower) != try dialect(arch) or !common.is(text, other)) continue;
            try common.write(path, try std.mem.concat(allocator, u8, &.{ same, lower }));
            break;
        }
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
    var made = std.StringHashMap(Made).init(allocator);
    const start = arguments.at;
    var last: []const u8 = "";
    for (0..2) |pass| {
        arguments.at = start;
        while (arguments.next()) |flag| {
            if (common.is(flag, "--stub")) {
                const path = try arguments.value(flag);
                if (pass == 1) try common.write(path, last);
                continue;
            }
            if (!common.is(flag, "--arch")) return common.fail("spread: no such flag: {s}", .{flag});
            const arch = try arguments.value(flag);
            const bitcode = try arguments.value(flag);
            const stub = try arguments.value(flag);
            const to_bitcode = try arguments.value(flag);
            const to_stub = try arguments.value(flag);
            if (pass == 0) {
                try made.put(arch, .{ .bitcode = try common.read(allocator, bitcode), .stub = try common.read(allocator, stub) });
                continue;
            }
            var one = made.get(arch).?;
            if (std.mem.startsWith(u8, one.bitcode, same))
                one = made.get(one.bitcode[same.len..]) orelse return common.fail("spread: nothing is {s}", .{one.bitcode});
            try common.write(to_bitcode, one.bitcode);
            try common.write(to_stub, one.stub);
            last = one.stub;
        }
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
