//! Ensures that a compiler reads only its inputs: without a sandbox, the files that it has read are checked afterwards.
//! landlock.zig denies it the content of other files, also files that an assembler reads; it does not hide whether a
//! file exists. Without Landlock, the project's texts are searched for files that an assembler would read.
//!
//! The compiler lists each file that a directive has read or found (`#include`, `#embed`, `__has_include`). A file
//! below the working directory, where a sandbox or an executor puts an action's inputs, counts as an input.
const std = @import("std");
const common = @import("common");
const comparison = @import("comparison.zig");
const dryrun = @import("dryrun.zig");
const lexer = @import("lexer.zig");
const needed = @import("needed.zig");
const Packs = @import("packs.zig").Packs;
const Precompiled = @import("precompiled.zig").Precompiled;

/// Directives that make an assembler read a file.
const directives = [_][]const u8{ ".incbin", ".include" };

/// Directives that make a compiler read a file.
const reading = [_][]const u8{ "include", "import", "embed", "pragma GCC dependency" };

/// The directory of pinned archives, which are not searched.
pub const pinned = "external/";

/// Runs a compiler, whose command line follows `--`, and fails if it has read any other file than inputs.
///
/// If the command has a place for needed headers, it reads only the headers that the scanned files need, or all headers
/// if the meaning would differ or the compile fails. `--read` is the file for that result, in words. `--full` is the
/// file for the text with all headers, for `either`; it is empty if the command's own output has that text. With
/// `--precompiled HEADER` and `--precompiled-text TEXT`, a source that begins with those headers is compiled with them,
/// if they mean the same to it as all headers.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var scanned = std.ArrayList([]const u8).init(allocator);
    var text: []const u8 = "";
    var report: []const u8 = "";
    var precompiled = Precompiled{ .header = "", .text = "" };
    var packs = Packs.init(allocator);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (try packs.takes(flag, value)) continue;
        if (common.is(flag, "--precompiled")) {
            precompiled.header = value;
        } else if (common.is(flag, "--precompiled-text")) {
            precompiled.text = value;
        } else if (common.is(flag, "--scan")) {
            try scanned.append(value);
        } else if (common.is(flag, "--full")) {
            text = value;
        } else if (common.is(flag, "--read")) {
            report = value;
        } else return common.fail("guarded: no such flag: {s}", .{flag});
    }
    const command = arguments.items[arguments.at..];
    const environment = try dryrun.environmentHere(allocator);
    const out = try output(command);
    const all = try needed.full(allocator, command);
    try packs.layOut();
    const attempt = Attempt{ .allocator = allocator, .command = command, .all = all, .scanned = scanned.items, .packs = &packs, .environment = &environment };
    if (precompiled.header.len > 0 and try attempt.precompiledWith(precompiled)) return common.write(report, needed.precompiled);
    const few = try attempt.of(text);
    switch (few) {
        .done => {},
        .all => {
            if (text.len > 0) try common.write(text, "");
            _ = try packs.run(try listing(allocator, all, out), &environment, true);
            try check(allocator, out, &packs);
        },
    }
    if (report.len > 0) try needed.tell(allocator, report, if (few == .all) few.all else null);
}

