//! Writes an object file of data, which the linker puts beside the code that uses it. So the code is not compiled again
//! when the data changes.
//!
//! Layout: System V ABI, chapter 4.
const std = @import("std");
const common = @import("common");
const elf = std.elf;

/// The section where the CUDA runtime looks for device code.
pub const device_section = ".nv_fatbin";

/// The number of an object's sections, including the empty first section.
const section_count = 5;

/// The names of sections and of the symbol, in a single table.
const Names = struct {
    bytes: std.ArrayList(u8),

    fn add(self: *Names, name: []const u8) !u32 {
        const at: u32 = @intCast(self.bytes.items.len);
        try self.bytes.appendSlice(name);
        try self.bytes.append(0);
        return at;
    }
};

/// Writes an object with a read-only section of data and a symbol at its start. The symbol is hidden: libraries do not
/// export it.
pub fn write(
    allocator: std.mem.Allocator,
    path: []const u8,
    cpu: elf.EM,
    section: []const u8,
    alignment: u64,
    symbol: []const u8,
    content: []const u8,
) !void {
    const size = std.mem.alignForward(u64, content.len, @sizeOf(u64));
    const start = std.mem.alignForward(u64, @sizeOf(elf.Elf64_Ehdr), alignment);
    var names = Names{ .bytes = std.ArrayList(u8).init(allocator) };
    _ = try names.add("");
    const symbols = [_]elf.Elf64_Sym{ std.mem.zeroes(elf.Elf64_Sym), .{
        .st_name = try names.add(symbol),
        .st_info = elf.STB_GLOBAL << 4 | elf.STT_OBJECT,
        .st_other = @intFromEnum(elf.STV.HIDDEN),
        .st_shndx = 1,
        .st_value = 0,
        .st_size = size,
    } };
    const table = start + size;
    var sections = [section_count]elf.Elf64_Shdr{
        std.mem.zeroes(elf.Elf64_Shdr),
        header(try names.add(section), elf.SHT_PROGBITS, start, size, alignment),
        // No executable stack is needed.
        header(try names.add(".note.GNU-stack"), elf.SHT_PROGBITS, table, 0, 1),
        header(try names.add(".symtab"), elf.SHT_SYMTAB, table, @sizeOf(@TypeOf(symbols)), @alignOf(elf.Elf64_Sym)),
        header(try names.add(".strtab"), elf.SHT_STRTAB, table + @sizeOf(@TypeOf(symbols)), 0, 1),
    };
    sections[1].sh_flags = elf.SHF_ALLOC;
    sections[3].sh_link = 4;
    sections[3].sh_info = 1;
    sections[3].sh_entsize = @sizeOf(elf.Elf64_Sym);
    sections[4].sh_size = names.bytes.items.len;
    const headers = std.mem.alignForward(u64, sections[4].sh_offset + sections[4].sh_size, @alignOf(elf.Elf64_Shdr));
    var first = std.mem.zeroes(elf.Elf64_Ehdr);
    first.e_ident[0..8].* = .{ 0x7f, 'E', 'L', 'F', elf.ELFCLASS64, elf.ELFDATA2LSB, 1, 0 };
    first.e_type = .REL;
    first.e_machine = cpu;
    first.e_version = 1;
    first.e_shoff = headers;
    first.e_ehsize = @sizeOf(elf.Elf64_Ehdr);
    first.e_shentsize = @sizeOf(elf.Elf64_Shdr);
    first.e_shnum = sections.len;
    first.e_shstrndx = sections.len - 1;
    const bytes = try allocator.alloc(u8, headers + @sizeOf(@TypeOf(sections)));
    @memset(bytes, 0);
    put(bytes, 0, std.mem.asBytes(&first));
    put(bytes, start, content);
    put(bytes, table, std.mem.asBytes(&symbols));
    put(bytes, sections[4].sh_offset, names.bytes.items);
    put(bytes, headers, std.mem.asBytes(&sections));
    try common.write(path, bytes);
}

/// The data of an object of `write`, up to the alignment of its size; null for another object, which has more sections.
pub fn data(object: []const u8) ?[]const u8 {
    if (object.len < @sizeOf(elf.Elf64_Ehdr)) return null;
    const first = std.mem.bytesToValue(elf.Elf64_Ehdr, object[0..@sizeOf(elf.Elf64_Ehdr)]);
    if (first.e_type != .REL or first.e_shnum != section_count) return null;
    const at = first.e_shoff + @sizeOf(elf.Elf64_Shdr);
    const section = std.mem.bytesToValue(elf.Elf64_Shdr, object[at..][0..@sizeOf(elf.Elf64_Shdr)]);
    return object[section.sh_offset..][0..section.sh_size];
}

fn header(name: u32, kind: u32, offset: u64, size: u64, alignment: u64) elf.Elf64_Shdr {
    var section = std.mem.zeroes(elf.Elf64_Shdr);
    section.sh_name = name;
    section.sh_type = kind;
    section.sh_offset = offset;
    section.sh_size = size;
    section.sh_addralign = alignment;
    return section;
}

fn put(bytes: []u8, offset: u64, part: []const u8) void {
    @memcpy(bytes[offset..][0..part.len], part);
}

test "data comes back" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const allocator = arena.allocator();
    var directory = std.testing.tmpDir(.{});
    defer directory.cleanup();
    const path = try std.fs.path.join(allocator, &.{ try directory.dir.realpathAlloc(allocator, "."), "a.o" });
    try write(allocator, path, .X86_64, device_section, 8, "code", "12345678abc");
    const object = try common.read(allocator, path);
    try std.testing.expectEqualStrings("12345678abc\x00\x00\x00\x00\x00", data(object).?);
    try std.testing.expectEqual(null, data(object[0..10]));
}
