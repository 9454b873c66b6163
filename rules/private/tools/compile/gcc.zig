//! The program of the actions that compile with gcc: it runs cc1plus, which writes preprocessed text or assembly, and
//! an assembler.
//!
//!   gcc preprocess [--scan FILE]... [--full TEXT] [--read OUT]         -- LOADER ARGUMENT... -o TEXT
//!   gcc compile    [--full TEXT --read IN OUT] ASSEMBLER ARGUMENT... -- LOADER ARGUMENT... -o OBJECT
//!
//! A source is preprocessed with the headers of torch that it seems to need, if the meaning is the same as with all
//! headers; another action compiles the text. The files that were read are checked as for clang, see inputs.zig. LOADER
//! is the dynamic loader, which starts cc1plus, and ASSEMBLER is clang.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const inputs = @import("inputs.zig");
const needed = @import("needed.zig");

/// The operator that tests whether a file exists.
const asked = "__has_include";

fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const command = arguments.next() orelse return common.fail("the command is missing", .{});
    if (common.is(command, "preprocess")) return preprocess(allocator, arguments);
    if (common.is(command, "compile")) return compile(allocator, arguments);
    return common.fail("no such command: {s}", .{command});
}

/// Preprocesses a source, with fewer headers of torch if the meaning is the same; see `inputs.run` for the flags.
fn preprocess(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var scanned = std.ArrayList([]const u8).init(allocator);
    var full: []const u8 = "";
    var report: []const u8 = "";
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (common.is(flag, "--scan")) {
            try scanned.append(value);
        } else if (common.is(flag, "--full")) {
            full = value;
        } else if (common.is(flag, "--read")) {
            report = value;
        } else return common.fail("preprocess: no such flag: {s}", .{flag});
    }
    const command = arguments.items[arguments.at..];
    const out = try inputs.output(command);
    const environment = try dryrun.environmentHere(allocator);
    const gcc = Gcc{ .allocator = allocator, .environment = &environment };
    const all = try needed.full(allocator, command);
    const why = switch (try needed.choose(allocator, command, scanned.items, .host, .words)) {
        .all => |why| why,
        .few => |few| try inputs.differ(allocator, few, all, .{ out, full }, gcc),
    };
    if (report.len > 0) try needed.tell(allocator, report, why);
    if (why == null) return;
    if (full.len > 0) try common.write(full, "");
    try dryrun.execute(null, allocator, try gcc.listing(all, out), &environment);
    try gcc.check(out);
}

/// gcc as the preprocessor of `inputs.differ`.
const Gcc = struct {
    allocator: std.mem.Allocator,
    environment: *const std.process.EnvMap,

    pub fn preprocess(self: Gcc, command: []const []const u8, text: []const u8) !bool {
        if (!try dryrun.attempt(null, self.allocator, try self.listing(command, text), self.environment)) return false;
        try self.check(text);
        return true;
    }

    /// The words of a preprocessing command with which gcc also lists the files that it reads.
    fn listing(self: Gcc, command: []const []const u8, text: []const u8) ![][]const u8 {
        const list = try inputs.listName(self.allocator, text);
        return std.mem.concat(self.allocator, []const u8, &.{ command, &.{ "-MD", list, "-MT", "out" } });
    }

    /// Fails if a command of `listing` has read or found other files than inputs.
    fn check(self: Gcc, text: []const u8) !void {
        try lookedFor(self.allocator, try std.process.getCwdAlloc(self.allocator), text);
        try inputs.check(self.allocator, text, null);
    }
};

/// Compiles a preprocessed text to assembly, and assembles it.
fn compile(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const chooses = arguments.at < arguments.items.len and common.is(arguments.items[arguments.at], "--full");
    const texts = if (chooses) try inputs.Texts.of(arguments) else null;
    var assembler = std.ArrayList([]const u8).init(allocator);
    while (arguments.next()) |word| {
        if (common.is(word, "--")) break;
        try assembler.append(word);
    }
    const arguments_of_gcc = arguments.items[arguments.at..];
    const out = try inputs.output(arguments_of_gcc);
    const assembly = try std.mem.concat(allocator, u8, &.{ out, ".s" });

    // Debug information contains the compiler's working directory.
    const directory = try std.process.getCwdAlloc(allocator);
    const map = try std.mem.concat(allocator, u8, &.{ "-fdebug-prefix-map=", directory, "=." });
    const command = try std.mem.concat(allocator, []const u8, &.{ arguments_of_gcc, &.{map} });
    for (command) |*word| {
        if (common.is(word.*, out)) word.* = assembly;
    }
    const environment = try dryrun.environmentHere(allocator);
    if (texts) |both| try both.compile(allocator, command, &environment) else try dryrun.execute(null, allocator, command, &environment);
    for ([_][]const u8{ "-c", assembly, "-o", out }) |word| try assembler.append(word);
    try dryrun.execute(null, allocator, assembler.items, &environment);
    std.fs.cwd().deleteFile(assembly) catch {};
}

/// Fails if a file that was read tests for a file elsewhere with `__has_include`: gcc does not list such files.
fn lookedFor(allocator: std.mem.Allocator, directory: []const u8, out: []const u8) !void {
    const list = try common.read(allocator, try inputs.listName(allocator, out));
    var rest: []const u8 = list[std.mem.indexOf(u8, list, ": ").? + 2 ..];
    while (try inputs.nextName(allocator, &rest)) |name| {
        if (std.mem.startsWith(u8, name, inputs.pinned)) continue;
        const whole = common.read(allocator, name) catch continue; // a file elsewhere is refused by its name
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

/// A source without its comments; a string with the beginning of a comment ends there too.
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

test "names in __has_include" {
    try std.testing.expectEqualStrings("/a/b.h", named(" ( \"/a/b.h\") && x").?);
    try std.testing.expectEqualStrings("c.h", named("(<c.h>)").?);
    try std.testing.expectEqual(null, named("(NAME)"));
    try std.testing.expectEqual(null, named("_next(\"a\")"));
}

pub fn main() u8 {
    return common.run(run, 1);
}
