//! Asks the linker about undefined symbols: their names in C++, their references, and similar symbols.
//!
//! A link in which all other undefined symbols have a definition fails with a single error, which has the answer. An
//! object that is written for this link has the definitions.
const std = @import("std");
const common = @import("common");
const elf = @import("elf.zig");
const mangled = @import("mangled.zig");

const most_near = 3;
const most_output = 1 << 26;
/// The beginning of lld's error about an undefined symbol, before `hidden` or the like.
const head = "ld.lld: error: undefined ";
const more = ">>> ";

/// An object of the library.
pub const Object = struct { path: []const u8, symbols: []const elf.Named };

/// The linker's explanation of a symbol.
pub const Explanation = struct {
    /// Its name in C++.
    name: []const u8,
    /// Lines, each with the path of an object.
    lines: []const []const u8,
};

pub const Linker = struct {
    allocator: std.mem.Allocator,
    program: []const u8,
    objects: []const Object,
    machine: u16,
    /// The path of a temporary file; it is deleted after each link.
    scratch: []const u8,

    /// The explanation of a symbol that no object defines; null if no object refers to it.
    pub fn explain(self: *const Linker, symbol: []const u8) !?Explanation {
        var others = try Writer.init(self.allocator, self.machine);
        var known = std.StringHashMap(void).init(self.allocator);
        for (self.objects) |object| {
            for (object.symbols) |other| {
                if (other.defined or other.name.len == 0 or common.is(other.name, symbol)) continue;
                if ((try known.getOrPut(other.name)).found_existing) continue;
                try others.define(other.name, other.thread_local);
            }
        }
        const blocks = try self.link(self.objects, &others);
        if (blocks.len == 0) return null;
        var lines = std.ArrayList([]const u8).init(self.allocator);
        const suggested = try shorten(self.allocator, blocks[0].lines, &lines);
        if (!suggested) try self.near(symbol, &lines);
        return .{ .name = blocks[0].name, .lines = lines.items };
    }

    /// Adds definitions of the same name with other parameters or in another namespace.
    fn near(self: *const Linker, symbol: []const u8, lines: *std.ArrayList([]const u8)) !void {
        const wanted = mangled.Entity.of(symbol);
        for ([_]bool{ true, false }) |with_namespace| {
            var names = std.ArrayList([]const u8).init(self.allocator);
            var places = std.ArrayList([]const u8).init(self.allocator);
            for (self.objects) |object| {
                for (object.symbols) |other| {
                    const entity = mangled.Entity.of(other.name);
                    const same = if (with_namespace) entity.isSame(wanted) else common.is(entity.last, wanted.last);
                    if (!other.defined or !same or names.items.len == most_near) continue;
                    try names.append(other.name);
                    try places.append(try std.fmt.allocPrint(self.allocator, "{s} defines{s}", .{
                        object.path, if (other.local) " as a local symbol" else "",
                    }));
                }
            }
            for (try self.demangle(names.items), places.items) |name, place|
                try lines.append(try std.fmt.allocPrint(self.allocator, "did you mean: {s}, which {s}", .{ name, place }));
            if (names.items.len > 0) return;
        }
    }

    /// Demangles names: the linker demangles the undefined symbols of an object that refers to each.
    pub fn demangle(self: *const Linker, names: []const []const u8) ![]const []const u8 {
        if (names.len == 0) return names;
        var references = try Writer.init(self.allocator, self.machine);
        for (names) |name| try references.refer(name);
        const blocks = try self.link(&.{}, &references);
        const found = try self.allocator.dupe([]const u8, names);
        // A symbol with several references has a single error.
        if (blocks.len == names.len) for (found, blocks) |*name, block| {
            name.* = block.name;
        };
        return found;
    }

    /// The errors of a link about undefined symbols, in the order of the relocations.
    fn link(self: *const Linker, objects: []const Object, extra: *Writer) ![]const Block {
        try common.write(self.scratch, try extra.bytes());
        defer std.fs.cwd().deleteFile(self.scratch) catch {};
        var command = std.ArrayList([]const u8).init(self.allocator);
        try command.appendSlice(&.{ self.program, "ld.lld", "-shared", "-z", "defs", "--threads=1", "--error-limit=0" });
        try command.appendSlice(&.{ "--no-dependent-libraries", "-o", "/dev/null" });
        for (objects) |object| try command.append(object.path);
        try command.append(self.scratch);
        const done = std.process.Child.run(.{
            .allocator = self.allocator,
            .argv = command.items,
            .max_output_bytes = most_output,
        }) catch return &.{};
        return parse(self.allocator, done.stderr);
    }
};

const Block = struct { name: []const u8, lines: []const []const u8 };

