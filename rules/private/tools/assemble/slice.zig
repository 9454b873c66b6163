//! Removes device code from an object; the code for the requested GPU architectures stays.
//!
//! Such an object has only device code: fat binaries of nvcc (layout: abi_check/device.zig), or a bundle for HIP's
//! runtime. Compressed code stays compressed.
const std = @import("std");
const common = @import("common");
const elf = std.elf;

const fatbin_magic = 0xba55ed50;
const fatbin_header = 16;
const shortest_entry = 48;
const kind_ptx = 1;
const kind_elf = 2;
/// HIP's runtime maps code objects directly from a bundle.
const page = 4096;
const padding = 8;

/// `slice --in OBJECT --out OBJECT [--keep ARCH]...`, with architectures as `sm_90`, `compute_90` or `gfx942:xnack-`.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var keep = std.ArrayList([]const u8).init(allocator);
    var in: []const u8 = "";
    var out: []const u8 = "";
    while (arguments.next()) |flag| {
        const value = try arguments.value(flag);
        if (common.is(flag, "--in")) {
            in = value;
        } else if (common.is(flag, "--out")) {
            out = value;
        } else if (common.is(flag, "--keep")) {
            try keep.append(value);
        } else return common.fail("slice: no such flag: {s}", .{flag});
    }
    const object = sliced(allocator, try common.read(allocator, in), keep.items) catch |err| switch (err) {
        error.Malformed => return common.fail("slice: {s} is not an object with only device code", .{in}),
        else => return err,
    };
    try common.write(out, object);
}

/// An object with only the code for the architectures in `keep`: its first section becomes smaller, and the rest moves.
fn sliced(allocator: std.mem.Allocator, object: []const u8, keep: []const []const u8) ![]u8 {
    var first = try read(elf.Elf64_Ehdr, object, 0);
    if (!std.mem.startsWith(u8, object, elf.MAGIC) or first.e_type != .REL) return error.Malformed;
    const sections = try allocator.alloc(elf.Elf64_Shdr, first.e_shnum);
    if (sections.len < 2) return error.Malformed;
    for (sections, 0..) |*section, i|
        section.* = try read(elf.Elf64_Shdr, object, first.e_shoff + i * @sizeOf(elf.Elf64_Shdr));
    const content = try part(object, sections[1].sh_offset, sections[1].sh_size);
    const left = if (std.mem.startsWith(u8, content, common.hip_bundle.magic))
        try bundle(allocator, content, keep)
    else
        try fatbins(allocator, content, keep);
    const end = sections[1].sh_offset + content.len;
    const new_end = sections[1].sh_offset + left.len;
    const smaller = try std.mem.concat(allocator, u8, &.{ object[0..sections[1].sh_offset], left, object[end..] });
    first.e_shoff = try moved(first.e_shoff, end, new_end);
    for (sections[2..]) |*section| section.sh_offset = try moved(section.sh_offset, end, new_end);
    sections[1].sh_size = left.len;
    @memcpy(smaller[0..@sizeOf(elf.Elf64_Ehdr)], std.mem.asBytes(&first));
    @memcpy(smaller[first.e_shoff..][0 .. sections.len * @sizeOf(elf.Elf64_Shdr)], std.mem.sliceAsBytes(sections));
    for (sections) |section| {
        if (section.sh_type != elf.SHT_SYMTAB) continue;
        var at = section.sh_offset;
        while (at < section.sh_offset + section.sh_size) : (at += @sizeOf(elf.Elf64_Sym)) {
            var symbol = try read(elf.Elf64_Sym, smaller, at);
            if (symbol.st_shndx == 1 and symbol.st_size == content.len) symbol.st_size = left.len;
            @memcpy(smaller[at..][0..@sizeOf(elf.Elf64_Sym)], std.mem.asBytes(&symbol));
        }
    }
    return smaller;
}

fn moved(offset: u64, end: u64, new_end: u64) !u64 {
    return if (offset < end) error.Malformed else offset - end + new_end;
}

/// Fat binaries with only the entries of the kept architectures, padded to eight bytes.
fn fatbins(allocator: std.mem.Allocator, content: []const u8, keep: []const []const u8) ![]const u8 {
    var kept = std.ArrayList(u8).init(allocator);
    var at: u64 = 0;
    while (at + fatbin_header <= content.len) {
        if (try read(u32, content, at) != fatbin_magic or try read(u16, content, at + 6) != fatbin_header)
            return error.Malformed;
        const all = try part(content, at + fatbin_header, try read(u64, content, at + 8));
        const begins = kept.items.len;
        try kept.appendSlice(content[at..][0..fatbin_header]);
        var entry: u64 = 0;
        while (entry < all.len) {
            const header = try read(u32, all, entry + 4);
            const size = try read(u64, all, entry + 8);
            if (header < shortest_entry or size > all.len) return error.Malformed;
            const bytes = try part(all, entry, header + size);
            if (isKept(try read(u16, all, entry), try read(u32, all, entry + 28), keep)) try kept.appendSlice(bytes);
            entry += bytes.len;
        }
        std.mem.writeInt(u64, kept.items[begins + 8 ..][0..8], kept.items.len - begins - fatbin_header, .little);
        try pad(&kept, padding);
        at += fatbin_header + std.mem.alignForward(u64, all.len, padding);
    }
    for (content[@min(at, content.len)..]) |byte| if (byte != 0) return error.Malformed;
    return kept.items;
}

