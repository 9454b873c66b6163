//! The program of the actions before and after the compiles: the id of a kernel, the directory of a variant, the bundle
//! of all variants, the device code of a slice.
//!
//!   assemble id      --backend B --module M --config C --header OUT --text OUT [--src NAME PATH]...
//!   assemble variant --id ID.txt --template METADATA.json --out DIR [--file NAME PATH]... [--extension SUFFIX PATH]
//!   assemble slice   --in OBJECT --out OBJECT [--keep ARCH]...
//!   assemble bundle  --out DIR [--variant NAME DIR]...
const std = @import("std");
const common = @import("common");
const directory = @import("directory.zig");
const identity = @import("identity.zig");
const slice = @import("slice.zig");

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const command = arguments.next() orelse return common.fail("the command is missing", .{});
    if (common.is(command, "id")) return identity.run(allocator, arguments);
    if (common.is(command, "variant")) return directory.variant(allocator, arguments);
    if (common.is(command, "bundle")) return directory.bundle(allocator, arguments);
    if (common.is(command, "slice")) return slice.run(allocator, arguments);
    return common.fail("no such command: {s}", .{command});
}

pub fn main() u8 {
    return common.run(run, 1);
}