/// Compiles or preprocesses a C++ source with the headers that it seems to need.
const Attempt = struct {
    allocator: std.mem.Allocator,
    command: []const []const u8,
    all: []const []const u8,
    scanned: []const []const u8,
    packs: *Packs,
    environment: *const std.process.EnvMap,

    /// Done, or the reason to read all headers.
    const Outcome = union(enum) { done, all: []const u8 };

    fn of(self: Attempt, kept: []const u8) !Outcome {
        const few = switch (try needed.choose(self.allocator, self.command, self.scanned, .host, .words)) {
            .all => |why| return .{ .all = why },
            .few => |few| few,
        };
        const out = try output(self.command);
        const preprocesses = for (self.command) |word| {
            if (common.is(word, "-E")) break true;
        } else false;
        const texts = .{
            if (preprocesses) out else try self.beside(out, ".needed.ii"),
            if (kept.len > 0) kept else try self.beside(out, ".full.ii"),
        };
        defer if (!preprocesses) std.fs.cwd().deleteFile(texts[0]) catch {};
        defer if (kept.len == 0) std.fs.cwd().deleteFile(texts[1]) catch {};
        if (try differ(self.allocator, few, self.all, texts, self.clang())) |why| return .{ .all = why };
        if (preprocesses) return .done;
        if (!try self.packs.run(try listing(self.allocator, few.command, out), self.environment, false)) return .{ .all = needed.failed };
        try check(self.allocator, out, self.packs);
        return .done;
    }

    /// Compiles with precompiled headers; returns whether it did: if the source reads them first, they mean the same to
    /// it as all headers, and clang prints nothing.
    fn precompiledWith(self: Attempt, precompiled: Precompiled) !bool {
        const few = switch (try needed.choose(self.allocator, self.command, self.scanned, .host, .widest)) {
            .all => return false,
            .few => |few| few,
        };
        const out = try output(self.command);
        const texts = [_][]const u8{ try self.beside(out, ".needed.ii"), try self.beside(out, ".full.ii") };
        defer for (texts) |text| std.fs.cwd().deleteFile(text) catch {};
        if (!try self.clang().preprocess(try preprocessing(self.allocator, few.command, texts[0]), texts[0])) return false;
        const text = try common.read(self.allocator, texts[0]);
        // The compile runs in parallel with the comparison, half of which is another preprocessor.
        var compile = (try precompiled.begin(self.allocator, self.command, text, self.environment)) orelse return false;
        const why = fullDiffers(self.allocator, few, self.all, texts, self.clang()) catch |err| {
            _ = try compile.end(self.allocator, false);
            return err;
        };
        return compile.end(self.allocator, why == null);
    }

    fn clang(self: Attempt) Clang {
        return .{ .allocator = self.allocator, .packs = self.packs, .environment = self.environment };
    }

    fn beside(self: Attempt, out: []const u8, extension: []const u8) ![]const u8 {
        return std.mem.concat(self.allocator, u8, &.{ out, extension });
    }
};

/// clang as the preprocessor of `differ`.
const Clang = struct {
    allocator: std.mem.Allocator,
    packs: *Packs,
    environment: *const std.process.EnvMap,

    pub fn preprocess(self: Clang, command: []const []const u8, text: []const u8) !bool {
        if (!try self.packs.run(try listing(self.allocator, command, text), self.environment, false)) return false;
        try check(self.allocator, text, self.packs);
        return true;
    }
};

/// Preprocesses a source to two texts: with the headers that it seems to need, and with all. Returns null if both mean
/// the same, otherwise the reason to read all. The compile with all headers reports errors of the source.
///
/// Args: `few`, the choice of `needed.choose`; `all`, the command with all headers; `preprocessor`, whose method
/// `preprocess` runs a command that writes a text, and returns whether it succeeded.
pub fn differ(
    allocator: std.mem.Allocator,
    few: needed.Few,
    all: []const []const u8,
    texts: [2][]const u8,
    preprocessor: anytype,
) !?[]const u8 {
    if (!try preprocessor.preprocess(try preprocessing(allocator, few.command, texts[0]), texts[0])) return needed.failed;
    return fullDiffers(allocator, few, all, texts, preprocessor);
}

/// Like `differ`, for an existing first text.
fn fullDiffers(
    allocator: std.mem.Allocator,
    few: needed.Few,
    all: []const []const u8,
    texts: [2][]const u8,
    preprocessor: anytype,
) !?[]const u8 {
    if (!try preprocessor.preprocess(try preprocessing(allocator, all, texts[1]), texts[1])) return needed.failed;
    const reads = .{ try common.read(allocator, texts[0]), try common.read(allocator, texts[1]) };
    return comparison.difference(allocator, reads[0], reads[1], few.spelled, .host);
}

/// The command that preprocesses to a file, made from a command that compiles or preprocesses.
pub fn preprocessing(allocator: std.mem.Allocator, command: []const []const u8, out: []const u8) ![][]const u8 {
    const words = try allocator.dupe([]const u8, command);
    const before = try output(command);
    for (words) |*word| {
        if (common.is(word.*, before)) word.* = out;
        if (common.is(word.*, "-c")) word.* = "-E";
    }
    return words;
}

