//! The headers of toolchains, each toolchain's in one file: a pack. To lay out ten thousand headers for an action takes
//! Bazel and a worker longer than most actions take to run, so an action gets packs, and lays out what its source may read.
//!
//! What that is follows from the names in `#include` and the like, whatever conditions they stand in: a name is looked for
//! beside the file that has it, and in each directory in which any toolchain searches. So it is never too little, except
//! behind a name that a macro makes: then it is all of the pack, or for a file of the project all of all packs. Should a
//! compiler fail nevertheless, the caller lays out the rest and runs it again.
//!
//! To write files is not needed where their directories are at hand: beside what the pack is a link to, or in
//! `/mnt`, where `driver build` has Bazel's sandbox mount all repositories (py_driver/bazel/sandbox.py). They are
//! taken if the pack there is the very file that the action got. Then a link for each directory does.
//!
//! A pack is text (toolchains/packs.py writes it): a line `headers 1`; a line `directory NAME` for each directory whose
//! files it has; a line `root DIRECTORY` for each in which headers are searched; `SIZE PATH` for each file; an empty line;
//! and then the files one after another. Names are relative to the directory of the pack.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");

const first_line = "headers 1";

/// Where the sandbox shows the repositories of toolchains.
const at_hand = "/mnt";

/// What clang says of a header that it does not find.
const missing = " file not found";

/// What the compilers include by themselves, if it is there.
const implied = [_][]const u8{ "__clang_hip_runtime_wrapper.h", "cuda_runtime.h", "stdc-predef.h" };

const File = struct { pack: usize, content: []const u8, is_read: bool = false };

/// The lines of a pack that tell of its files, and those.
const Index = struct { lines: []const u8, files: []const u8 };

/// What directives name: a file, or what nobody can tell.
const Named = union(enum) { file: []const u8, computed };

