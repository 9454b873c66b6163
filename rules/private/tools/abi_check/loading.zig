//! The rules of the ABI check about program headers, dynamic tags, flags and relocations, by the lists in
//! rules/private/policy/loading.txt; and about the size of static TLS.
const std = @import("std");
const common = @import("common");
const elf = @import("elf.zig");
const policies = @import("policy.zig");
const rules = @import("rules.zig");

const Check = rules.Check;
/// Segments that are allowed once: of several, the loader could use another than this check.
const single = [_]u32{ std.elf.PT_DYNAMIC, std.elf.PT_TLS, std.elf.PT_GNU_STACK, std.elf.PT_GNU_RELRO };

/// A line of the list: the meaning of a number in a file.
const Entry = struct {
    kind: []const u8,
    cpu: []const u8,
    number: u64,
    name: []const u8,
    /// The reason why it is not allowed; empty if it is allowed.
    reason: []const u8,
};

pub const Lists = struct {
    entries: []const Entry = &.{},
    /// The maximum size of a library's static TLS, in bytes.
    static_tls: u64 = 0,

    pub fn read(allocator: std.mem.Allocator, path: []const u8) !Lists {
        var found = std.ArrayList(Entry).init(allocator);
        var lists = Lists{};
        for (try policies.readLines(allocator, path)) |line| {
            var words = std.mem.splitScalar(u8, line, ' ');
            const kind = words.first();
            const number = std.fmt.parseInt(u64, words.next() orelse "", 0) catch
                return common.fail("{s}: not a kind and a number: {s}", .{ path, line });
            if (common.is(kind, "static-tls")) {
                lists.static_tls = number;
                continue;
            }
            const name = words.next() orelse return common.fail("{s}: no name: {s}", .{ path, line });
            const at = std.mem.indexOfScalar(u8, kind, '@') orelse kind.len;
            try found.append(.{
                .kind = kind[0..at],
                .cpu = if (at < kind.len) kind[at + 1 ..] else "",
                .number = number,
                .name = name,
                .reason = if (std.mem.indexOf(u8, line, " - ")) |dash| line[dash + 3 ..] else "",
            });
        }
        lists.entries = found.items;
        return lists;
    }

    fn find(self: *const Lists, kind: []const u8, cpu: []const u8, number: u64) ?Entry {
        for (self.entries) |entry| {
            if (!common.is(entry.kind, kind) or entry.number != number) continue;
            if (entry.cpu.len == 0 or common.is(entry.cpu, cpu)) return entry;
        }
        return null;
    }
};

pub fn check(work: *Check) elf.Error!void {
    try segments(work);
    try tags(work);
    try relocations(work);
}

/// Looks up a number, and adds a finding if it is not allowed; returns whether it is.
fn judge(work: *Check, kind: []const u8, rule: []const u8, number: u64, what: []const u8) elf.Error!bool {
    const known = work.lists.find(kind, work.cpu(), number);
    if (known != null and known.?.reason.len == 0) return true;
    const name = if (known) |entry| entry.name else try std.fmt.allocPrint(work.allocator, "0x{x}", .{number});
    const reason = if (known) |entry| entry.reason else "unknown, and so not allowed";
    try work.add(rule, name, "{s}{s}", .{ what, reason }, "link like `driver build`, without the option that adds it");
    return false;
}

