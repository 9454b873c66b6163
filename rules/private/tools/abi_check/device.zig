//! Finds the device code in a library: the fat binaries that nvcc puts into the section `.nv_fatbin`, and the bundles
//! of code objects that clang puts into `.hip_fatbin`. The layout of fat binaries is not published; the layout here is
//! that of nvcc 11.8 to 13.5, compared with `cuobjdump`.
const std = @import("std");
const common = @import("common");
const code_object = @import("code_object.zig");
const elf = @import("elf.zig");
const unpack = @import("packed.zig");

const magic = 0xba55ed50;
const kind_ptx = 1;
const kind_elf = 2;
/// Our own kind: a code object of HIP, with its whole architecture in `suffix`.
const kind_hip = 0xffff;
/// More than any bundle has: LLVM knows some seventy architectures, each with two features.
const most_entries = 1024;
const longest_name = 100;
/// Flags of an entry: code for a single GPU (`sm_90a`), or for its family (`sm_100f`).
const flag_specific = 1 << 20;
const flag_family = 1 << 21;
/// Flags of a compressed entry: LZ4, Zstandard.
const flag_lz4 = 1 << 13;
const flag_zstandard = 1 << 15;
/// The magic of a module's registration of a fat binary; there is a registration for each source.
const wrapper_magic = 0x466243b1;
const wrapper_size = 24;
const wrapper_versions = 2;
/// The same flag in the header of a cubin of ABI 7, the only place that fatbinary of CUDA 11 writes it to.
const cubin_abi = 7;
const cubin_specific = 0x800;

/// A kind of device code: `sm_90a` as SASS, `compute_90a` as PTX, or `gfx942`.
pub const Code = struct {
    kind: u16,
    arch: u32,
    suffix: []const u8,

    /// The spelling of nvcc; code that is neither SASS nor PTX has a number for its kind.
    pub fn spell(self: Code, allocator: std.mem.Allocator) ![]const u8 {
        if (self.kind == kind_hip) return self.suffix;
        const kind = switch (self.kind) {
            kind_elf => "sm",
            kind_ptx => "compute",
            else => try std.fmt.allocPrint(allocator, "kind{d}", .{self.kind}),
        };
        return std.fmt.allocPrint(allocator, "{s}_{d}{s}", .{ kind, self.arch, self.suffix });
    }

    fn equals(self: Code, other: Code) bool {
        return self.kind == other.kind and self.arch == other.arch and std.mem.eql(u8, self.suffix, other.suffix);
    }

    fn before(_: void, a: Code, b: Code) bool {
        if (a.kind != b.kind) return a.kind == kind_elf or (b.kind != kind_elf and a.kind < b.kind);
        if (a.arch != b.arch) return a.arch < b.arch;
        return std.mem.lessThan(u8, a.suffix, b.suffix);
    }
};

/// The kinds of device code in a library, without duplicates, in order. Without section headers, the whole file is
/// searched.
pub fn find(allocator: std.mem.Allocator, library: *elf.Library) elf.Error![]const Code {
    var found = std.ArrayList(Code).init(allocator);
    const uncompressed = if (library.sections.len > 0) null else library.bytes.data;
    if (uncompressed orelse try library.section(".nv_fatbin")) |data| {
        library.reading = "the device code";
        try fatbins(&found, data, uncompressed == null);
    }
    if (try library.section(".nvFatBinSegment")) |data| {
        library.reading = "the registration of the device code";
        try wrappers(data);
    }
    if (uncompressed orelse try library.section(".hip_fatbin")) |data| {
        library.reading = "the device code";
        try bundles(&found, data, uncompressed == null);
    }
    std.mem.sort(Code, found.items, {}, Code.before);
    return found.items;
}

/// The PTX of sources with linked device code, which the CUDA driver links and compiles for GPUs without SASS in the
/// library. The archive for kernels that launch kernels adds PTX of an architecture of its own.
pub fn linkable(allocator: std.mem.Allocator, library: *elf.Library) elf.Error![]const Code {
    var found = std.ArrayList(Code).init(allocator);
    if (try library.section("__nv_relfatbin")) |data| {
        library.reading = "the device code that is linked";
        try fatbins(&found, data, true);
    }
    var kept = std.ArrayList(Code).init(allocator);
    for (found.items) |code| if (code.kind == kind_ptx) try kept.append(code);
    return kept.items;
}