pub const Packs = struct {
    allocator: std.mem.Allocator,
    packs: std.ArrayList([]const u8),
    sources: std.ArrayList([]const u8),
    files: std.StringArrayHashMap(File),
    roots: std.ArrayList([]const u8),
    /// What each pack has the files of: its path, and a directory.
    trees: std.ArrayList([2][]const u8),
    /// Files that are laid out, of which nobody has read yet what they name.
    waiting: std.ArrayList(usize),
    directories: std.StringHashMap(void),
    /// Whether all is laid out.
    whole: bool = false,

    pub fn init(allocator: std.mem.Allocator) Packs {
        return .{
            .allocator = allocator,
            .packs = std.ArrayList([]const u8).init(allocator),
            .sources = std.ArrayList([]const u8).init(allocator),
            .files = std.StringArrayHashMap(File).init(allocator),
            .roots = std.ArrayList([]const u8).init(allocator),
            .trees = std.ArrayList([2][]const u8).init(allocator),
            .waiting = std.ArrayList(usize).init(allocator),
            .directories = std.StringHashMap(void).init(allocator),
        };
    }

    /// Whether a flag names a pack, or a file of the project whose headers are wanted.
    pub fn takes(self: *Packs, flag: []const u8, value: []const u8) !bool {
        if (common.is(flag, "--pack")) {
            try self.packs.append(value);
        } else if (common.is(flag, "--reads")) {
            try self.sources.append(value);
        } else return false;
        return true;
    }

    /// Runs a compiler for which headers are laid out, and again with all of them if it finds one not; whether it worked.
    /// If it must, it ends this program where it does not; else it says nothing then.
    pub fn run(self: *Packs, command: [][]const u8, environment: *const std.process.EnvMap, must: bool) !bool {
        var ended = try dryrun.tried(null, self.allocator, command, environment);
        if (ended.code != 0 and std.mem.indexOf(u8, ended.said, missing) != null and try self.rest())
            ended = try dryrun.tried(null, self.allocator, command, environment);
        if (ended.code == 0 or must) try std.io.getStdErr().writeAll(ended.said);
        if (ended.code != 0 and must) std.process.exit(ended.code);
        return ended.code == 0;
    }

    /// Lays out what the files of the project may read, and those that they include.
    pub fn layOut(self: *Packs) !void {
        var indexes = std.ArrayList(Index).init(self.allocator);
        for (self.packs.items) |path| try indexes.append(try self.open(path));
        self.whole = try self.linked();
        if (self.whole) return;
        for (indexes.items, 0..) |index, number| try self.read(number, index);
        for (implied) |name| try self.want(name, "");
        for (self.sources.items) |path| {
            const text = common.read(self.allocator, path) catch return error.Failed;
            var names = Names{ .text = text };
            while (names.next()) |named| switch (named) {
                .file => |name| try self.want(name, std.fs.path.dirname(path) orelse ""),
                .computed => {
                    _ = try self.rest();
                    return;
                },
            };
        }
        while (self.waiting.pop()) |index| {
            const path = self.files.keys()[index];
            const file = self.files.values()[index];
            var names = Names{ .text = file.content };
            while (names.next()) |named| switch (named) {
                .file => |name| try self.want(name, std.fs.path.dirname(path) orelse ""),
                .computed => for (self.files.values(), 0..) |other, at| {
                    if (other.pack == file.pack) try self.bring(at);
                },
            };
        }
    }

    /// Whether all directories are there, if need be as links to where they are at hand.
    fn linked(self: *Packs) !bool {
        for (self.packs.items) |pack| {
            const place = try self.directoryOf(pack) orelse return false;
            for (self.trees.items) |tree| {
                if (!common.is(tree[0], pack)) continue;
                const link = try self.beside(pack, tree[1]);
                if (std.fs.cwd().access(link, .{})) continue else |_| {}
                const target = try std.fs.path.join(self.allocator, &.{ place, tree[1] });
                std.fs.cwd().makePath(std.fs.path.dirname(link) orelse ".") catch return false;
                std.fs.cwd().symLink(target, link, .{}) catch return false;
            }
        }
        return true;
    }

    /// The directory with the files of a pack; null if there is none at hand.
    fn directoryOf(self: *Packs, pack: []const u8) !?[]const u8 {
        const directory = std.fs.path.dirname(pack) orelse ".";
        var buffer: [std.fs.max_path_bytes]u8 = undefined;
        if (std.fs.cwd().readLink(pack, &buffer)) |target|
            return try self.allocator.dupe(u8, std.fs.path.dirname(target) orelse return null)
        else |_| {}
        const same = try std.fs.path.join(self.allocator, &.{ at_hand, std.fs.path.basename(directory), std.fs.path.basename(pack) });
        const here = std.posix.fstatat(std.fs.cwd().fd, pack, 0) catch return null;
        const there = std.posix.fstatat(std.fs.cwd().fd, same, 0) catch return null;
        return if (here.dev == there.dev and here.ino == there.ino) std.fs.path.dirname(same) else null;
    }

    /// Lays out all that is left; whether that was anything.
    pub fn rest(self: *Packs) !bool {
        if (self.whole) return false;
        self.whole = true;
        for (0..self.files.count()) |index| try self.bring(index);
        return true;
    }

    /// Reads which directories a pack has, and where headers are searched; what is left of its lines, and the files.
    fn open(self: *Packs, path: []const u8) !Index {
        const content = try mapped(path);
        const end = std.mem.indexOf(u8, content, "\n\n") orelse return common.fail("{s} is no pack", .{path});
        if (!std.mem.startsWith(u8, content, first_line ++ "\n")) return common.fail("{s} is no pack of this version", .{path});
        var lines = std.mem.splitScalar(u8, content[first_line.len + 1 .. end], '\n');
        while (lines.peek()) |line| : (_ = lines.next()) {
            if (std.mem.startsWith(u8, line, "directory ")) {
                try self.trees.append(.{ path, line["directory ".len..] });
            } else if (std.mem.startsWith(u8, line, "root ")) {
                try self.roots.append(try self.beside(path, line["root ".len..]));
            } else break;
        }
        return .{ .lines = lines.rest(), .files = content[end + 2 ..] };
    }

    /// Reads which files a pack has.
    fn read(self: *Packs, number: usize, index: Index) !void {
        const path = self.packs.items[number];
        var at: usize = 0;
        var lines = std.mem.tokenizeScalar(u8, index.lines, '\n');
        while (lines.next()) |line| {
            const blank = std.mem.indexOfScalar(u8, line, ' ') orelse return common.fail("{s}: no blank in {s}", .{ path, line });
            const size = std.fmt.parseInt(usize, line[0..blank], 10) catch return common.fail("{s}: no size in {s}", .{ path, line });
            if (at + size > index.files.len) return common.fail("{s} is cut off", .{path});
            const content = index.files[at .. at + size];
            try self.files.put(try self.beside(path, line[blank + 1 ..]), .{ .pack = number, .content = content });
            at += size;
        }
    }

    fn beside(self: *Packs, pack: []const u8, name: []const u8) ![]const u8 {
        return std.fs.path.join(self.allocator, &.{ std.fs.path.dirname(pack) orelse ".", name });
    }

    /// Brings each file that a name may mean.
    fn want(self: *Packs, name: []const u8, directory: []const u8) !void {
        try self.look(directory, name);
        for (self.roots.items) |root| try self.look(root, name);
    }

    fn look(self: *Packs, directory: []const u8, name: []const u8) !void {
        var buffer: [std.fs.max_path_bytes]u8 = undefined;
        if (directory.len + name.len + 1 > buffer.len) return;
        const plain = std.mem.indexOf(u8, name, "./") == null and std.mem.indexOf(u8, name, "//") == null;
        const path = if (plain)
            std.fmt.bufPrint(&buffer, "{s}/{s}", .{ directory, name }) catch unreachable
        else
            try std.fs.path.resolvePosix(self.allocator, &.{ directory, name });
        if (self.files.getIndex(path)) |index| try self.bring(index);
    }

    /// Lays a file out, unless it is there: where Bazel has no sandbox, all headers are.
    fn bring(self: *Packs, index: usize) !void {
        const file = &self.files.values()[index];
        if (file.is_read) return;
        file.is_read = true;
        try self.waiting.append(index);
        const path = self.files.keys()[index];
        const directory = std.fs.path.dirname(path) orelse ".";
        if (!(try self.directories.getOrPut(directory)).found_existing)
            std.fs.cwd().makePath(directory) catch |err|
                return common.fail("cannot make {s}: {s}", .{ directory, @errorName(err) });
        const made = std.fs.cwd().createFile(path, .{ .exclusive = true }) catch |err| switch (err) {
            error.PathAlreadyExists => return,
            else => return common.fail("cannot write {s}: {s}", .{ path, @errorName(err) }),
        };
        defer made.close();
        made.writeAll(file.content) catch |err| return common.fail("cannot write {s}: {s}", .{ path, @errorName(err) });
    }
};

