//! Equal texts: the device compiler's front end reads a text once for all architectures with the same text.
const std = @import("std");
const common = @import("common");

/// The content of a file in place of a text, or of an output made from it; the name of the architecture with the same
/// content follows.
pub const same = "same as ";

/// The maximum length of such a line.
pub const longest = same.len + 16;

/// The functions that the front end (of CUDA 13.0 and later) compiles differently for different architectures, even
/// from equal texts: it uses another scope or order if an architecture lacks one. Any other dependency on the
/// architecture is an error there, according to the messages in cicc.
const builtin = "__nv_atomic_";

/// Names in CUDA's headers with this prefix that are no such functions.
const helpers = [_][]const u8{ "enable_if", "triv_cp_helper" };

/// Whether an architecture has the bitcode dialect of compute_100 and later (`-nvvm-version` of cicc).
fn dialect(arch: []const u8) !bool {
    const digits = std.mem.trimRight(u8, arch, "af");
    return (std.fmt.parseInt(u32, digits, 10) catch return common.fail("no number: {s}", .{arch})) >= 100;
}

/// A text to make, for the host or for the architecture with a number, and nvcc's option for it.
pub const Text = struct { arch: ?[]const u8, out: []const u8, gencode: []const u8 };

/// Replaces each text that is equal to a lower architecture's text by a line with that architecture.
pub fn share(allocator: std.mem.Allocator, all_texts: []const Text) !void {
    const Content = struct { arch: []const u8, text: []const u8 };
    var lower = std.ArrayList(Content).init(allocator);
    for (all_texts) |text| {
        const arch = text.arch orelse continue;
        const content = try common.read(allocator, text.out);
        if (depends(content)) continue;
        for (lower.items) |other| {
            if (try dialect(other.arch) != try dialect(arch) or !common.is(content, other.text)) continue;
            try common.write(text.out, try std.mem.concat(allocator, u8, &.{ same, other.arch }));
            break;
        } else try lower.append(.{ .arch = arch, .text = content });
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

/// `--arch NUMBER BITCODE STUB BITCODE_TO_WRITE STUB_TO_WRITE` for each architecture: replaces a line with another
/// architecture by that architecture's output. `--stub TO_WRITE`: the stub of the last architecture.
pub fn spread(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const Output = struct { bitcode: []const u8, stub: []const u8 };
    const Wanted = struct { arch: []const u8, bitcode: []const u8, stub: []const u8 };
    var outputs = std.StringHashMap(Output).init(allocator);
    var wanted = std.ArrayList(Wanted).init(allocator);
    var last: []const u8 = "";
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--stub")) {
            last = value;
        } else if (common.is(flag, "--arch")) {
            try outputs.put(value, .{
                .bitcode = try common.read(allocator, try arguments.value(flag)),
                .stub = try common.read(allocator, try arguments.value(flag)),
            });
            try wanted.append(.{ .arch = value, .bitcode = try arguments.value(flag), .stub = try arguments.value(flag) });
        } else return common.fail("spread: no such flag: {s}", .{flag});
    }
    for (wanted.items, 1..) |output, count| {
        var found = outputs.get(output.arch).?;
        if (std.mem.startsWith(u8, found.bitcode, same))
            found = outputs.get(found.bitcode[same.len..]) orelse return common.fail("spread: nothing is {s}", .{found.bitcode});
        try common.write(output.bitcode, found.bitcode);
        try common.write(output.stub, found.stub);
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