/// `alone`: whether the data consists of bundles only.
fn bundles(found: *std.ArrayList(Code), data: []const u8, alone: bool) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    var at: u64 = 0;
    while (at + common.hip_bundle.magic.len + 8 <= data.len) {
        // Compressed bundles are not supported.
        if (std.mem.startsWith(u8, data[at..], "CCOB")) return error.Malformed;
        if (!std.mem.startsWith(u8, data[at..], common.hip_bundle.magic)) {
            if (alone) try code_object.zeros(data[at..][0..8]);
            at += 8;
            continue;
        }
        const all = elf.Bytes{ .data = data[at..] };
        var next: u64 = common.hip_bundle.magic.len + 8;
        const count = try bytes.int(u64, at + common.hip_bundle.magic.len);
        if (count > most_entries) return error.Malformed;
        var end: u64 = next;
        for (0..count) |_| {
            const offset = try all.int(u64, next);
            const content = elf.Bytes{ .data = try all.part(offset, try all.int(u64, next + 8)) };
            const name = try all.part(next + 24, try all.int(u64, next + 16));
            next += 24 + name.len;
            end = @max(end, next, offset + content.data.len);
            if (std.mem.startsWith(u8, name, "host-")) continue;
            const known = std.mem.startsWith(u8, name, common.hip_bundle.prefix);
            const arch = if (known) name[common.hip_bundle.prefix.len..] else name;
            if (arch.len == 0 or arch.len > longest_name) return error.Malformed;
            for (arch) |c| {
                if (!std.ascii.isAlphanumeric(c) and std.mem.indexOfScalar(u8, ":+-_.", c) == null) return error.Malformed;
            }
            try code_object.check(found.allocator, content.data, @intFromEnum(std.elf.EM.AMDGPU));
            const code = Code{ .kind = kind_hip, .arch = 0, .suffix = arch };
            if (!has(found.items, code)) try found.append(code);
        }
        at += std.mem.alignForward(u64, end, 8);
    }
}

/// `alone`: whether the data consists of fat binaries only.
fn fatbins(found: *std.ArrayList(Code), data: []const u8, alone: bool) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    var at: u64 = 0;
    while (at + 16 <= data.len) {
        const is_fatbin = try bytes.int(u32, at) == magic and try bytes.int(u16, at + 4) == 1;
        const header = try bytes.int(u16, at + 6);
        if (!is_fatbin or header != 16) {
            if (alone) try code_object.zeros(data[at..][0..8]);
            at += 8;
            continue;
        }
        const content = try bytes.part(at + 16, try bytes.int(u64, at + 8));
        try entries(found, .{ .data = content });
        at += 16 + std.mem.alignForward(u64, content.len, 8);
    }
    if (alone and at < data.len) try code_object.zeros(data[at..]);
}

fn wrappers(data: []const u8) elf.Error!void {
    const bytes = elf.Bytes{ .data = data };
    if (data.len % wrapper_size != 0) return error.Malformed;
    for (0..data.len / wrapper_size) |i| {
        const version = try bytes.int(u32, i * wrapper_size + 4);
        if (try bytes.int(u32, i * wrapper_size) != wrapper_magic) return error.Malformed;
        if (version == 0 or version > wrapper_versions) return error.Malformed;
    }
}

fn entries(found: *std.ArrayList(Code), content: elf.Bytes) elf.Error!void {
    var at: u64 = 0;
    while (at < content.data.len) {
        const kind = try content.int(u16, at);
        const header = try content.int(u32, at + 4);
        if (header < 48) return error.Malformed;
        const body = elf.Bytes{ .data = try content.part(at + header, try content.int(u64, at + 8)) };
        const arch = try content.int(u32, at + 28);
        const flags = try content.int(u64, at + 40);
        at += header + body.data.len;
        if (kind != kind_elf and kind != kind_ptx) {
            const other = Code{ .kind = kind, .arch = arch, .suffix = "" };
            if (!has(found.items, other)) try found.append(other);
            continue;
        }
        const uncompressed = elf.Bytes{ .data = try unpacked(found.allocator, content, at - header - body.data.len, body, flags) };
        const code = Code{
            .kind = kind,
            .arch = arch,
            .suffix = if (flags & flag_specific != 0 or cubinIsSpecific(uncompressed))
                "a"
            else if (flags & flag_family != 0)
                "f"
            else
                "",
        };
        if (kind == kind_elf) {
            try code_object.check(found.allocator, uncompressed.data, code_object.cuda);
            if (try cubinArch(uncompressed) != arch) return error.Malformed;
        } else {
            try code_object.checkText(uncompressed.data, try std.fmt.allocPrint(found.allocator, "{d}{s}", .{ arch, code.suffix }));
        }
        if (!has(found.items, code)) try found.append(code);
    }
}

