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

/// What asks whether there is a file.
const asked = "__has_include";

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
    const environment = try dryrun.environmentHere(allocator);
    try dryrun.execute(null, allocator, command.items, &environment);
    if (reads) {
        try lookedFor(allocator, directory, made);
        try inputs.check(allocator, made, null);
    }
    if (!compiles) return;
    for ([_][]const u8{ "-c", made, "-o", out }) |word| try assembler.append(word);
    try dryrun.execute(null, allocator, assembler.items, &environment);
    std.fs.cwd().deleteFile(made) catch {};
}

/// Fails if a file that was read asks for one elsewhere with `__has_include`: gcc does not list what it has found like this.
fn lookedFor(allocator: std.mem.Allocator, directory: []const u8, out: []const u8) !void {
    const list = try common.read(allocator, try inputs.listName(allocator, out));
    var rest: []const u8 = list[std.mem.indexOf(u8, list, ": ").? + 2 ..];
    while (try inputs.nextName(allocator, &rest)) |name| {
        if (std.mem.startsWith(u8, name, inputs.pinned)) continue;
        const whole = common.read(allocator, name) catch continue; // what is elsewhere is refused by its name
        const text = try withoutComments(allocator, whole);
        const beside = std.fs.path.dirname(name) orelse ".";
        var at: usize = 0;
        while (std.mem.indexOfPos(u8, text, at, asked)) |found| {
            at = found + asked.len;
            const sought = named(text[at..]) orelse continue;
            const absolute = std.mem.startsWith(u8, sought, "/");
            if (!absolute and std.mem.indexOf(u8, sought, "..") == null) continue;
            const path = if (absolute) sought else try std.fs.path.join(allocator, &.{ beside, sought });
            std.fs.cwd().access(path, .{}) catch continue;
            if (try inputs.inside(allocator, directory, path) == null) return inputs.refuse(out, sought);
        }
    }
}

/// A source without its comments; a string that has what begins one ends there too.
fn withoutComments(allocator: std.mem.Allocator, text: []const u8) ![]const u8 {
    var left = std.ArrayList(u8).init(allocator);
    var at: usize = 0;
    while (at < text.len) {
        const line = std.mem.startsWith(u8, text[at..], "//");
        if (!line and !std.mem.startsWith(u8, text[at..], "/*")) {
            try left.append(text[at]);
            at += 1;
            continue;
        }
        const end = std.mem.indexOfPos(u8, text, at + 2, if (line) "\n" else "*/") orelse return left.items;
        at = if (line) end else end + 2;
    }
    return left.items;
}

test "sources without comments" {
    const allocator = std.heap.page_allocator;
    try std.testing.expectEqualStrings("a \nb  c", try withoutComments(allocator, "a // x\nb /* y\n*/ c"));
    try std.testing.expectEqualStrings("a ", try withoutComments(allocator, "a /* x"));
}

/// The name in `("name")` or `(<name>)`; null if there is none.
fn named(text: []const u8) ?[]const u8 {
    const blanks = " \t";
    const open = std.mem.trimLeft(u8, text, blanks);
    if (open.len == 0 or open[0] != '(') return null;
    const quoted = std.mem.trimLeft(u8, open[1..], blanks);
    if (quoted.len == 0 or std.mem.indexOfScalar(u8, "\"<", quoted[0]) == null) return null;
    const end = std.mem.indexOfAny(u8, quoted[1..], "\">\n") orelse return null;
    return quoted[1 .. 1 + end];
}

test "names that are asked for" {
    try std.testing.expectEqualStrings("/a/b.h", named(" ( \"/a/b.h\") && x").?);
    try std.testing.expectEqualStrings("c.h", named("(<c.h>)").?);
    try std.testing.expectEqual(null, named("(NAME)"));
    try std.testing.expectEqual(null, named("_next(\"a\")"));
}

pub fn main() u8 {
    return common.run(run, 1);
}
