//! Makes the types of an extension its own: in an object, the names in their type information get the prefix `*`.
//!
//! Two libraries that define types of the same name share a type, for libstdc++ and for all users of type information:
//! torch's classes for Python, `dynamic_cast`, `catch`. A name that begins with `*` is compared by its address, and
//! `std::type_info::name` omits the `*`; gcc writes such names for types of a single file. A compiler must not put a
//! name that it knows into code: see `_opaque_type_names` in toolchains/cc/repository.bzl.
//!
//! Only a comparison that begins with the type with the `*` is by address. A library that another linker has linked,
//! such as upstream's build of another version, compares the text. So the text also gets the id of the kernel, as a
//! tag.
//!
//! A name goes to a section that the linker merges, so that it has a single address in the library; the name of a type
//! of a single file goes to a section that the linker does not merge. Layout: System V ABI, chapter 4.
//!
//! A function `PyInit_...` becomes visible outside of its object. PyMODINIT_FUNC makes it visible; `PyObject*
//! PyInit__C()` in a source relies on a compile without -fvisibility=hidden, such as setup.py's.
const std = @import("std");
const elf = std.elf;
const common = @import("common");
const types = @import("types.zig");

const header_size = 64;
const symbol_size = 24;
const relocation_size = 24;
const section_header_size = 64;
const prefix = "_ZTS";
/// The prefix of the function that Python calls to import a module.
const init_prefix = "PyInit_";
const section_name = ".rodata.torch_kernels_types";
/// The function that adds a type to torch's table of element types, which identifies a type by a number that compilers
/// derive from the name.
const adds_element = "_ZN6caffe28TypeMeta15addTypeMetaDataI";
/// The bits of a symbol's visibility; zero is the default visibility.
const visibility: u8 = 3;
/// Section numbers from here on do not fit into a symbol and have a table of their own.
const many_sections = 0xff00;
const in_table = 0xffff;
/// Relocations by the address of a name: R_X86_64_64 and R_AARCH64_ABS64.
const absolute = [_]u32{ 1, 257 };

/// The magic of a file of `-flto`.
const bitcode = "BC\xC0\xDE";

pub const Error = error{ Malformed, OutOfMemory, Failed };

const Section = struct { kind: u32, offset: usize, size: usize, link: u32 };

/// The place of a name in its object.
const Place = struct { section: usize, value: usize };

/// A name that changes: its symbol, and its new section and offset.
const Change = struct { symbol: usize, from: Place, is_of_file: bool, to: usize, length: usize };

/// An object with visible PyInit functions and, with `names`, with changed names of its own types; null if nothing
/// changes, or for a file that is not an object.
pub fn rewritten(allocator: std.mem.Allocator, bytes: []const u8, names: ?*const types.Names) Error!?[]const u8 {
    if (std.mem.startsWith(u8, bytes, bitcode))
        return common.fail("an object is LLVM bitcode, the output of `-flto`; compile without `-flto`", .{});
    if (bytes.len < header_size or !std.mem.startsWith(u8, bytes, elf.MAGIC) or bytes[elf.EI_CLASS] != elf.ELFCLASS64 or
        bytes[elf.EI_DATA] != elf.ELFDATA2LSB) return null;
    var object = Object{ .allocator = allocator, .bytes = bytes };
    try object.readSections();
    return object.rewrite(names);
}