/// Compiles a text of `run`, or, if that fails, the text of all headers, if it exists.
pub fn either(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    const texts = try Texts.of(arguments);
    if (!common.is(try arguments.value("either"), "--")) return common.fail("either: -- is missing", .{});
    const command = try allocator.dupe([]const u8, arguments.items[arguments.at..]);
    const environment = try dryrun.environmentHere(allocator);
    try texts.compile(allocator, command, &environment);
}

/// The text of all headers, which may be empty, the file with the headers that `run` read, and the file for those that
/// the compile reads: `--full TEXT --read BEFORE AFTER`.
pub const Texts = struct {
    full: []const u8,
    before: []const u8,
    after: []const u8,

    /// The texts of the next arguments.
    pub fn of(arguments: *common.Arguments) !Texts {
        if (!common.is(try arguments.value("--full"), "--full")) return common.fail("--full is missing", .{});
        const full = try arguments.value("--full");
        if (!common.is(try arguments.value("--read"), "--read")) return common.fail("--read is missing", .{});
        return .{ .full = full, .before = try arguments.value("--read"), .after = try arguments.value("--read") };
    }

    /// Compiles the text of a command, or the text of all headers if that fails.
    pub fn compile(
        self: Texts,
        allocator: std.mem.Allocator,
        command: [][]const u8,
        environment: *const std.process.EnvMap,
    ) !void {
        const first = (try common.read(allocator, self.full)).len > 0;
        if (!first or try dryrun.attempt(null, allocator, command, environment)) {
            try common.write(self.after, try common.read(allocator, self.before));
            if (first) return;
        } else {
            for (command) |*word| {
                if (std.mem.endsWith(u8, word.*, ".ii")) word.* = self.full;
            }
            try needed.tell(allocator, self.after, needed.failed);
        }
        try dryrun.execute(null, allocator, command, environment);
    }
};

/// Runs a compiler on a text of `run`, or an assembler.
pub fn confined(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    if (!common.is(try arguments.value("confined"), "--")) return common.fail("confined: -- is missing", .{});
    const environment = try dryrun.environmentHere(allocator);
    const command = try allocator.dupe([]const u8, arguments.items[arguments.at..]);
    try dryrun.execute(null, allocator, command, &environment);
}

/// The output of a command.
pub fn output(command: []const []const u8) ![]const u8 {
    for (command, 0..) |word, i| {
        if (common.is(word, "-o") and i + 1 < command.len) return command[i + 1];
    }
    return common.fail("the compiler's command has no -o", .{});
}

/// The words of a preprocessing command that also lists the read files beside its output. These options are clang's own
/// for `-MD`, which it ignores for the device code of HIP.
pub fn listing(allocator: std.mem.Allocator, command: []const []const u8, out: []const u8) ![][]const u8 {
    var words = std.ArrayList([]const u8).init(allocator);
    try words.appendSlice(command);
    for ([_][]const u8{ "-sys-header-deps", "-MT", "out", "-dependency-file", try listName(allocator, out) }) |word| {
        try words.append("-Xclang");
        try words.append(word);
    }
    return words.items;
}

/// Fails if a command of `listing` has read other files than inputs, or headers that differ from its packs; deletes the
/// list.
pub fn check(allocator: std.mem.Allocator, out: []const u8, packs: ?*Packs) !void {
    const list = try listName(allocator, out);
    const text = try common.read(allocator, list);
    std.fs.cwd().deleteFile(list) catch {};
    const directory = try std.process.getCwdAlloc(allocator);
    var rest: []const u8 = text[(std.mem.indexOf(u8, text, ": ") orelse return common.fail("no dependencies in {s}", .{list})) + 2 ..];
    while (try nextName(allocator, &rest)) |name| {
        const path = try inside(allocator, directory, name) orelse return refuse(out, name);
        if (packs) |headers| if (!try headers.holds(path)) {
            std.fs.cwd().deleteFile(out) catch {};
            return common.fail("{s} was changed after it was unpacked: undo the change, or unpack all archives again with " ++
                "`bazel clean --expunge`", .{path});
        };
        if (std.mem.startsWith(u8, path, pinned)) continue;
        if (try assembled(allocator, directory, try common.read(allocator, path))) |foreign| return refuse(out, foreign);
    }
    if (std.mem.endsWith(u8, out, ".ii") or std.mem.endsWith(u8, out, ".hipi")) {
        if (try included(allocator, directory, try common.read(allocator, out))) |foreign| return refuse(out, foreign);
    }
}

