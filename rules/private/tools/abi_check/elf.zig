//! Reads the parts of an ELF shared library that a loader and a linker use: its dynamic segment and the tables that the
//! segment names. The symbol table for debuggers is not used, so a stripped file has the same result. Every offset is
//! checked: the file may be truncated or malicious.
//!
//! Layout: System V ABI, chapters 4 and 5; the LSB's chapter on symbol versions.
const std = @import("std");
const elf = std.elf;

/// The header's value for a number that is too large for its field; std.elf lacks it.
const SHN_XINDEX = 0xffff;
const symbol_size = @sizeOf(elf.Elf64_Sym);
const relocation_size = @sizeOf(elf.Elf64_Rela);
/// More versions than any library needs.
const most_versions = 1024;
/// More bytes than any name has; a limit, because many symbols can share a long name, which is read for each of them.
const longest_name = 1 << 16;

pub const Error = error{ Malformed, OutOfMemory };

pub const Symbol = struct {
    name: []const u8,
    defined: bool,
    binding: u4,
    visible: bool,
    /// An index into the versions that the library needs; 0 and 1 mean none.
    version: u16,
};

/// A symbol in the table for linkers.
pub const Named = struct { name: []const u8, defined: bool, local: bool, thread_local: bool };

/// A version of symbols that a needed library must have.
pub const Version = struct { library: []const u8, name: []const u8, index: u16 };

/// `size` is the size in the file, `memory` the size in memory.
const Segment = struct { kind: u32, flags: u32, offset: u64, address: u64, size: u64, memory: u64, alignment: u64 };

/// An entry of the dynamic segment.
pub const Tag = struct { tag: u64, value: u64 };

/// A relocation: the address that the loader writes to, and the kind of value.
pub const Relocation = struct { address: u64, kind: u32 };
const Section = struct { name: u32, kind: u32, offset: u64, size: u64 };

/// A part of a file, with checked access.
pub const Bytes = struct {
    data: []const u8,

    pub fn int(self: Bytes, comptime T: type, offset: u64) Error!T {
        return std.mem.readInt(T, (try self.part(offset, @sizeOf(T)))[0..@sizeOf(T)], .little);
    }

    pub fn part(self: Bytes, offset: u64, size: u64) Error![]const u8 {
        const end = std.math.add(u64, offset, size) catch return error.Malformed;
        if (end > self.data.len) return error.Malformed;
        return self.data[offset..end];
    }

    /// The zero-terminated text at an offset.
    fn text(self: Bytes, offset: u64) Error![]const u8 {
        if (offset > self.data.len) return error.Malformed;
        const near = self.data[0..@min(self.data.len, offset +| longest_name)];
        const end = std.mem.indexOfScalarPos(u8, near, offset, 0) orelse return error.Malformed;
        return self.data[offset..end];
    }
};

