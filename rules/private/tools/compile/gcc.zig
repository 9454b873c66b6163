//! The program of the actions that compile with gcc: it runs cc1plus, which makes text or assembly, and an assembler.
//!
//!   gcc preprocess          -- LOADER ARGUMENT... -o TEXT
//!   gcc compile    CLANG... -- LOADER ARGUMENT... -o OBJECT
//!
//! What cc1plus reads is looked at as that of clang is, see inputs.zig. LOADER is the dynamic loader that starts it, and
//! CLANG with what follows is the assembler.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const inputs = @import("inputs.zig");

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const step = arguments.next() orelse return common.fail("no step named", .{});
    const compiles = common.is(step, "compile");
    if (!compiles and !common.is(step, "preprocess")) return common.fail("no such step: {s}", .{step});
    var assembler = std.ArrayList([]const u8).init(allocator);
    while (arguments.next()) |word| {
        if (common.is(word, "--")) break;
        try assembler.append(word);
    }
    const given = arguments.items[arguments.at..];
    if (given.len < 2 or !common.is(given[given.len - 2], "-o")) return common.fail("{s}: no -o at the end", .{step});
    const out = given[given.len - 1];
    const made = if (compiles) try std.mem.concat(allocator, u8, &.{ out, ".s" }) else out;

    var command = std.ArrayList([]const u8).init(allocator);
    try command.appendSlice(given[0 .. given.len - 1]);
    try command.append(made);

    // Debug information names the directory that a compiler runs in.
    const directory = try std.process.getCwdAlloc(allocator);
    try command.append(try std.mem.concat(allocator, u8, &.{ "-fdebug-prefix-map=", directory, "=." }));
    const reads = for (given) |word| {
        if (common.is(word, "-fpreprocessed")) break false;
    } else true;
    if (reads) for ([_][]const u8{ "-MD", try inputs.listName(allocator, made), "-MT", "out" }) |word| try command.append(word);
    const environment = try std.process.getEnvMap(allocator);
    try dryrun.execute(allocator, command.items, &environment);
    if (reads) try inputs.check(allocator, made);
    if (!compiles) return;
    for ([_][]const u8{ "-c", made, "-o", out }) |word| try assembler.append(word);
    try dryrun.execute(allocator, assembler.items, &environment);
    std.fs.cwd().deleteFile(made) catch {};
}

pub fn main() u8 {
    return common.run(run, 1);
}