pub fn refuse(out: []const u8, name: []const u8) common.Failure {
    std.fs.cwd().deleteFile(out) catch {};
    return common.fail("{s} is read, but is not an input of the action; list the files that a source reads in build.toml, " ++
        "and name them by their path in the project", .{name});
}

pub fn listName(allocator: std.mem.Allocator, out: []const u8) ![]const u8 {
    return std.mem.concat(allocator, u8, &.{ out, ".d" });
}

/// The next name in a list of dependencies in the format of make; null at the end.
pub fn nextName(allocator: std.mem.Allocator, rest: *[]const u8) !?[]const u8 {
    var name = std.ArrayList(u8).init(allocator);
    const text = rest.*;
    var i: usize = 0;
    while (i < text.len) : (i += 1) {
        const c = text[i];
        const next = if (i + 1 < text.len) text[i + 1] else 0;
        if (c == '\\' and next == '\n') {
            i += 1;
            if (name.items.len > 0) break;
        } else if ((c == '\\' and (next == ' ' or next == '#')) or (c == '$' and next == '$')) {
            i += 1;
            try name.append(next);
        } else if (c == ' ' or c == '\n') {
            if (name.items.len > 0) break;
        } else try name.append(c);
    }
    rest.* = text[@min(i, text.len)..];
    return if (name.items.len > 0) name.items else null;
}

/// The path of a file from the working directory, without `.` and `..`; null for a file elsewhere, also through a link.
pub fn inside(allocator: std.mem.Allocator, directory: []const u8, name: []const u8) !?[]const u8 {
    const resolved = try std.fs.path.resolvePosix(allocator, &.{ directory, name });
    const above = std.mem.trimRight(u8, directory, "/"); // an executor may lay out the inputs in a root of their own
    if (!std.mem.startsWith(u8, resolved, above) or resolved.len <= above.len or resolved[above.len] != '/') return null;
    const path = resolved[above.len + 1 ..];
    if (std.mem.indexOf(u8, name, "..") == null) return path;
    const spelled = std.fs.cwd().statFile(name) catch return null;
    const plain = std.fs.cwd().statFile(path) catch return null;
    return if (spelled.inode == plain.inode) path else null;
}

/// The file elsewhere that an assembler's directive `.incbin "..."` names in a text; null if there is none. A name with
/// an escape counts as a file elsewhere.
fn assembled(allocator: std.mem.Allocator, directory: []const u8, text: []const u8) !?[]const u8 {
    for (directives) |directive| {
        var at: usize = 0;
        while (std.ascii.indexOfIgnoreCasePos(text, at, directive)) |found| {
            at = found + directive.len;
            const start = std.mem.indexOfNonePos(u8, text, at, " \t\\\"") orelse break;
            const end = std.mem.indexOfAnyPos(u8, text, start, "\"\n") orelse break;
            if (start == at or text[start - 1] != '"' and text[start - 1] != '\\') continue;
            const name = std.mem.trimRight(u8, text[start..end], "\\");
            if (name.len == 0) continue;
            const escapes = text[start - 1] == '\\' or std.mem.indexOfScalar(u8, name, '\\') != null;
            if (escapes or try inside(allocator, directory, name) == null) return name;
        }
    }
    return null;
}

/// The name in a directive that a macro has put into a preprocessed text, if it is a file elsewhere or unclear; null if
/// there is none.
fn included(allocator: std.mem.Allocator, directory: []const u8, text: []const u8) !?[]const u8 {
    var lines = std.mem.splitScalar(u8, text, '\n');
    while (lines.next()) |line| {
        // Only a possible directive is compared with the strings: they are rare, and texts are long.
        const name = try named(allocator, directory, line) orelse continue;
        const next = lines.index orelse text.len;
        if (!isQuoted(text, next - @min(next, line.len + 1))) return name;
    }
    return null;
}