fn segments(work: *Check) elf.Error!void {
    const library = work.library;
    for (library.segments, 0..) |segment, i| {
        _ = try judge(work, "segment", "program-header", segment.kind, "");
        for (single) |kind| {
            const first = for (library.segments, 0..) |other, j| {
                if (other.kind == kind) break j;
            } else i;
            if (segment.kind == kind and first != i) try work.add(
                "program-header",
                work.lists.find("segment", work.cpu(), kind).?.name,
                "exists twice: loaders differ in which of both they use",
                .{},
                "link the library again",
            );
        }
        if (segment.kind != std.elf.PT_LOAD) continue;
        const both = std.elf.PF_W | std.elf.PF_X;
        if (segment.flags & both == both) try work.add(
            "program-header",
            "PT_LOAD",
            "a segment is writable and executable",
            .{},
            "link without `-N` and without writable sections with code",
        );
        const page: u64 = if (common.is(work.cpu(), "aarch64")) 0x10000 else 0x1000;
        const alignment = segment.alignment;
        if (alignment % page != 0 or alignment == 0 or (segment.address -% segment.offset) % alignment != 0) try work.add(
            "program-header",
            "PT_LOAD",
            "not aligned to pages of {d} bytes",
            .{page},
            "link with `-z max-page-size` of at least that size",
        );
    }
}

fn tags(work: *Check) elf.Error!void {
    const library = work.library;
    var seen = std.AutoHashMap(u64, void).init(work.allocator);
    for (library.tags) |entry| {
        const allowed = try judge(work, "tag", "dynamic-tag", entry.tag, "");
        const again = (try seen.getOrPut(entry.tag)).found_existing;
        if (again and allowed and entry.tag != std.elf.DT_NEEDED) try work.add(
            "dynamic-tag",
            work.lists.find("tag", work.cpu(), entry.tag).?.name,
            "exists twice: loaders differ in which of both they use",
            .{},
            "link the library again",
        );
        if (entry.tag == std.elf.DT_FLAGS) try flags(work, "flag", entry.value);
        if (entry.tag == std.elf.DT_FLAGS_1) try flags(work, "flag-1", entry.value);
    }
}

fn flags(work: *Check, kind: []const u8, value: u64) elf.Error!void {
    for (0..64) |i| {
        const flag = @as(u64, 1) << @intCast(i);
        if (value & flag != 0) _ = try judge(work, kind, "dynamic-flag", flag, "");
    }
}

fn relocations(work: *Check) elf.Error!void {
    const library = work.library;
    const is_arm = common.is(work.cpu(), "aarch64");
    const static_kind: u32 = if (is_arm) 1030 else 18;
    var counts = std.AutoArrayHashMap(u32, usize).init(work.allocator);
    var in_code: usize = 0;
    var static = false;
    for (try library.relocations()) |relocation| {
        const count = try counts.getOrPutValue(relocation.kind, 0);
        count.value_ptr.* += 1;
        static = static or relocation.kind == static_kind;
        if (relocation.kind != 0 and !library.isWritable(relocation.address)) in_code += 1;
    }
    for (counts.keys(), counts.values()) |kind, count| {
        const what = try std.fmt.allocPrint(work.allocator, "{d} relocations: ", .{count});
        _ = try judge(work, "relocation", "relocation", kind, what);
    }
    // With TEXTREL in the file, the rule `text-relocations` reports it.
    if (in_code > 0 and !library.text_relocations) try work.add(
        "text-relocations",
        "TEXTREL",
        "missing, but {d} relocations write into read-only memory: the loader would crash",
        .{in_code},
        "compile everything with `-fPIC`",
    );
    const flag = for (library.tags) |entry| {
        if (entry.tag == std.elf.DT_FLAGS and entry.value & std.elf.DF_STATIC_TLS != 0) break true;
    } else false;
    const variables = library.segment(std.elf.PT_TLS) orelse return;
    const unit = @max(1, variables.alignment);
    const units = std.math.divCeil(u64, variables.memory, unit) catch return error.Malformed;
    const taken = std.math.mul(u64, units, unit) catch return error.Malformed;
    if ((static or flag) and taken > work.lists.static_tls) try work.add(
        "static-tls",
        "PT_TLS",
        "{d} bytes of static TLS; a library may use {d}",
        .{ taken, work.lists.static_tls },
        "compile without `-ftls-model=initial-exec` and `tls_model(\"initial-exec\")`; glibc has 1664 bytes for all libraries",
    );
}