const Object = struct {
    allocator: std.mem.Allocator,
    bytes: []const u8,
    section_headers: usize = 0,
    sections: []Section = &.{},
    /// The section with the names of sections.
    names_section: usize = 0,
    /// The symbol table, and the section with the numbers of sections that have no room in it.
    table: usize = 0,
    numbers: ?usize = null,

    fn readSections(self: *Object) Error!void {
        self.section_headers = try int(u64, self.bytes, 40);
        if (self.section_headers == 0) return;
        var count: usize = try int(u16, self.bytes, 60);
        self.names_section = try int(u16, self.bytes, 62);
        // A number that is too large for the header stands in the first section header.
        if (count == 0) count = try int(u64, self.bytes, self.section_headers + 32);
        if (self.names_section == in_table) self.names_section = try int(u32, self.bytes, self.section_headers + 40);
        if (count > self.bytes.len / section_header_size or self.names_section >= count) return error.Malformed;
        self.sections = try self.allocator.alloc(Section, count);
        for (self.sections, 0..) |*section, i| {
            const at = self.section_headers + i * section_header_size;
            section.* = .{
                .kind = try int(u32, self.bytes, at + 4),
                .offset = try int(u64, self.bytes, at + 24),
                .size = try int(u64, self.bytes, at + 32),
                .link = try int(u32, self.bytes, at + 40),
            };
            if (section.kind == elf.SHT_SYMTAB) self.table = i;
        }
        for (self.sections, 0..) |section, i| {
            if (section.kind == elf.SHT_SYMTAB_SHNDX and section.link == self.table) self.numbers = i;
        }
    }

    fn content(self: *const Object, index: usize) Error![]const u8 {
        if (index >= self.sections.len or self.sections[index].kind == elf.SHT_NOBITS) return error.Malformed;
        const section = self.sections[index];
        if (section.offset > self.bytes.len or section.size > self.bytes.len - section.offset) return error.Malformed;
        return self.bytes[section.offset..][0..section.size];
    }

    fn rewrite(self: *Object, all_names: ?*const types.Names) Error!?[]const u8 {
        if (self.table == 0) return null;
        const symbols = try self.content(self.table);
        const strings = try self.content(self.sections[self.table].link);
        var changes = std.ArrayList(Change).init(self.allocator);
        var hidden = std.ArrayList(usize).init(self.allocator);
        var merged = std.ArrayList(u8).init(self.allocator);
        var of_file = std.ArrayList(u8).init(self.allocator);
        var i: usize = 1;
        while ((i + 1) * symbol_size <= symbols.len) : (i += 1) {
            const name = try text(strings, try int(u32, symbols, i * symbol_size));
            const from = try self.place(symbols, i) orelse continue;
            if (isHiddenInit(name, symbols[i * symbol_size ..])) try hidden.append(i);
            const names = all_names orelse continue;
            if (std.mem.startsWith(u8, name, adds_element) and names.beginsWithOwn(name[adds_element.len..]))
                return common.fail("CAFFE_KNOWN_TYPE is not allowed for a type of the project: two versions of the kernel in a " ++
                    "process would share it; it is in {s}", .{name});
            if (!std.mem.startsWith(u8, name, prefix)) continue;
            const mangled = name[prefix.len..];
            // gcc has already written a `*` before the name of a type of a single file.
            if (!std.mem.eql(u8, try text(try self.content(from.section), from.value), mangled)) continue;
            const owner = names.owner(mangled);
            if (owner == .shared) continue;
            const is_local = symbols[i * symbol_size + 4] >> 4 == elf.STB_LOCAL;
            const is_of_file = is_local and owner == .file;
            const to = if (is_of_file) &of_file else &merged;
            try changes.append(.{
                .symbol = i,
                .from = from,
                .is_of_file = is_of_file,
                .to = to.items.len,
                .length = to.items.len,
            });
            const cut = types.tagPosition(mangled);
            try to.writer().print("*{s}B{d}{s}{s}\x00", .{ mangled[0..cut], names.tag.len, names.tag, mangled[cut..] });
            const change = &changes.items[changes.items.len - 1];
            change.length = to.items.len - change.length;
        }
        if (changes.items.len == 0 and hidden.items.len == 0) return null;
        const out = if (changes.items.len == 0)
            try self.allocator.dupe(u8, self.bytes)
        else
            try self.write(changes.items, merged.items, of_file.items);
        for (hidden.items) |symbol| {
            out[self.sections[self.table].offset + symbol * symbol_size + 5] &= ~visibility;
        }
        return out;
    }

    /// The place where a symbol is defined; null for an undefined symbol.
    fn place(self: *const Object, symbols: []const u8, index: usize) Error!?Place {
        var section: usize = try int(u16, symbols, index * symbol_size + 6);
        if (section == in_table) {
            section = try int(u32, try self.content(self.numbers orelse return error.Malformed), index * 4);
        } else if (section == 0 or section >= many_sections) return null;
        return .{ .section = section, .value = try int(u64, symbols, index * symbol_size + 8) };
    }

    fn write(self: *Object, changes: []const Change, merged: []const u8, of_file: []const u8) Error![]u8 {
        var out = std.ArrayList(u8).init(self.allocator);
        try out.appendSlice(self.bytes);
        var moved = std.AutoHashMap(Place, usize).init(self.allocator);
        for (changes) |change| {
            try moved.put(change.from, change.symbol);
            const at = self.sections[self.table].offset + change.symbol * symbol_size;
            const section = self.sections.len + @intFromBool(change.is_of_file);
            if (self.numbers) |numbers| {
                put(u16, out.items, at + 6, in_table);
                put(u32, out.items, self.sections[numbers].offset + change.symbol * 4, @intCast(section));
            } else if (section < many_sections) {
                put(u16, out.items, at + 6, @intCast(section));
            } else return error.Malformed;
            put(u64, out.items, at + 8, change.to);
            put(u64, out.items, at + 16, change.length - 1);
        }
        try self.relocate(out.items, &moved);
        const start_merged = out.items.len;
        try out.appendSlice(merged);
        const start_of_file = out.items.len;
        try out.appendSlice(of_file);
        const start_names = out.items.len;
        try out.appendSlice(try self.content(self.names_section));
        const name = out.items.len - start_names;
        try out.appendSlice(section_name ++ "\x00");
        const end_names = out.items.len;
        try out.appendNTimes(0, (8 - out.items.len % 8) % 8);

        const headers = out.items.len;
        try out.appendSlice(self.bytes[self.section_headers..][0 .. self.sections.len * section_header_size]);
        put(u64, out.items, headers + self.names_section * section_header_size + 24, start_names);
        put(u64, out.items, headers + self.names_section * section_header_size + 32, end_names - start_names);
        const strings = elf.SHF_ALLOC | elf.SHF_MERGE | elf.SHF_STRINGS;
        try addHeader(&out, @intCast(name), strings, start_merged, merged.len);
        try addHeader(&out, @intCast(name), elf.SHF_ALLOC, start_of_file, of_file.len);
        put(u64, out.items, 40, headers);
        const count = self.sections.len + 2;
        put(u16, out.items, 60, if (count < many_sections) @intCast(count) else 0);
        if (count >= many_sections) put(u64, out.items, headers + 32, count);
        return out.items;
    }

    /// Changes relocations by a section, which compilers write for local names, into relocations by the symbol of a
    /// name that moved.
    fn relocate(self: *const Object, out: []u8, moved: *const std.AutoHashMap(Place, usize)) Error!void {
        const symbols = try self.content(self.table);
        for (self.sections, 0..) |section, i| {
            if (section.kind != elf.SHT_RELA or section.link != self.table) continue;
            const relocations = try self.content(i);
            var at: usize = 0;
            while (at + relocation_size <= relocations.len) : (at += relocation_size) {
                const info = try int(u64, relocations, at + 8);
                const index: usize = @intCast(info >> 32);
                const kind: u32 = @truncate(info);
                if ((index + 1) * symbol_size > symbols.len) return error.Malformed;
                if (symbols[index * symbol_size + 4] & 0xf != elf.STT_SECTION) continue;
                if (std.mem.indexOfScalar(u32, &absolute, kind) == null) continue;
                const of = try self.place(symbols, index) orelse continue;
                const addend = try int(u64, relocations, at + 16);
                const symbol = moved.get(.{ .section = of.section, .value = of.value +% addend }) orelse continue;
                put(u64, out, section.offset + at + 8, (@as(u64, symbol) << 32) | kind);
                put(u64, out, section.offset + at + 16, 0);
            }
        }
    }
};

