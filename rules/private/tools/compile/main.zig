//! The program of all compile actions: it runs compilers, or combines their outputs.
//!
//!   compile sources [--lines] [IN OUT]...
//!   compile name ID.txt [IN OUT]...
//!   compile guarded PACKS [--scan FILE]... [--full TEXT] [--read OUT] [--precompiled HEADER --precompiled-text TEXT]
//!                   -- COMPILER ARGUMENT...
//!   compile precompile PACKS --text TEXT -- COMPILER ARGUMENT...
//!   compile either  --full TEXT --read IN OUT -- COMPILER ARGUMENT...
//!   compile confined -- COMPILER ARGUMENT...
//!   compile nvcc    --source NAME --section NAME -- NVCC ARGUMENT...
//!   compile fallback PACKS --source NAME --section NAME --arch-list LIST --attempt OBJECT CODE --out OBJECT CODE
//!                   --read IN OUT --host GENCODE [--device NUMBER GENCODE]... [--image GENCODE]...
//!                   [--cubin NUMBER ATTEMPT OUT]... -- NVCC ARGUMENT...
//!   compile preprocess PACKS --arch-list LIST [--share] [--scan FILE]... [--read OUT] [--host OUT GENCODE]
//!                   [--device ARCH OUT GENCODE]... -- NVCC ARGUMENT...
//!   compile phase   PHASE PACKS --source NAME --section NAME [--in ROLE PATH]... --out PATH [--stub PATH] [--attempt]
//!                   -- NVCC ARGUMENT...
//!   compile device-link --out CUBIN --libraries TEXT [--runtime ARCHIVE] [--in FILE]... -- NVCC ARGUMENT...
//!   compile register-linked PACKS --section NAME [--module SECTION NAME]... [--libraries TEXT]... [--in ROLE CUBIN]...
//!                   --code OBJECT --out OBJECT -- NVCC ARGUMENT...
//!   compile spread  [--arch NUMBER BITCODE STUB BITCODE_TO_WRITE STUB_TO_WRITE]... --stub PATH
//!   compile hip-bundle --cuid ID --out OBJECT [--code ARCH FILE]...
//!
//! PACKS is `[--pack FILE]... [--reads FILE]...`, see packs.zig.
const std = @import("std");
const common = @import("common");
const device_link = @import("device_link.zig");
const fallback = @import("fallback.zig");
const hip = @import("hip.zig");
const inputs = @import("inputs.zig");
const nvcc = @import("nvcc.zig");
const phase = @import("phase.zig");
const precompiled = @import("precompiled.zig");
const sources = @import("sources.zig");
const texts = @import("texts.zig");

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const command = arguments.next() orelse return common.fail("the command is missing", .{});
    if (common.is(command, "sources")) return sources.run(allocator, arguments);
    if (common.is(command, "name")) return sources.named(allocator, arguments);
    if (common.is(command, "guarded")) return inputs.run(allocator, arguments);
    if (common.is(command, "precompile")) return precompiled.run(allocator, arguments);
    if (common.is(command, "either")) return inputs.either(allocator, arguments);
    if (common.is(command, "confined")) return inputs.confined(allocator, arguments);
    if (common.is(command, "fallback")) return fallback.run(allocator, arguments);
    if (common.is(command, "nvcc")) return nvcc.run(allocator, arguments);
    if (common.is(command, "preprocess")) return nvcc.preprocess(allocator, arguments);
    if (common.is(command, "phase")) return phase.run(allocator, arguments);
    if (common.is(command, "device-link")) return device_link.run(allocator, arguments);
    if (common.is(command, "register-linked")) return device_link.register(allocator, arguments);
    if (common.is(command, "spread")) return texts.spread(allocator, arguments);
    if (common.is(command, "hip-bundle")) return hip.bundle(allocator, arguments);
    return common.fail("no such command: {s}", .{command});
}

pub fn main() u8 {
    return common.run(run, 1);
}
