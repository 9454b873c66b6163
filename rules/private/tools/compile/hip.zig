//! Bundles the code objects of all architectures for HIP's runtime.
const std = @import("std");
const common = @import("common");
const object = @import("object.zig");

/// The runtime expects an entry for the host first; it is empty.
const host = "host-x86_64-unknown-linux-gnu-";
/// The runtime maps code objects directly from the bundle.
const alignment = 4096;

const Code = struct { name: []const u8, content: []const u8 };

/// Writes a bundle as an object, with the symbol that clang's host code uses if clang gets no bundle: its name contains
/// the option `-cuid` (CGCUDANV.cpp and ASTContext::getCUIDHash of LLVM).
pub fn bundle(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var out: []const u8 = "";
    var cuid: []const u8 = "";
    var codes = std.ArrayList(Code).init(allocator);
    try codes.append(.{ .name = host, .content = "" });
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--out")) {
            out = value;
        } else if (common.is(flag, "--cuid")) {
            cuid = value;
        } else if (common.is(flag, "--code")) {
            const name = try std.mem.concat(allocator, u8, &.{ common.hip_bundle.prefix, value });
            try codes.append(.{ .name = name, .content = try common.read(allocator, try arguments.value(flag)) });
        } else return common.fail("hip-bundle: no such flag: {s}", .{flag});
    }
    if (cuid.len == 0) return common.fail("hip-bundle: --cuid is missing", .{});
    var head = std.ArrayList(u8).init(allocator);
    const writer = head.writer();
    try writer.writeAll(common.hip_bundle.magic);
    try writer.writeInt(u64, codes.items.len, .little);
    var at: u64 = alignment;
    for (codes.items) |code| {
        try writer.writeInt(u64, at, .little);
        try writer.writeInt(u64, code.content.len, .little);
        try writer.writeInt(u64, code.name.len, .little);
        try writer.writeAll(code.name);
        at = std.mem.alignForward(u64, at + code.content.len, alignment);
    }
    if (head.items.len > alignment) return common.fail("hip-bundle: too many architectures", .{});
    var text = std.ArrayList(u8).init(allocator);
    try text.appendSlice(head.items);
    for (codes.items) |code| {
        try text.appendNTimes(0, std.mem.alignForward(u64, text.items.len, alignment) - text.items.len);
        try text.appendSlice(code.content);
    }
    var digest: [16]u8 = undefined;
    std.crypto.hash.Md5.hash(cuid, &digest, .{});
    const symbol = try std.fmt.allocPrint(allocator, "__hip_fatbin_{x}", .{std.mem.readInt(u64, digest[0..8], .little)});
    try object.write(allocator, out, .X86_64, ".hip_fatbin", alignment, symbol, text.items);
}