/// The errors of lld about undefined symbols.
fn parse(allocator: std.mem.Allocator, text: []const u8) ![]const Block {
    var found = std.ArrayList(Block).init(allocator);
    var current = std.ArrayList([]const u8).init(allocator);
    var lines = std.mem.splitScalar(u8, text, '\n');
    var inside = false;
    while (lines.next()) |line| {
        const mark = "symbol: ";
        if (std.mem.startsWith(u8, line, head)) {
            const at = std.mem.indexOf(u8, line, mark) orelse continue;
            current = std.ArrayList([]const u8).init(allocator);
            try found.append(.{ .name = line[at + mark.len ..], .lines = &.{} });
            inside = true;
        } else if (inside and std.mem.startsWith(u8, line, more)) {
            try current.append(std.mem.trim(u8, line[more.len..], " "));
            found.items[found.items.len - 1].lines = current.items;
        } else inside = false;
    }
    return found.items;
}

/// Joins each pair of lld's lines: `referenced by OBJECT in FUNCTION`, `did you mean: NAME, which OBJECT defines`.
/// Returns whether a line suggests a name.
fn shorten(allocator: std.mem.Allocator, lines: []const []const u8, found: *std.ArrayList([]const u8)) !bool {
    const by = "referenced by ";
    const meant = "did you mean";
    const defined = "defined in: ";
    var suggested = false;
    var i: usize = 0;
    while (i < lines.len) : (i += 1) {
        const line = lines[i];
        const next = if (i + 1 < lines.len) lines[i + 1] else "";
        var short = line;
        if (std.mem.startsWith(u8, line, by)) {
            if (std.mem.indexOf(u8, next, ":(")) |colon| {
                short = try std.fmt.allocPrint(allocator, by ++ "{s}{s} in {s}", .{
                    next[0..colon], try placeOf(allocator, line[by.len..]), next[colon + 2 .. @max(colon + 2, next.len - 1)],
                });
                i += 1;
            }
        } else if (std.mem.startsWith(u8, line, meant)) {
            suggested = true;
            if (std.mem.startsWith(u8, next, defined)) {
                short = try std.fmt.allocPrint(allocator, "{s}, which {s} defines", .{
                    std.mem.trimRight(u8, line, "?"), next[defined.len..],
                });
                i += 1;
            }
        }
        for (found.items) |known| {
            if (common.is(known, short)) break;
        } else try found.append(short);
    }
    return suggested;
}

/// The path and line of a reference by debug information: of `a.cpp:5 (/x/a.cpp:5)` the part in parentheses.
fn placeOf(allocator: std.mem.Allocator, text: []const u8) ![]const u8 {
    const open = std.mem.indexOf(u8, text, " (") orelse return "";
    return std.fmt.allocPrint(allocator, " at {s}", .{std.mem.trimRight(u8, text[open + 2 ..], ")")});
}

