//! Decompresses the entries of a fat binary: blocks of LZ4, and frames of Zstandard from CUDA 12.8 on.
//!
//! Layout: lz4_Block_format.md of LZ4; RFC 8878.
const std = @import("std");
const elf = @import("elf.zig");

/// Larger than any PTX or cubin of a kernel.
const most = 1 << 30;
const shortest_match = 4;

/// The content of a frame of Zstandard; fails if its size is not `size`.
pub fn zstandard(allocator: std.mem.Allocator, data: []const u8, size: u64) elf.Error![]const u8 {
    if (size > most) return error.Malformed;
    const output = try allocator.alloc(u8, size);
    const written = std.compress.zstd.decompress.decode(output, data, true) catch return error.Malformed;
    return if (written == size) output else error.Malformed;
}

/// The content of a block of LZ4; fails if its size is not `size`.
pub fn lz4(allocator: std.mem.Allocator, data: []const u8, size: u64) elf.Error![]const u8 {
    if (size > most) return error.Malformed;
    const bytes = elf.Bytes{ .data = data };
    var output = try std.ArrayList(u8).initCapacity(allocator, size);
    var at: u64 = 0;
    while (at < data.len) {
        const token = try bytes.int(u8, at);
        at += 1;
        const literals = try length(bytes, &at, token >> 4);
        if (literals > size - output.items.len) return error.Malformed;
        output.appendSliceAssumeCapacity(try bytes.part(at, literals));
        at += literals;
        // The last sequence has only literals.
        if (at == data.len) break;
        const distance = try bytes.int(u16, at);
        at += 2;
        const count = try length(bytes, &at, token & 15) + shortest_match;
        if (distance == 0 or distance > output.items.len or count > size - output.items.len) return error.Malformed;
        for (0..count) |_| output.appendAssumeCapacity(output.items[output.items.len - distance]);
    }
    return if (output.items.len == size) output.items else error.Malformed;
}

/// A length: further bytes follow if its four bits are all set.
fn length(bytes: elf.Bytes, at: *u64, first: u8) elf.Error!u64 {
    var total: u64 = first;
    if (first < 15) return total;
    while (true) {
        const next = try bytes.int(u8, at.*);
        at.* += 1;
        total += next;
        if (next < 255) return total;
    }
}

test "a block of LZ4" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    // `ab`, then five bytes from two before, then `cde`.
    const block = "\x21ab\x02\x00\x30cde";
    try std.testing.expectEqualStrings("abababacde", try lz4(a, block, 10));
    for ([_]u64{ 0, 9, 11, most + 1 }) |size| try std.testing.expectError(error.Malformed, lz4(a, block, size));
    for ([_][]const u8{ "\x21ab\x00\x00\x30cde", "\x21ab\x03\x00\x30cde", "\xf0\xff", "\x21ab\x02" }) |bad|
        try std.testing.expectError(error.Malformed, lz4(a, bad, 10));
}

test "a frame of Zstandard" {
    const a = std.testing.allocator;
    // `zstd` of three bytes: a raw block.
    const frame = "\x28\xb5\x2f\xfd\x20\x03\x19\x00\x00abc";
    const output = try zstandard(a, frame, 3);
    defer a.free(output);
    try std.testing.expectEqualStrings("abc", output);
}
