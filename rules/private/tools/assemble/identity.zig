//! The unique id of a kernel and backend: a hash of its sources and of the settings that all variants share.
const std = @import("std");
const common = @import("common");

/// Raised with every change of the form of the hashed bytes.
const format = "rules_torch_kernels id 1";
/// Hexadecimal digits of the hash in the id: 48 bits.
const digits = 12;

/// Writes the id `_<module>_<backend>_<hash>` as text and as a C header that defines TORCH_EXTENSION_NAME, and
/// TORCH_EXTENSION_NAME_IS_LINKED, because objects with the id are linked (registration.h).
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var backend: []const u8 = "";
    var module: []const u8 = "";
    var header: []const u8 = "";
    var text: []const u8 = "";
    var hash = std.crypto.hash.sha2.Sha256.init(.{});
    field(&hash, format);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--src")) {
            field(&hash, try arguments.value(flag));
            field(&hash, try common.read(allocator, try arguments.value(flag)));
            continue;
        }
        const value = try arguments.value(flag);
        if (common.is(flag, "--backend")) {
            backend = value;
            field(&hash, value);
        } else if (common.is(flag, "--module")) {
            module = value;
            field(&hash, value);
        } else if (common.is(flag, "--config")) {
            field(&hash, value);
        } else if (common.is(flag, "--header")) {
            header = value;
        } else if (common.is(flag, "--text")) {
            text = value;
        } else return common.fail("id: no such flag: {s}", .{flag});
    }
    const hex = std.fmt.bytesToHex(hash.finalResult(), .lower);
    const id = try std.fmt.allocPrint(allocator, "_{s}_{s}_{s}", .{ module, backend, hex[0..digits] });
    try common.write(text, id);
    try common.write(header, try std.fmt.allocPrint(allocator, "#define TORCH_EXTENSION_NAME {s}\n#define TORCH_EXTENSION_NAME_IS_LINKED\n", .{id}));
}

/// Adds a field with its length before it, so that different lists of fields have different bytes.
fn field(hash: *std.crypto.hash.sha2.Sha256, bytes: []const u8) void {
    var length: [8]u8 = undefined;
    std.mem.writeInt(u64, &length, bytes.len, .little);
    hash.update(&length);
    hash.update(bytes);
}