/// Writes an object with definitions of names, and with references to names.
const Writer = struct {
    names: std.ArrayList(u8),
    symbols: std.ArrayList(u8),
    relocations: std.ArrayList(u8),
    machine: u16,

    const data = 1;
    const thread_data = 2;
    const sections = 7;
    const section_names = "\x00.data\x00.tbss\x00.rela.data\x00.symtab\x00.strtab\x00";

    fn init(allocator: std.mem.Allocator, machine: u16) !Writer {
        var output = Writer{
            .names = std.ArrayList(u8).init(allocator),
            .symbols = std.ArrayList(u8).init(allocator),
            .relocations = std.ArrayList(u8).init(allocator),
            .machine = machine,
        };
        try output.names.append(0);
        try output.symbols.appendNTimes(0, @sizeOf(std.elf.Elf64_Sym));
        return output;
    }

    fn define(self: *Writer, name: []const u8, thread_local: bool) !void {
        const kind: u8 = if (thread_local) std.elf.STT_TLS else std.elf.STT_NOTYPE;
        try self.add(name, std.elf.STB_WEAK, kind, if (thread_local) thread_data else data);
    }

    fn refer(self: *Writer, name: []const u8) !void {
        try self.add(name, std.elf.STB_GLOBAL, std.elf.STT_NOTYPE, 0);
        const kind: u32 = if (self.machine == @intFromEnum(std.elf.EM.AARCH64)) 257 else 1;
        const size = @sizeOf(std.elf.Elf64_Rela);
        try self.relocations.appendSlice(std.mem.asBytes(&std.elf.Elf64_Rela{
            .r_offset = self.relocations.items.len / size * 8,
            .r_info = @as(u64, self.symbols.items.len / @sizeOf(std.elf.Elf64_Sym) - 1) << 32 | kind,
            .r_addend = 0,
        }));
    }

    fn add(self: *Writer, name: []const u8, binding: u8, kind: u8, section: u16) !void {
        try self.symbols.appendSlice(std.mem.asBytes(&std.elf.Elf64_Sym{
            .st_name = @intCast(self.names.items.len),
            .st_info = binding << 4 | kind,
            .st_other = 0,
            .st_shndx = section,
            .st_value = 0,
            .st_size = 0,
        }));
        try self.names.appendSlice(name);
        try self.names.append(0);
    }

    /// The bytes of the object: the header, the section headers, then the sections.
    fn bytes(self: *Writer) ![]const u8 {
        const room = @max(8, self.relocations.items.len / 3);
        var output = std.ArrayList(u8).init(self.names.allocator);
        var at: u64 = @sizeOf(std.elf.Elf64_Ehdr) + sections * @sizeOf(std.elf.Elf64_Shdr);
        try output.appendSlice(std.elf.MAGIC ++ "\x02\x01\x01" ++ "\x00" ** 9);
        try output.appendSlice(std.mem.asBytes(&[_]u16{ 1, self.machine, 1, 0 }));
        try output.appendSlice(std.mem.asBytes(&[_]u64{ 0, 0, @sizeOf(std.elf.Elf64_Ehdr) }));
        try output.appendSlice(std.mem.asBytes(&[_]u16{ 0, 0, @sizeOf(std.elf.Elf64_Ehdr), 0, 0, 64, sections, sections - 1 }));
        try output.appendNTimes(0, @sizeOf(std.elf.Elf64_Shdr));
        const zeros = try self.names.allocator.alloc(u8, room);
        @memset(zeros, 0);
        const write = std.elf.SHF_WRITE | std.elf.SHF_ALLOC;
        const contents = [_]struct { kind: u32, flags: u64, data: []const u8, link: u32, info: u32, entry: u64 }{
            .{ .kind = std.elf.SHT_PROGBITS, .flags = write, .data = zeros, .link = 0, .info = 0, .entry = 0 },
            .{ .kind = std.elf.SHT_NOBITS, .flags = write | std.elf.SHF_TLS, .data = "", .link = 0, .info = 0, .entry = 0 },
            .{ .kind = std.elf.SHT_RELA, .flags = 0, .data = self.relocations.items, .link = 4, .info = data, .entry = 24 },
            .{ .kind = std.elf.SHT_SYMTAB, .flags = 0, .data = self.symbols.items, .link = 5, .info = 1, .entry = 24 },
            .{ .kind = std.elf.SHT_STRTAB, .flags = 0, .data = self.names.items, .link = 0, .info = 0, .entry = 0 },
            .{ .kind = std.elf.SHT_STRTAB, .flags = 0, .data = section_names, .link = 0, .info = 0, .entry = 0 },
        };
        var named: u32 = 1;
        for (contents) |section| {
            try output.appendSlice(std.mem.asBytes(&std.elf.Elf64_Shdr{
                .sh_name = named,
                .sh_type = section.kind,
                .sh_flags = section.flags,
                .sh_addr = 0,
                .sh_offset = at,
                .sh_size = if (section.kind == std.elf.SHT_NOBITS) 8 else section.data.len,
                .sh_link = section.link,
                .sh_info = section.info,
                .sh_addralign = 1,
                .sh_entsize = section.entry,
            }));
            // The last section, of strings too, has the name of the section before it.
            const next = std.mem.indexOfScalarPos(u8, section_names, named, 0).? + 1;
            if (next < section_names.len) named = @intCast(next);
            at += section.data.len;
        }
        for (contents) |section| try output.appendSlice(section.data);
        return output.items;
    }
};

test "lines of lld become shorter" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const text =
        \\ld.lld: error: undefined symbol: scale(float*, long)
        \\>>> referenced by a.cpp:5 (/src/a.cpp:5)
        \\>>>               out/a.o:(run(float*))
        \\>>> referenced by a.cpp
        \\>>>               out/a.o:(.data+0x0)
        \\>>> referenced by a.cpp
        \\>>>               out/a.o:(.data+0x0)
        \\>>> did you mean: scale(float*, int)
        \\>>> defined in: out/b.o
        \\
        \\ld.lld: error: undefined hidden symbol: other
    ;
    const blocks = try parse(arena.allocator(), text);
    try std.testing.expectEqual(2, blocks.len);
    try std.testing.expectEqualStrings("scale(float*, long)", blocks[0].name);
    try std.testing.expectEqualStrings("other", blocks[1].name);
    var lines = std.ArrayList([]const u8).init(arena.allocator());
    try std.testing.expect(try shorten(arena.allocator(), blocks[0].lines, &lines));
    for ([_][]const u8{
        "referenced by out/a.o at /src/a.cpp:5 in run(float*)",
        "referenced by out/a.o in .data+0x0",
        "did you mean: scale(float*, int), which out/b.o defines",
    }, lines.items) |expected, line| try std.testing.expectEqualStrings(expected, line);
}
