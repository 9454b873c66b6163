//! The host stub of a source, which launches its kernels: cicc's output without the path where it was written, and with
//! the address of the device code where nvcc includes the code as text.
const std = @import("std");
const common = @import("common");

/// The call in a stub whose device code is linked with that of other sources.
const registers_linked = "____cudaRegisterLinkedBinary(";

pub const Stub = struct {
    /// The path where it was written.
    path: []const u8,
    /// The name in its place.
    name: []const u8,
    /// The included file with the device code.
    included: []const u8,
    /// The symbol at the start of the device code of all architectures.
    symbol: []const u8,
    /// The module id of the source, which registers linked device code.
    id: []const u8,
};

/// The text of the stub, the same on every machine.
pub fn clean(allocator: std.mem.Allocator, text: []const u8, stub: Stub) ![]const u8 {
    const include = try std.mem.concat(allocator, u8, &.{ "#include \"", stub.included, "\"\n" });
    const unplaced = try std.mem.replaceOwned(u8, allocator, text, stub.path, stub.name);
    if (std.mem.count(u8, unplaced, include) != 1)
        return common.fail("nvcc: the host code does not include {s} exactly once; build with `--cuda-compile monolithic`", .{
            stub.included,
        });
    const is_linked = std.mem.indexOf(u8, text, registers_linked) != null;
    const declared = try std.fmt.allocPrint(allocator,
        \\#include "fatbinary_section.h"
        \\extern "C" __attribute__((visibility("hidden"))) const unsigned long long {s}[];
        \\extern "C" {{ {s} const __fatBinC_Wrapper_t {s}{s} __attribute__((aligned(8)))
        \\__attribute__((section(FATBIN_CONTROL_SECTION_NAME))) = {{ FATBINC_MAGIC, FATBINC_VERSION, {s}, 0 }}; }}
        \\
    , .{
        stub.symbol,
        if (is_linked) "extern __attribute__((visibility(\"hidden\")))" else "static",
        if (is_linked) "__fatbinwrap" else "__fatDeviceText",
        if (is_linked) stub.id else "",
        stub.symbol,
    });
    return std.mem.replaceOwned(u8, allocator, unplaced, include, declared);
}

test "the device code of a stub" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const stub = Stub{ .path = "out/a/stub.c", .name = "stub.c", .included = "fatbin.c", .symbol = "fatbin_1", .id = "_1_a" };
    const alone = try clean(arena.allocator(), "#include \"fatbin.c\"\n# 1 \"out/a/stub.c\"\n", stub);
    try std.testing.expect(std.mem.indexOf(u8, alone, "static const __fatBinC_Wrapper_t __fatDeviceText ") != null);
    try std.testing.expect(std.mem.endsWith(u8, alone, "# 1 \"stub.c\"\n"));
    const text = "#include \"fatbin.c\"\nvoid f() { ____cudaRegisterLinkedBinary(g); }\n";
    const linked = try clean(arena.allocator(), text, stub);
    try std.testing.expect(std.mem.indexOf(u8, linked, "const __fatBinC_Wrapper_t __fatbinwrap_1_a ") != null);
}