/// The file elsewhere that a line names, or the whole text behind the directive if it is not a name.
fn named(allocator: std.mem.Allocator, directory: []const u8, line: []const u8) !?[]const u8 {
    const first = std.mem.trimLeft(u8, line, " \t");
    const mark: usize = if (std.mem.startsWith(u8, first, "#")) 1 else if (std.mem.startsWith(u8, first, "%:")) 2 else return null;
    const word = std.mem.trimLeft(u8, first[mark..], " \t");
    for (reading) |directive| {
        if (!std.mem.startsWith(u8, word, directive)) continue;
        const after = std.mem.trim(u8, word[directive.len..], " \t\r");
        const name = std.mem.trimLeft(u8, if (std.mem.startsWith(u8, after, "_next")) after["_next".len..] else after, " \t");
        if (name.len == 0) continue;
        const close: u8 = if (name[0] == '<') '>' else '"';
        const end = std.mem.indexOfScalarPos(u8, name, 1, close) orelse return name;
        if (name[0] != '<' and name[0] != '"') return name;
        if (end > 1 and try inside(allocator, directory, name[1..end]) == null) return name[1..end];
    }
    return null;
}

/// Whether a position in a preprocessed text is inside a raw string.
fn isQuoted(text: []const u8, position: usize) bool {
    var words = lexer.Lexer{ .text = text };
    while (words.at <= position) {
        const token = words.next() orelse return false;
        if (token.kind == .string and words.at - token.text.len < position and position < words.at) return true;
    }
    return false;
}

test "names of dependencies" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    var rest: []const u8 = "a\\ b.h \\\n  /c/$$d.h e\\#f\n";
    try std.testing.expectEqualStrings("a b.h", (try nextName(arena.allocator(), &rest)).?);
    try std.testing.expectEqualStrings("/c/$d.h", (try nextName(arena.allocator(), &rest)).?);
    try std.testing.expectEqualStrings("e#f", (try nextName(arena.allocator(), &rest)).?);
    try std.testing.expectEqual(null, try nextName(arena.allocator(), &rest));
}

test "files elsewhere" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    try std.testing.expectEqualStrings("b/c.h", (try inside(a, "/x", "./b/c.h")).?);
    try std.testing.expectEqualStrings("b/c.h", (try inside(a, "/x", "/x/b/c.h")).?);
    for ([_][]const u8{ "/y/c.h", "../c.h", "/xb/c.h", "b/../../c.h", "/proc/self/cwd/c.h", "/x" }) |name|
        try std.testing.expectEqual(null, try inside(a, "/x", name));
    try std.testing.expectEqualStrings("b/c.h", (try inside(a, "/", "b/c.h")).?);
    const text = "asm(\".incbin \\\"/etc/hosts\\\"\"); // .incbin \"b.txt\", .incbin";
    try std.testing.expectEqualStrings("/etc/hosts", (try assembled(a, "/x", text)).?);
    try std.testing.expectEqual(null, try assembled(a, "/x", "asm(\".incbin \\\"b.txt\\\"\");"));
    try std.testing.expectEqual(null, try assembled(a, "/x", "a.include(b); \"c\"; .incbin x \"/etc/hosts\""));
    for ([_][]const u8{ ".INCBIN \\\"/etc/hosts\\\"", ".incbin \\\"\\057etc/hosts\\\"", ".Include \"\\x2fetc\"" }) |one|
        try std.testing.expect(try assembled(a, "/x", one) != null);
    try std.testing.expectEqualStrings("/etc/hosts", (try included(a, "/x", "int a;\n # include \"/etc/hosts\"\n")).?);
    try std.testing.expectEqual(null, try included(a, "/x", "# 1 \"/etc/hosts\" 1\n#include <vector>\n# include \"b.h\"\n"));
    for ([_][]const u8{ "%: include \"/etc/hosts\"", "#define Q \"/etc/hosts\"\n# include Q", "x;\n # embed Q", "\"R\"\n#include Q" }) |one|
        try std.testing.expect(try included(a, "/x", one) != null);
    const source = "int a = 1'0; char c = '\"'; auto b = u8R\"x(\n#include NAME\n)\" \n#include </y>\n)x\";";
    try std.testing.expectEqual(null, try included(a, "/x", source));
    try std.testing.expect(try included(a, "/x", source ++ "\n#include NAME") != null);
}
