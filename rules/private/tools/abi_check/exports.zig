//! Reads the symbols that the libraries of each torch release define: toolchains/lock/torch_exports.bin, written by
//! py_driver/matrix/torch_symbols.py, which documents the layout.
const std = @import("std");
const common = @import("common");

const hash_size = 4;

const Column = struct { torch: []const u8, sha256: []const u8, abi: []const u8, backend: []const u8 };
const Head = struct { columns: []const Column, count: usize };

/// Bit i stands for column i.
pub const Mask = u64;

pub const Exports = struct {
    columns: []const Column,
    hashes: []const u8,
    masks: []const u8,

    pub fn read(allocator: std.mem.Allocator, path: []const u8) !Exports {
        const data = try common.read(allocator, path);
        const end = std.mem.indexOfScalar(u8, data, '\n') orelse return damaged(path);
        const head = std.json.parseFromSliceLeaky(Head, allocator, data[0..end], .{}) catch return damaged(path);
        const width = (head.columns.len + 7) / 8;
        const rest = data[end + 1 ..];
        if (width > @sizeOf(Mask) or rest.len != head.count * (hash_size + width)) return damaged(path);
        const split = head.count * hash_size;
        return .{ .columns = head.columns, .hashes = rest[0..split], .masks = rest[split..] };
    }

    /// The columns that define a symbol.
    pub fn definers(self: *const Exports, symbol: []const u8) Mask {
        var digest: [32]u8 = undefined;
        std.crypto.hash.sha2.Sha256.hash(symbol, &digest, .{});
        const wanted = std.mem.readInt(u32, digest[0..hash_size], .little);
        var low: usize = 0;
        var high = self.hashes.len / hash_size;
        while (low < high) {
            const middle = low + (high - low) / 2;
            const found = std.mem.readInt(u32, self.hashes[middle * hash_size ..][0..hash_size], .little);
            if (found == wanted) return self.mask(middle);
            if (found < wanted) low = middle + 1 else high = middle;
        }
        return 0;
    }

    /// The columns of a release, for a wheel and a C++ ABI; those of the CUDA libraries only with `gpu`.
    pub fn of(self: *const Exports, torch: []const u8, wheel: ?[]const u8, abi: ?[]const u8, gpu: bool) Mask {
        var found: Mask = 0;
        for (self.columns, 0..) |column, i| {
            if (!common.is(column.torch, torch) or (wheel != null and !common.is(column.sha256, wheel.?))) continue;
            if (abi != null and !common.is(column.abi, abi.?)) continue;
            if (gpu or common.is(column.backend, "cpu")) found |= bit(i);
        }
        return found;
    }

    /// The releases of a set of columns, e.g. `2.4, 2.5, 2.6`; empty for none.
    pub fn releases(self: *const Exports, allocator: std.mem.Allocator, set: Mask) ![]const u8 {
        var text = std.ArrayList(u8).init(allocator);
        var last: []const u8 = "";
        for (self.columns, 0..) |column, i| {
            if (set & bit(i) == 0 or common.is(column.torch, last)) continue;
            if (last.len > 0) try text.appendSlice(", ");
            try text.appendSlice(column.torch);
            last = column.torch;
        }
        return text.items;
    }

    fn mask(self: *const Exports, index: usize) Mask {
        const width = self.masks.len / (self.hashes.len / hash_size);
        var value: Mask = 0;
        for (self.masks[index * width ..][0..width], 0..) |byte, i| value |= @as(Mask, byte) << @intCast(i * 8);
        return value;
    }
};

fn bit(column: usize) Mask {
    return @as(Mask, 1) << @intCast(column);
}

fn damaged(path: []const u8) common.Failure {
    return common.fail("{s}: not a table of torch's symbols", .{path});
}