fn addHeader(out: *std.ArrayList(u8), name: u32, flags: u64, offset: usize, size: usize) Error!void {
    const at = out.items.len;
    try out.appendNTimes(0, section_header_size);
    put(u32, out.items, at, name);
    put(u32, out.items, at + 4, elf.SHT_PROGBITS);
    put(u64, out.items, at + 8, flags);
    put(u64, out.items, at + 24, offset);
    put(u64, out.items, at + 32, size);
    put(u64, out.items, at + 48, 1);
    if (flags & elf.SHF_MERGE != 0) put(u64, out.items, at + 56, 1);
}

/// Whether a defined symbol is a PyInit function that is not visible to other libraries.
fn isHiddenInit(name: []const u8, symbol: []const u8) bool {
    return std.mem.startsWith(u8, name, init_prefix) and symbol[4] == (elf.STB_GLOBAL << 4) | elf.STT_FUNC and
        symbol[5] & visibility != 0;
}

/// The zero-terminated text at an offset.
fn text(bytes: []const u8, offset: usize) Error![]const u8 {
    if (offset > bytes.len) return error.Malformed;
    const end = std.mem.indexOfScalarPos(u8, bytes, offset, 0) orelse return error.Malformed;
    return bytes[offset..end];
}

fn int(comptime T: type, bytes: []const u8, at: usize) Error!T {
    if (at > bytes.len or bytes.len - at < @sizeOf(T)) return error.Malformed;
    return std.mem.readInt(T, bytes[at..][0..@sizeOf(T)], .little);
}

fn put(comptime T: type, bytes: []u8, at: usize, value: T) void {
    std.mem.writeInt(T, bytes[at..][0..@sizeOf(T)], value, .little);
}
