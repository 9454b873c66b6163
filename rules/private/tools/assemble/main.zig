//! The program of the actions around the compiling: the id of a kernel, the directory of a variant and of all of them,
//! the device code of a slice.
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
    const verb = arguments.next() orelse return common.fail("no step named", .{});
    if (common.is(verb, "id")) return identity.run(allocator, arguments);
    if (common.is(verb, "variant")) return directory.variant(allocator, arguments);
    if (common.is(verb, "bundle")) return directory.bundle(allocator, arguments);
    if (common.is(verb, "slice")) return slice.run(allocator, arguments);
    return common.fail("no such step: {s}", .{verb});
}

pub fn main() u8 {
    return common.run(run, 1);
}
