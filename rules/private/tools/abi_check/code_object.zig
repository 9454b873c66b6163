//! Checks that device code is well-formed: an ELF file for a GPU, with its parts where its headers say and only zeros
//! between them; or PTX, a text for its architecture.
//!
//! Instructions have no structure to check: an overwritten byte in them is not found.
const std = @import("std");
const elf = @import("elf.zig");

const header_size = @sizeOf(std.elf.Elf64_Ehdr);
const section_size = @sizeOf(std.elf.Elf64_Shdr);
const segment_size = @sizeOf(std.elf.Elf64_Phdr);
const symbol_size = @sizeOf(std.elf.Elf64_Sym);
/// The flags of a segment: readable, writable, executable.
const all_flags = 7;
/// More sections than there are kernels in a file.
const most_sections = 1 << 20;

/// The ELF machine of CUDA; std.elf has another name for the number.
pub const cuda = 190;
const nv_info = 0x70000000;
/// The form of an entry of `.nv.info` with a size and that many bytes; other forms fit into the four bytes of the head.
const sized = 4;
const forms = 4;

const Section = struct { name: u64, kind: u32, offset: u64, size: u64, link: u32, entry: u64 };
const Range = struct {
    start: u64,
    end: u64,

    fn before(_: void, a: Range, b: Range) bool {
        return a.start < b.start;
    }
};

/// Checks an ELF file for a machine.
pub fn check(allocator: std.mem.Allocator, data: []const u8, machine: u16) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    const identity = try bytes.part(0, 8);
    if (!elf.Library.isElf(data) or identity[4] != std.elf.ELFCLASS64 or identity[5] != std.elf.ELFDATA2LSB or
        identity[6] != 1) return error.Malformed;
    if (try bytes.int(u16, 18) != machine or try bytes.int(u16, 52) != header_size) return error.Malformed;
    var ranges = std.ArrayList(Range).init(allocator);
    try ranges.append(.{ .start = 0, .end = header_size });
    const count = try bytes.int(u16, 56);
    if (count > 0) try segments(bytes, count, &ranges);
    try sections(allocator, bytes, try bytes.int(u64, 40), &ranges);
    std.mem.sort(Range, ranges.items, {}, Range.before);
    var end: u64 = 0;
    for (ranges.items) |range| {
        if (range.start > end) try zeros(try bytes.part(end, range.start - end));
        end = @max(end, range.end);
    }
    try zeros(data[@min(end, data.len)..]);
}

/// Fails unless all bytes are zero.
pub fn zeros(data: []const u8) elf.Error!void {
    for (data) |byte| if (byte != 0) return error.Malformed;
}

fn segments(bytes: elf.Bytes, count: u16, ranges: *std.ArrayList(Range)) elf.Error!void {
    const start = try bytes.int(u64, 32);
    if (try bytes.int(u16, 54) != segment_size) return error.Malformed;
    const table = elf.Bytes{ .data = try bytes.part(start, @as(u64, count) * segment_size) };
    try ranges.append(.{ .start = start, .end = start + table.data.len });
    for (0..count) |i| {
        const at = i * segment_size;
        const size = try table.int(u64, at + 32);
        _ = try bytes.part(try table.int(u64, at + 8), size);
        if (try table.int(u64, at + 40) < size or try table.int(u32, at + 4) > all_flags) return error.Malformed;
    }
}

fn sections(allocator: std.mem.Allocator, bytes: elf.Bytes, start: u64, ranges: *std.ArrayList(Range)) elf.Error!void {
    var count: u64 = try bytes.int(u16, 60);
    var named: u32 = try bytes.int(u16, 62);
    if (count == 0) count = try bytes.int(u64, std.math.add(u64, start, 32) catch return error.Malformed);
    if (named == 0xffff) named = try bytes.int(u32, std.math.add(u64, start, 40) catch return error.Malformed);
    if (try bytes.int(u16, 58) != section_size or count == 0 or count > most_sections or named >= count) return error.Malformed;
    const table = elf.Bytes{ .data = try bytes.part(start, count * section_size) };
    try ranges.append(.{ .start = start, .end = start + table.data.len });
    const found = try allocator.alloc(Section, count);
    for (found, 0..) |*section, i| {
        const at = i * section_size;
        section.* = .{
            .name = try table.int(u32, at),
            .kind = try table.int(u32, at + 4),
            .offset = try table.int(u64, at + 24),
            .size = try table.int(u64, at + 32),
            .link = try table.int(u32, at + 40),
            .entry = try table.int(u64, at + 56),
        };
        const alignment = try table.int(u64, at + 48);
        if (alignment > 1 and (!std.math.isPowerOfTwo(alignment) or section.offset % alignment != 0)) return error.Malformed;
        if (i == 0 or section.kind == std.elf.SHT_NOBITS or section.kind == std.elf.SHT_NULL) continue;
        _ = try bytes.part(section.offset, section.size);
        try ranges.append(.{ .start = section.offset, .end = section.offset + section.size });
    }
    const names = try content(bytes, found[named]);
    for (found) |section| {
        _ = try text(names, section.name);
        switch (section.kind) {
            std.elf.SHT_SYMTAB, std.elf.SHT_DYNSYM => try symbols(bytes, found, section),
            std.elf.SHT_REL, std.elf.SHT_RELA => try relocations(bytes, found, section),
            std.elf.SHT_NOTE => try notes(try content(bytes, section)),
            nv_info => try attributes(try content(bytes, section)),
            else => {},
        }
    }
}

