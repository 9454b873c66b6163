//! The program of all actions that compile: it runs compilers, or puts together what they have made.
//!
//!   compile guarded -- COMPILER ARGUMENT...
//!   compile nvcc    --source NAME --section NAME -- NVCC ARGUMENT...
//!   compile preprocess --arch-list LIST [--host OUT GENCODE] [--device OUT GENCODE]... -- NVCC ARGUMENT...
//!   compile phase   PHASE --source NAME --section NAME [--in ROLE PATH]... --out PATH [--stub PATH]
//!                   [--share MODE --target SM] -- NVCC ARGUMENT...
//!   compile hip-bundle --cuid ID --out OBJECT [--code ARCH FILE]...
const std = @import("std");
const common = @import("common");
const hip = @import("hip.zig");
const inputs = @import("inputs.zig");
const nvcc = @import("nvcc.zig");

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const verb = arguments.next() orelse return common.fail("no step named", .{});
    if (common.is(verb, "guarded")) return inputs.run(allocator, arguments);
    if (common.is(verb, "nvcc")) return nvcc.run(allocator, arguments);
    if (common.is(verb, "preprocess")) return nvcc.preprocess(allocator, arguments);
    if (common.is(verb, "phase")) return nvcc.runPhase(allocator, arguments);
    if (common.is(verb, "hip-bundle")) return hip.bundle(allocator, arguments);
    return common.fail("no such step: {s}", .{verb});
}

pub fn main() u8 {
    return common.run(run, 1);
}