fn mapped(path: []const u8) ![]const u8 {
    const file = std.fs.cwd().openFile(path, .{}) catch |err| return common.fail("cannot read {s}: {s}", .{ path, @errorName(err) });
    defer file.close();
    const size = (file.stat() catch |err| return common.fail("cannot read {s}: {s}", .{ path, @errorName(err) })).size;
    if (size == 0) return "";
    return std.posix.mmap(null, size, std.posix.PROT.READ, .{ .TYPE = .PRIVATE }, file.handle, 0) catch |err|
        common.fail("cannot read {s}: {s}", .{ path, @errorName(err) });
}

/// What the directives of a text name, one after another; conditions are not looked at.
const Names = struct {
    text: []const u8,
    at: usize = 0,
    /// The end of a line of which the questions whether a file is there are still to be read.
    end: usize = 0,

    /// Directives that name a file.
    const reading = [_][]const u8{ "include_next", "include", "import", "embed" };
    /// What asks whether a file is there, in a condition or in a macro for one.
    const asking = "__has_";
    const questions = [_][]const u8{ "__has_include_next", "__has_include", "__has_embed" };

    fn next(self: *Names) ?Named {
        while (true) {
            if (self.at < self.end) {
                if (self.question()) |named| return named;
                self.at = self.end;
            }
            const hash = std.mem.indexOfScalarPos(u8, self.text, self.at, '#') orelse return null;
            self.at = hash + 1;
            if (!begins(self.text[0..hash])) continue;
            const end = lineEnd(self.text, hash);
            const line = std.mem.trimLeft(u8, self.text[hash + 1 .. end], " \t\\\r\n");
            for (reading) |directive| {
                if (!std.mem.startsWith(u8, line, directive)) continue;
                const after = line[directive.len..];
                if (after.len > 0 and (std.ascii.isAlphanumeric(after[0]) or after[0] == '_')) continue;
                self.at = end;
                return told(after);
            }
            self.end = end;
        }
    }

    /// The next question of the line.
    fn question(self: *Names) ?Named {
        while (std.mem.indexOfPos(u8, self.text[0..self.end], self.at, asking)) |found| {
            self.at = found + asking.len;
            for (questions) |one| {
                const rest = self.text[found..self.end];
                if (!std.mem.startsWith(u8, rest, one)) continue;
                const after = std.mem.trimLeft(u8, rest[one.len..], " \t");
                if (after.len == 0 or after[0] != '(') continue;
                return told(after[1..]);
            }
        }
        return null;
    }

    /// What stands between the marks of a name.
    fn told(text: []const u8) Named {
        const name = std.mem.trimLeft(u8, text, " \t\\\r\n");
        if (name.len == 0) return .computed;
        const mark: u8 = switch (name[0]) {
            '<' => '>',
            '"' => '"',
            else => return .computed,
        };
        const end = std.mem.indexOfScalarPos(u8, name, 1, mark) orelse return .computed;
        return .{ .file = name[1..end] };
    }

    /// Whether a `#` behind this text begins a directive: the line has blanks and comments before it. If a comment has
    /// begun in an earlier line, this is a guess, and a directive too many.
    fn begins(before: []const u8) bool {
        const start = if (std.mem.lastIndexOfScalar(u8, before, '\n')) |line| line + 1 else 0;
        const text = std.mem.trim(u8, before[start..], " \t\r\x0b\x0c");
        return text.len == 0 or std.mem.endsWith(u8, text, "*/");
    }

    /// Where a line ends that goes on behind a backslash.
    fn lineEnd(text: []const u8, from: usize) usize {
        var at = from;
        while (std.mem.indexOfScalarPos(u8, text, at, '\n')) |end| {
            const line = std.mem.trimRight(u8, text[from..end], "\r");
            if (!std.mem.endsWith(u8, line, "\\")) return end;
            at = end + 1;
        }
        return text.len;
    }
};