/// The uncompressed content of the entry whose header is at `at`.
fn unpacked(
    allocator: std.mem.Allocator,
    content: elf.Bytes,
    at: u64,
    body: elf.Bytes,
    flags: u64,
) elf.Error![]const u8 {
    if (flags & (flag_lz4 | flag_zstandard) == 0) return body.data;
    const size = try content.int(u32, at + 16);
    const uncompressed = try content.int(u64, at + 56);
    const data = try body.part(0, size);
    return if (flags & flag_lz4 != 0) unpack.lz4(allocator, data, uncompressed) else unpack.zstandard(allocator, data, uncompressed);
}

/// The architecture in the header of a cubin; since ABI 8 it is in another byte.
fn cubinArch(body: elf.Bytes) elf.Error!u32 {
    const flags = try body.int(u32, 48);
    return if (try body.int(u8, 8) <= cubin_abi) flags & 0xff else flags >> 8 & 0xff;
}

fn cubinIsSpecific(body: elf.Bytes) bool {
    if (!elf.Library.isElf(body.data)) return false;
    const abi = body.int(u8, 8) catch return false;
    const flags = body.int(u32, 48) catch return false;
    return abi <= cubin_abi and flags & cubin_specific != 0;
}

/// The code that a list of architectures declares, e.g. `8.0,9.0a,12.0+PTX` or `gfx90a,gfx942`; null for an invalid
/// list.
pub fn declared(allocator: std.mem.Allocator, list: []const u8) !?[]const Code {
    var wanted = std.ArrayList(Code).init(allocator);
    var capabilities = std.mem.splitScalar(u8, list, ',');
    while (capabilities.next()) |capability| {
        if (std.mem.startsWith(u8, capability, "gfx")) {
            try wanted.append(.{ .kind = kind_hip, .arch = 0, .suffix = capability });
            continue;
        }
        const with_ptx = std.mem.endsWith(u8, capability, "+PTX");
        const name = if (with_ptx) capability[0 .. capability.len - 4] else capability;
        const dot = std.mem.indexOfScalar(u8, name, '.') orelse return null;
        var end = name.len;
        if (end > 0 and std.ascii.isAlphabetic(name[end - 1])) end -= 1;
        if (end < dot + 2) return null;
        const major = std.fmt.parseInt(u16, name[0..dot], 10) catch return null;
        const minor = std.fmt.parseInt(u8, name[dot + 1 .. end], 10) catch return null;
        const arch = @as(u32, major) * 10 + minor;
        try wanted.append(.{ .kind = kind_elf, .arch = arch, .suffix = name[end..] });
        if (with_ptx) try wanted.append(.{ .kind = kind_ptx, .arch = arch, .suffix = name[end..] });
    }
    return wanted.items;
}

/// The code without the features of AMD's architectures, `gfx942` for `gfx942:xnack-`, and without duplicates.
pub fn plain(allocator: std.mem.Allocator, codes: []const Code) ![]const Code {
    var found = std.ArrayList(Code).init(allocator);
    for (codes) |code| {
        const end = std.mem.indexOfScalar(u8, code.suffix, ':') orelse code.suffix.len;
        const bare = Code{ .kind = code.kind, .arch = code.arch, .suffix = code.suffix[0..end] };
        if (!has(found.items, bare)) try found.append(bare);
    }
    return found.items;
}

pub fn has(codes: []const Code, code: Code) bool {
    for (codes) |other| {
        if (code.equals(other)) return true;
    }
    return false;
}