fn content(bytes: elf.Bytes, section: Section) elf.Error![]const u8 {
    if (section.kind == std.elf.SHT_NOBITS) return error.Malformed;
    return bytes.part(section.offset, section.size);
}

/// A name in a table. Names are printable: compilers encode letters beyond ASCII.
fn text(table: []const u8, at: u64) elf.Error![]const u8 {
    if (at >= table.len) return error.Malformed;
    const end = std.mem.indexOfScalarPos(u8, table, at, 0) orelse return error.Malformed;
    for (table[at..end]) |c| if (!std.ascii.isPrint(c)) return error.Malformed;
    return table[at..end];
}

fn symbols(bytes: elf.Bytes, all: []const Section, section: Section) elf.Error!void {
    if (section.link >= all.len or section.size % symbol_size != 0) return error.Malformed;
    const names = try content(bytes, all[section.link]);
    const table = elf.Bytes{ .data = try content(bytes, section) };
    for (0..section.size / symbol_size) |i| {
        const at = i * symbol_size;
        _ = try text(names, try table.int(u32, at));
        const section_index = try table.int(u16, at + 6);
        const info = try table.int(u8, at + 4);
        if (info >> 4 > std.elf.STB_WEAK and info >> 4 < std.elf.STB_LOOS) return error.Malformed;
        if (section_index < std.elf.SHN_LORESERVE and section_index >= all.len) return error.Malformed;
        if (info & 15 != std.elf.STT_FUNC or section_index == 0 or section_index >= all.len) continue;
        // The size of a function is that of its code; its address depends on whether the file is linked.
        if (try table.int(u64, at + 16) > all[section_index].size) return error.Malformed;
    }
}

fn relocations(bytes: elf.Bytes, all: []const Section, section: Section) elf.Error!void {
    const entry: u64 = if (section.kind == std.elf.SHT_RELA) 24 else 16;
    if (section.entry != entry or section.size % entry != 0) return error.Malformed;
    if (section.link >= all.len) return error.Malformed;
    const count = all[section.link].size / symbol_size;
    const table = elf.Bytes{ .data = try content(bytes, section) };
    for (0..section.size / entry) |i| {
        if (try table.int(u64, i * entry + 8) >> 32 >= @max(1, count)) return error.Malformed;
    }
}

/// Notes: the sizes of a name and of its description, a number, the name and the description.
fn notes(data: []const u8) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    var at: u64 = 0;
    while (at < data.len) {
        const name = try bytes.part(at + 12, try bytes.int(u32, at));
        const size = try bytes.int(u32, at + 4);
        if (name.len > 0) _ = try text(name, 0);
        at += 12 + std.mem.alignForward(u64, name.len, 4);
        _ = try bytes.part(at, size);
        at += std.mem.alignForward(u64, size, 4);
    }
}

/// The attributes of kernels in `.nv.info`: entries with a form, a number, and a value or its size.
fn attributes(data: []const u8) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    var at: u64 = 0;
    while (at < data.len) {
        const form = try bytes.int(u8, at);
        if (form == 0 or form > forms) return error.Malformed;
        const size: u64 = if (form == sized) try bytes.int(u16, at + 2) else 0;
        _ = try bytes.part(at + 4, size);
        at += 4 + size;
    }
}

/// Checks PTX for an architecture, e.g. `90a`.
pub fn checkText(data: []const u8, arch: []const u8) elf.Error!void {
    const whole = std.mem.trimRight(u8, data, "\x00");
    for (whole) |c| {
        if (c < ' ' and std.mem.indexOfScalar(u8, "\t\n\r", c) == null) return error.Malformed;
    }
    if (std.mem.indexOf(u8, whole, ".version ") == null) return error.Malformed;
    const target = ".target sm_";
    const at = std.mem.indexOf(u8, whole, target) orelse return error.Malformed;
    const rest = whole[at + target.len ..];
    if (!std.mem.startsWith(u8, rest, arch)) return error.Malformed;
    if (rest.len > arch.len and std.ascii.isAlphanumeric(rest[arch.len])) return error.Malformed;
}

test "PTX is text for its architecture" {
    try checkText(".version 9.0\n.target sm_90a, debug\n.address_size 64\n\x00", "90a");
    for ([_][]const u8{ "", ".version 9.0\n.target sm_90\n", ".version 9.0\n.target sm_90ab\n", ".target sm_90a\n", "\x01.version 9.0\n.target sm_90a\n" }) |bad|
        try std.testing.expectError(error.Malformed, checkText(bad, "90a"));
}