test "what a text names" {
    const text =
        \\#include <a.h>
        \\  # include "b/c.h" // not <d.h>
        \\int x; #include <e.h>
        \\/* x */ #include_next <f.h>
        \\#if 0 && __has_include(<g.h>) || defined(__has_include) && __has_embed("h")
        \\#define I <i.h>
        \\#include I
        \\#include \
        \\  "j.h"
        \\#included <k.h>
        \\#embed "l"
        \\#if __has_include(I)
        \\#endif
    ;
    var names = Names{ .text = text };
    for ([_][]const u8{ "a.h", "b/c.h", "f.h", "g.h", "h", "", "j.h", "l", "" }) |name| {
        switch (names.next().?) {
            .file => |found| try std.testing.expectEqualStrings(name, found),
            .computed => try std.testing.expectEqual(0, name.len),
        }
    }
    try std.testing.expectEqual(null, names.next());
}

test "what is laid out" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var place = std.testing.tmpDir(.{});
    defer place.cleanup();
    const files = [_][2][]const u8{
        .{ "include/a.h", "#include \"sub/../b.h\"\n" },
        .{ "include/b.h", "#if X\n#include <deep/c.h>\n#endif\n" },
        .{ "more/deep/c.h", "" },
        .{ "more/other.h", "#include <a.h>\n" },
    };
    var index = std.ArrayList(u8).init(a);
    try index.appendSlice(first_line ++ "\ndirectory include\ndirectory more\nroot include\nroot more\n");
    for (files) |file| try index.writer().print("{d} {s}\n", .{ file[1].len, file[0] });
    try index.append('\n');
    for (files) |file| try index.appendSlice(file[1]);
    try place.dir.writeFile(.{ .sub_path = "headers.pack", .data = index.items });
    try place.dir.writeFile(.{ .sub_path = "source.cpp", .data = "#include <a.h>\n" });
    var packs = Packs.init(a);
    try std.testing.expect(try packs.takes("--pack", try place.dir.realpathAlloc(a, "headers.pack")));
    try std.testing.expect(try packs.takes("--reads", try place.dir.realpathAlloc(a, "source.cpp")));
    try packs.layOut();
    for (files[0..3]) |file|
        try std.testing.expectEqualStrings(file[1], try place.dir.readFileAlloc(a, file[0], 1000));
    try std.testing.expectError(error.FileNotFound, place.dir.access(files[3][0], .{}));
    try std.testing.expect(try packs.rest());
    try place.dir.access(files[3][0], .{});
    try std.testing.expect(!try packs.rest());

    // Where the pack is a link, the directories beside what it leads to are taken.
    try place.dir.makeDir("elsewhere");
    try place.dir.symLink(try place.dir.realpathAlloc(a, "headers.pack"), "elsewhere/headers.pack", .{});
    var others = Packs.init(a);
    const link = try std.fs.path.join(a, &.{ try place.dir.realpathAlloc(a, "elsewhere"), "headers.pack" });
    try std.testing.expect(try others.takes("--pack", link));
    try others.layOut();
    try std.testing.expect(others.whole);
    try std.testing.expectEqualStrings(files[1][1], try place.dir.readFileAlloc(a, "elsewhere/include/b.h", 1000));
}