/// Whether an entry stays. A fat binary has no two entries of the same kind and number: the code for a GPU must be
/// unique.
fn isKept(kind: u16, number: u32, keep: []const []const u8) bool {
    var buffer: [32]u8 = undefined;
    const prefix = switch (kind) {
        kind_elf => "sm_",
        kind_ptx => "compute_",
        else => return false,
    };
    const name = std.fmt.bufPrint(&buffer, "{s}{d}", .{ prefix, number }) catch return false;
    for (keep) |arch| if (common.is(std.mem.trimRight(u8, arch, "af"), name)) return true;
    return false;
}

/// A bundle with the empty entry of the host and the entries of the kept architectures.
fn bundle(allocator: std.mem.Allocator, content: []const u8, keep: []const []const u8) ![]const u8 {
    const start = common.hip_bundle.magic.len;
    var names = std.ArrayList([]const u8).init(allocator);
    var codes = std.ArrayList([]const u8).init(allocator);
    var at: u64 = start + 8;
    for (0..try read(u64, content, start)) |_| {
        const name = try part(content, at + 24, try read(u64, content, at + 16));
        const code = try part(content, try read(u64, content, at), try read(u64, content, at + 8));
        at += 24 + name.len;
        if (std.mem.startsWith(u8, name, common.hip_bundle.prefix) and
            !common.isAny(name[common.hip_bundle.prefix.len..], keep)) continue;
        try names.append(name);
        try codes.append(code);
    }
    var smaller = std.ArrayList(u8).init(allocator);
    try smaller.appendSlice(common.hip_bundle.magic);
    try smaller.writer().writeInt(u64, names.items.len, .little);
    var offset: u64 = page;
    for (names.items, codes.items) |name, code| {
        for ([_]u64{ offset, code.len, name.len }) |number| try smaller.writer().writeInt(u64, number, .little);
        try smaller.appendSlice(name);
        offset = std.mem.alignForward(u64, offset + code.len, page);
    }
    for (codes.items) |code| {
        try pad(&smaller, page);
        try smaller.appendSlice(code);
    }
    try pad(&smaller, padding);
    return smaller.items;
}

fn pad(bytes: *std.ArrayList(u8), alignment: u64) !void {
    try bytes.appendNTimes(0, std.mem.alignForward(u64, bytes.items.len, alignment) - bytes.items.len);
}

fn part(bytes: []const u8, at: u64, size: u64) ![]const u8 {
    return if (at > bytes.len or size > bytes.len - at) error.Malformed else bytes[at..][0..size];
}

fn read(comptime T: type, bytes: []const u8, at: u64) !T {
    return std.mem.bytesToValue(T, (try part(bytes, at, @sizeOf(T)))[0..@sizeOf(T)]);
}

/// An entry of a fat binary.
fn entryOf(comptime kind: u16, comptime number: u32, comptime body: []const u8) []const u8 {
    return std.mem.asBytes(&[_]u16{ kind, 0x101, shortest_entry + 16, 0 }) ++ std.mem.asBytes(&[_]u64{ body.len, 0 }) ++
        std.mem.asBytes(&[_]u32{ 0, number }) ++ std.mem.asBytes(&[_]u64{ 0, 0, 0, 0 }) ++ body;
}

fn fatbinOf(comptime content: []const u8) []const u8 {
    return std.mem.asBytes(&[_]u32{ fatbin_magic, fatbin_header << 16 | 1 }) ++ std.mem.asBytes(&[_]u64{content.len}) ++ content;
}

test "a fat binary keeps some entries" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const low = comptime entryOf(kind_elf, 80, "80808080");
    const high = comptime entryOf(kind_elf, 90, "90909090");
    const ptx = comptime entryOf(kind_ptx, 90, "ptxptxpt");
    const both = comptime fatbinOf(low ++ high ++ ptx);
    const kept = try fatbins(arena.allocator(), both ++ both, &.{ "sm_90a", "compute_90a" });
    try std.testing.expectEqualSlices(u8, comptime fatbinOf(high ++ ptx) ++ fatbinOf(high ++ ptx), kept);
    try std.testing.expectEqualSlices(u8, comptime fatbinOf(low), try fatbins(arena.allocator(), both, &.{"sm_80"}));
    try std.testing.expectError(error.Malformed, fatbins(arena.allocator(), both[0 .. both.len - 8], &.{"sm_80"}));
    try std.testing.expectError(error.Malformed, fatbins(arena.allocator(), "no fat binary...", &.{"sm_80"}));
}