pub const Library = struct {
    allocator: std.mem.Allocator,
    bytes: Bytes,
    /// The part that is being read, for an error message.
    reading: []const u8 = "the header",
    is_64: bool = false,
    machine: u16 = 0,
    kind: u16 = 0,
    segments: []const Segment = &.{},
    sections: []const Section = &.{},
    section_names: u64 = 0,
    needed: []const []const u8 = &.{},
    search_paths: []const []const u8 = &.{},
    symbols: []const Symbol = &.{},
    versions: []const Version = &.{},
    tags: []const Tag = &.{},
    dynamic: bool = false,
    text_relocations: bool = false,
    bind_now: bool = false,

    /// Whether the bytes begin with the magic of ELF.
    pub fn isElf(data: []const u8) bool {
        return std.mem.startsWith(u8, data, elf.MAGIC);
    }

    /// The CPU that the header names; null for a CPU that is not supported.
    pub fn cpu(self: *const Library) ?[]const u8 {
        return switch (self.machine) {
            @intFromEnum(elf.EM.X86_64) => "x86_64",
            @intFromEnum(elf.EM.AARCH64) => "aarch64",
            else => null,
        };
    }

    /// Reads the header and, for a library of a supported CPU, the rest.
    pub fn read(self: *Library) Error!void {
        const class = try self.bytes.int(u8, elf.EI_CLASS);
        const order = try self.bytes.int(u8, elf.EI_DATA);
        self.is_64 = class == elf.ELFCLASS64 and order == elf.ELFDATA2LSB;
        if (!self.is_64) return;
        self.kind = try self.bytes.int(u16, 16);
        self.machine = try self.bytes.int(u16, 18);
        if (!self.isLibrary()) return;
        try self.readSegments();
        try self.readSections();
        try self.readDynamic();
    }

    /// Whether the header describes a shared library for a supported CPU.
    pub fn isLibrary(self: *const Library) bool {
        return self.is_64 and self.cpu() != null and self.kind == @intFromEnum(elf.ET.DYN);
    }

    /// The first segment of a kind.
    pub fn segment(self: *const Library, kind: u32) ?Segment {
        for (self.segments) |header| {
            if (header.kind == kind) return header;
        }
        return null;
    }

    /// The content of a section; null if no section has the name.
    pub fn section(self: *Library, name: []const u8) Error!?[]const u8 {
        self.reading = "the section headers";
        for (self.sections) |header| {
            const named = self.bytes.text(try add(self.section_names, header.name)) catch continue;
            if (std.mem.eql(u8, named, name)) return try self.bytes.part(header.offset, header.size);
        }
        return null;
    }

    /// The symbols of the symbol table for linkers, also of an object; empty without such a table.
    pub fn linkerSymbols(self: *Library) Error![]const Named {
        try self.readSections();
        const symbols = try self.section(".symtab") orelse return &.{};
        const strings = Bytes{ .data = try self.section(".strtab") orelse return error.Malformed };
        self.reading = "the symbol table";
        const found = try self.allocator.alloc(Named, symbols.len / symbol_size);
        const table = Bytes{ .data = symbols };
        for (found, 0..) |*symbol, i| {
            const info = try table.int(u8, i * symbol_size + 4);
            symbol.* = .{
                .name = try strings.text(try table.int(u32, i * symbol_size)),
                .defined = try table.int(u16, i * symbol_size + 6) != 0,
                .local = info >> 4 == elf.STB_LOCAL,
                .thread_local = info & 15 == elf.STT_TLS,
            };
        }
        return found;
    }

    fn readSegments(self: *Library) Error!void {
        self.reading = "the program headers";
        const start = try self.bytes.int(u64, 32);
        const size = try self.bytes.int(u16, 54);
        const count = try self.bytes.int(u16, 56);
        if (count > 0 and size != 56) return error.Malformed;
        const found = try self.allocator.alloc(Segment, count);
        const table = Bytes{ .data = try self.bytes.part(start, @as(u64, count) * 56) };
        for (found, 0..) |*header, i| {
            const at = i * 56;
            header.* = .{
                .kind = try table.int(u32, at),
                .flags = try table.int(u32, at + 4),
                .offset = try table.int(u64, at + 8),
                .address = try table.int(u64, at + 16),
                .size = try table.int(u64, at + 32),
                .memory = try table.int(u64, at + 40),
                .alignment = try table.int(u64, at + 48),
            };
            _ = try self.bytes.part(header.offset, header.size);
        }
        self.segments = found;
    }

    /// Section headers may be missing, because a loader does not need them. Existing headers must be well-formed.
    fn readSections(self: *Library) Error!void {
        self.reading = "the section headers";
        const start = try self.bytes.int(u64, 40);
        const size = try self.bytes.int(u16, 58);
        var count: u64 = try self.bytes.int(u16, 60);
        var named: u32 = try self.bytes.int(u16, 62);
        if (start == 0) return;
        // Numbers that are too large for the header stand in the first section header.
        if (count == 0) count = try self.bytes.int(u64, try add(start, 32));
        if (named == SHN_XINDEX) named = try self.bytes.int(u32, try add(start, 40));
        if (count == 0) return;
        if (size != 64) return error.Malformed;
        const table = Bytes{ .data = try self.bytes.part(start, std.math.mul(u64, count, 64) catch return error.Malformed) };
        const found = try self.allocator.alloc(Section, count);
        for (found, 0..) |*header, i| {
            const at = i * 64;
            header.* = .{
                .name = try table.int(u32, at),
                .kind = try table.int(u32, at + 4),
                .offset = try table.int(u64, at + 24),
                .size = try table.int(u64, at + 32),
            };
        }
        if (named < count) self.section_names = found[named].offset;
        self.sections = found;
    }

    fn readDynamic(self: *Library) Error!void {
        self.reading = "the dynamic segment";
        const place = self.segment(elf.PT_DYNAMIC) orelse return;
        self.dynamic = true;
        // A loader uses the address only.
        if (try self.offsetOf(place.address) != place.offset) return error.Malformed;
        const table = Bytes{ .data = try self.bytes.part(place.offset, place.size) };
        var tags = std.AutoHashMap(u64, u64).init(self.allocator);
        var found = std.ArrayList(Tag).init(self.allocator);
        var at: u64 = 0;
        while (at + 16 <= table.data.len) : (at += 16) {
            const tag = try table.int(u64, at);
            if (tag == elf.DT_NULL) break;
            try found.append(.{ .tag = tag, .value = try table.int(u64, at + 8) });
            if (tag != elf.DT_NEEDED) try tags.put(tag, try table.int(u64, at + 8));
        }
        const end = at;
        self.tags = found.items;
        self.text_relocations = tags.contains(elf.DT_TEXTREL) or (tags.get(elf.DT_FLAGS) orelse 0) & elf.DF_TEXTREL != 0;
        self.bind_now = tags.contains(elf.DT_BIND_NOW) or (tags.get(elf.DT_FLAGS) orelse 0) & elf.DF_BIND_NOW != 0 or
            (tags.get(elf.DT_FLAGS_1) orelse 0) & elf.DF_1_NOW != 0;

        self.reading = "the dynamic string table";
        const strings = Bytes{ .data = try self.bytes.part(
            try self.offsetOf(tags.get(elf.DT_STRTAB) orelse return error.Malformed),
            tags.get(elf.DT_STRSZ) orelse return error.Malformed,
        ) };
        var needed = std.ArrayList([]const u8).init(self.allocator);
        at = 0;
        while (at < end) : (at += 16) {
            if (try table.int(u64, at) == elf.DT_NEEDED) try needed.append(try strings.text(try table.int(u64, at + 8)));
        }
        self.needed = needed.items;
        var paths = std.ArrayList([]const u8).init(self.allocator);
        for ([_]u64{ elf.DT_RPATH, elf.DT_RUNPATH }) |tag| {
            if (tags.get(tag)) |offset| try paths.append(try strings.text(offset));
        }
        self.search_paths = paths.items;
        try self.readVersions(&tags, strings);
        try self.readSymbols(&tags, strings);
    }

    fn readVersions(self: *Library, tags: *const std.AutoHashMap(u64, u64), strings: Bytes) Error!void {
        self.reading = "the needed versions";
        var at = try self.offsetOf(tags.get(elf.DT_VERNEED) orelse return);
        var found = std.ArrayList(Version).init(self.allocator);
        while (true) {
            const count = try self.bytes.int(u16, try add(at, 2));
            const library = try strings.text(try self.bytes.int(u32, try add(at, 4)));
            var entry = try add(at, try self.bytes.int(u32, try add(at, 8)));
            for (0..count) |_| {
                if (found.items.len == most_versions) return error.Malformed;
                try found.append(.{
                    .library = library,
                    .name = try strings.text(try self.bytes.int(u32, try add(entry, 8))),
                    .index = try self.bytes.int(u16, try add(entry, 6)) & 0x7fff,
                });
                entry = try add(entry, try self.bytes.int(u32, try add(entry, 12)));
            }
            const next = try self.bytes.int(u32, try add(at, 12));
            if (next == 0) break;
            // Steps of less than an entry would let a small file keep us busy.
            if (next < 16) return error.Malformed;
            at = try add(at, next);
        }
        self.versions = found.items;
    }

    fn readSymbols(self: *Library, tags: *const std.AutoHashMap(u64, u64), strings: Bytes) Error!void {
        self.reading = "the dynamic symbols";
        const start = try self.offsetOf(tags.get(elf.DT_SYMTAB) orelse return error.Malformed);
        const count = try self.countSymbols(tags, start);
        self.reading = "the dynamic symbols";
        const size = std.math.mul(u64, count, symbol_size) catch return error.Malformed;
        const table = Bytes{ .data = try self.bytes.part(start, size) };
        const versions: ?Bytes = if (tags.get(elf.DT_VERSYM)) |address|
            .{ .data = try self.bytes.part(try self.offsetOf(address), count * 2) }
        else
            null;
        var found = std.ArrayList(Symbol).init(self.allocator);
        var i: u64 = 1;
        while (i < count) : (i += 1) {
            const at = i * symbol_size;
            const info = try table.int(u8, at + 4);
            const visibility = try table.int(u8, at + 5) & 3;
            const version = if (versions) |table_of_versions| try table_of_versions.int(u16, i * 2) & 0x7fff else 0;
            try found.append(.{
                .name = try strings.text(try table.int(u32, at)),
                .defined = try table.int(u16, at + 6) != 0,
                .binding = @intCast(info >> 4),
                .visible = visibility == 0 or visibility == 3,
                .version = version,
            });
        }
        self.symbols = found.items;
    }

    /// No field has the number of dynamic symbols, so it is the largest that the hash tables, the relocations and, if
    /// it exists, the section header imply.
    fn countSymbols(self: *Library, tags: *const std.AutoHashMap(u64, u64), start: u64) Error!u64 {
        var count: u64 = 1;
        self.reading = "the hash tables";
        if (tags.get(elf.DT_HASH)) |address| {
            count = @max(count, try self.bytes.int(u32, try add(try self.offsetOf(address), 4)));
        }
        if (tags.get(elf.DT_GNU_HASH)) |address| count = @max(count, try self.countHashed(try self.offsetOf(address)));
        self.reading = "the relocations";
        for ([_][2]u64{ .{ elf.DT_RELA, elf.DT_RELASZ }, .{ elf.DT_JMPREL, elf.DT_PLTRELSZ } }) |pair| {
            const address = tags.get(pair[0]) orelse continue;
            const size = tags.get(pair[1]) orelse return error.Malformed;
            if (size == 0) continue;
            const table = Bytes{ .data = try self.bytes.part(try self.offsetOf(address), size) };
            var at: u64 = 0;
            while (at + relocation_size <= table.data.len) : (at += relocation_size) {
                count = @max(count, (try table.int(u64, at + 8) >> 32) + 1);
            }
        }
        for (self.sections) |header| {
            if (header.kind == elf.SHT_DYNSYM and header.offset == start) count = @max(count, header.size / symbol_size);
        }
        return count;
    }

    fn countHashed(self: *Library, start: u64) Error!u64 {
        const buckets = try self.bytes.int(u32, start);
        const first = try self.bytes.int(u32, try add(start, 4));
        const words = try self.bytes.int(u32, try add(start, 8));
        const at = try add(start, 16 + @as(u64, words) * 8);
        const table = Bytes{ .data = try self.bytes.part(at, @as(u64, buckets) * 4) };
        var last: u64 = 0;
        for (0..buckets) |i| last = @max(last, try table.int(u32, i * 4));
        if (last < first) return first;
        const chains = try add(at, table.data.len);
        while (try self.bytes.int(u32, try add(chains, (last - first) * 4)) & 1 == 0) last += 1;
        return last + 1;
    }

    /// The relocations of both tables.
    pub fn relocations(self: *Library) Error![]const Relocation {
        self.reading = "the relocations";
        var found = std.ArrayList(Relocation).init(self.allocator);
        for ([_][2]u64{ .{ elf.DT_RELA, elf.DT_RELASZ }, .{ elf.DT_JMPREL, elf.DT_PLTRELSZ } }) |pair| {
            const size = self.valueOf(pair[1]) orelse continue;
            const address = self.valueOf(pair[0]) orelse return error.Malformed;
            if (size == 0) continue;
            if (size % relocation_size != 0) return error.Malformed;
            const table = Bytes{ .data = try self.bytes.part(try self.offsetOf(address), size) };
            var at: u64 = 0;
            while (at < size) : (at += relocation_size) {
                const info = try table.int(u64, at + 8);
                try found.append(.{ .address = try table.int(u64, at), .kind = @truncate(info) });
            }
        }
        // Entries of DT_REL have no addend, so their size is another one.
        if (self.valueOf(elf.DT_PLTREL)) |kind| if (kind != elf.DT_RELA) return error.Malformed;
        if (self.valueOf(elf.DT_RELAENT)) |size| if (size != relocation_size) return error.Malformed;
        return found.items;
    }

    /// The value of a tag; of several, the last, like the loader.
    fn valueOf(self: *const Library, tag: u64) ?u64 {
        var found: ?u64 = null;
        for (self.tags) |entry| {
            if (entry.tag == tag) found = entry.value;
        }
        return found;
    }

    /// Whether the loader may write to an address.
    pub fn isWritable(self: *const Library, address: u64) bool {
        for (self.segments) |header| {
            if (header.kind == elf.PT_LOAD and address >= header.address and address - header.address < header.memory)
                return header.flags & elf.PF_W != 0;
        }
        return false;
    }

    /// The offset in the file of an address.
    fn offsetOf(self: *const Library, address: u64) Error!u64 {
        for (self.segments) |header| {
            if (header.kind == elf.PT_LOAD and address >= header.address and address - header.address < header.size)
                return header.offset + (address - header.address);
        }
        return error.Malformed;
    }
};

fn add(a: u64, b: u64) Error!u64 {
    return std.math.add(u64, a, b) catch error.Malformed;
}
