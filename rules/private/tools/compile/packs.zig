//! Packs: the headers of a toolchain in a single file. Bazel or a worker needs longer to lay out ten thousand headers
//! for an action than most actions run, so an action gets packs, and lays out only the headers that its source may
//! read.
//!
//! These are the headers named between `<` and `>`, or between `"` and `"`, anywhere in a text: in a directive, in
//! `__has_include`, in an argument of a macro. Each name is looked up beside the file that contains it, and in each
//! include directory of any toolchain. The result is too large, and too small only for a name that a macro composes: if
//! a file of the project has such a name, all headers of all packs are laid out. If a compiler still does not find a
//! file, the caller lays out the rest and runs it again.
//!
//! No file is written if the unpacked directories are available: beside the target of the pack's link, or in `/mnt`,
//! where `driver build` makes Bazel's sandbox mount all repositories (py_driver/bazel/sandbox.py). They are used if the
//! pack there is the same file as the action's. Then a link for each directory is enough, and `holds` checks whether a
//! file that was read still has the pack's content.
//!
//! A pack is text (toolchains/packs.py writes it): a line `headers 1`; a line `directory NAME` for each directory of
//! files; a line `root DIRECTORY` for each include directory; `SIZE PATH` for each file; an empty line; and the
//! contents of all files. Names are relative to the directory of the pack.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const names = @import("names.zig");

const first_line = "headers 1";

/// The directory where the sandbox mounts the repositories of toolchains.
const at_hand = "/mnt";

/// clang's message about a missing header.
const missing = " file not found";

/// The headers that compilers include by themselves, if they exist.
const implied = [_][]const u8{ "__clang_hip_runtime_wrapper.h", "cuda_runtime.h", "stdc-predef.h" };

/// A file of a pack; `is_read` after it was laid out, or its unpacked file was found equal.
const File = struct { content: []const u8, is_read: bool = false };

/// A directory of a pack: the number of the pack, the name in it, and the path where it is laid out.
const Tree = struct { pack: usize, name: []const u8, path: []const u8 };

/// The lines of a pack about its files, and the files.
const Index = struct { lines: []const u8, files: []const u8 };

/// clang's options to parse functions of templates only at their use.
const unused_templates = [_][]const u8{ "-fdelayed-template-parsing", "-Wno-delayed-template-parsing-in-cxx20" };

pub const Packs = struct {
    allocator: std.mem.Allocator,
    packs: std.ArrayList([]const u8),
    sources: std.ArrayList([]const u8),
    files: std.StringArrayHashMap(File),
    roots: std.ArrayList([]const u8),
    trees: std.ArrayList(Tree),
    /// Laid out files whose text was not searched for names yet.
    waiting: std.ArrayList(usize),
    /// Created directories.
    directories: std.StringHashMap(void),
    /// The last part of each file's name: other names are in no pack.
    basenames: std.StringHashMap(void),
    /// All directories of files; empty until a name with `..` needs them.
    known: std.StringHashMap(void),
    /// Names that were looked up in the include directories.
    sought: std.StringHashMap(void),
    /// The content of the packs until it is read.
    indexes: std.ArrayList(Index),
    /// Whether all headers are laid out.
    whole: bool = false,
    /// Whether they are laid out as links.
    linked: bool = false,

    pub fn init(allocator: std.mem.Allocator) Packs {
        return .{
            .allocator = allocator,
            .packs = std.ArrayList([]const u8).init(allocator),
            .sources = std.ArrayList([]const u8).init(allocator),
            .files = std.StringArrayHashMap(File).init(allocator),
            .roots = std.ArrayList([]const u8).init(allocator),
            .trees = std.ArrayList(Tree).init(allocator),
            .waiting = std.ArrayList(usize).init(allocator),
            .directories = std.StringHashMap(void).init(allocator),
            .basenames = std.StringHashMap(void).init(allocator),
            .known = std.StringHashMap(void).init(allocator),
            .sought = std.StringHashMap(void).init(allocator),
            .indexes = std.ArrayList(Index).init(allocator),
        };
    }

    /// Reads a flag for a pack, or for a file of the project whose headers are laid out; returns whether it was one.
    pub fn takes(self: *Packs, flag: []const u8, value: []const u8) !bool {
        if (common.is(flag, "--pack")) {
            try self.packs.append(value);
        } else if (common.is(flag, "--reads")) {
            try self.sources.append(value);
        } else return false;
        return true;
    }

    /// Runs a compiler with the laid out headers, and again with all headers if it does not find one; returns whether
    /// it succeeded. With `must`, an error ends this program; otherwise its messages are not shown.
    pub fn run(self: *Packs, command: [][]const u8, environment: *const std.process.EnvMap, must: bool) !bool {
        var ended = try dryrun.tried(null, self.allocator, command, environment);
        if (ended.code != 0 and std.mem.indexOf(u8, ended.messages, missing) != null and try self.rest())
            ended = try dryrun.tried(null, self.allocator, command, environment);
        if (ended.code != 0 and must and unusedTemplates(ended.messages)) {
            const lenient = try std.mem.concat(self.allocator, []const u8, &.{ command, &unused_templates });
            const again = try dryrun.tried(null, self.allocator, lenient, environment);
            if (again.code == 0) ended = again;
        }
        if (ended.code == 0 or must) try std.io.getStdErr().writeAll(ended.messages);
        if (ended.code != 0 and must) std.process.exit(ended.code);
        return ended.code == 0;
    }

    /// Whether all errors of clang are about missing members. gcc, which authors compile with, does not look for
    /// members in the functions of templates that are never used; with `unused_templates` clang does not either.
    fn unusedTemplates(messages: []const u8) bool {
        var found = false;
        var lines = std.mem.splitScalar(u8, messages, '\n');
        while (lines.next()) |line| {
            if (std.mem.indexOf(u8, line, "error: ") == null or std.mem.indexOf(u8, line, "too many errors") != null) continue;
            if (std.mem.indexOf(u8, line, "error: no member named ") == null) return false;
            found = true;
        }
        return found;
    }

    /// Lays out the headers that the files of the project may read, and the headers that those include.
    pub fn layOut(self: *Packs) !void {
        for (self.packs.items, 0..) |path, number| try self.indexes.append(try self.open(path, number));
        self.linked = try self.link();
        self.whole = self.linked;
        if (self.whole) return;
        try self.readAll();
        for (implied) |name| try self.want(name, "");
        for (self.sources.items) |path| {
            const text = common.read(self.allocator, path) catch return error.Failed;
            if (names.computes(text)) {
                _ = try self.rest();
                return;
            }
            try self.wantAll(text, path);
        }
        while (self.waiting.pop()) |index| try self.wantAll(self.files.values()[index].content, self.files.keys()[index]);
    }

    /// Whether a file below a link has the content in the pack; true for any other file.
    pub fn holds(self: *Packs, path: []const u8) !bool {
        if (!self.linked) return true;
        for (self.trees.items) |tree| {
            if (!std.mem.startsWith(u8, path, tree.path) or path.len == tree.path.len or path[tree.path.len] != '/') continue;
            if (self.files.count() == 0) try self.readAll();
            const file = self.files.getPtr(path) orelse return false;
            if (file.is_read) return true;
            const content = try mapped(path);
            defer if (content.len > 0) std.posix.munmap(@alignCast(content));
            file.is_read = std.mem.eql(u8, content, file.content);
            return file.is_read;
        }
        return true;
    }

    /// Makes a link for each directory, if all are available; returns whether they are. Existing files stay.
    fn link(self: *Packs) !bool {
        const places = try self.allocator.alloc([]const u8, self.packs.items.len);
        for (self.packs.items, places) |pack, *directory| directory.* = try self.directoryOf(pack) orelse return false;
        const targets = try self.allocator.alloc([]const u8, self.trees.items.len);
        for (self.trees.items, targets) |tree, *target| {
            target.* = try std.fs.path.join(self.allocator, &.{ places[tree.pack], tree.name });
            const found = std.fs.cwd().statFile(target.*) catch return false;
            if (found.kind != .directory) return false;
        }
        for (self.trees.items, targets) |tree, target| {
            if (std.fs.cwd().access(tree.path, .{})) continue else |_| {}
            std.fs.cwd().makePath(std.fs.path.dirname(tree.path) orelse ".") catch |err|
                return common.fail("cannot make the directory of {s}: {s}", .{ tree.path, @errorName(err) });
            std.fs.cwd().symLink(target, tree.path, .{}) catch |err|
                return common.fail("cannot make {s}: {s}", .{ tree.path, @errorName(err) });
        }
        return true;
    }

    /// The directory with the unpacked files of a pack; null if it is not available.
    fn directoryOf(self: *Packs, pack: []const u8) !?[]const u8 {
        const directory = std.fs.path.dirname(pack) orelse ".";
        var buffer: [std.fs.max_path_bytes]u8 = undefined;
        const unpacked = if (std.fs.cwd().readLink(pack, &buffer)) |target|
            std.fs.path.dirname(target) orelse return null
        else |_|
            try std.fs.path.join(self.allocator, &.{ at_hand, std.fs.path.basename(directory) });
        const same = try std.fs.path.join(self.allocator, &.{ unpacked, std.fs.path.basename(pack) });
        const here = std.posix.fstatat(std.fs.cwd().fd, pack, 0) catch return null;
        const candidate = std.posix.fstatat(std.fs.cwd().fd, same, 0) catch return null;
        return if (here.dev == candidate.dev and here.ino == candidate.ino) std.fs.path.dirname(same) else null;
    }

    /// Lays out the remaining headers; returns whether there were any.
    pub fn rest(self: *Packs) !bool {
        if (self.whole) return false;
        self.whole = true;
        for (0..self.files.count()) |index| try self.bring(index);
        return true;
    }

    /// Reads the directories and include directories of a pack; returns the rest of its lines, and the files.
    fn open(self: *Packs, path: []const u8, number: usize) !Index {
        const content = try mapped(path);
        const end = std.mem.indexOf(u8, content, "\n\n") orelse return common.fail("{s} is not a pack", .{path});
        if (!std.mem.startsWith(u8, content, first_line ++ "\n")) return common.fail("{s} is a pack of another version", .{path});
        var lines = std.mem.splitScalar(u8, content[first_line.len + 1 .. end], '\n');
        while (lines.peek()) |line| : (_ = lines.next()) {
            if (std.mem.startsWith(u8, line, "directory ")) {
                const name = line["directory ".len..];
                try self.trees.append(.{ .pack = number, .name = name, .path = try self.beside(path, name) });
            } else if (std.mem.startsWith(u8, line, "root ")) {
                try self.roots.append(try self.beside(path, line["root ".len..]));
            } else break;
        }
        return .{ .lines = lines.rest(), .files = content[end + 2 ..] };
    }

    /// Reads the files of the packs.
    fn readAll(self: *Packs) !void {
        for (self.packs.items, self.indexes.items) |path, index| try self.read(path, index);
    }

    fn read(self: *Packs, path: []const u8, index: Index) !void {
        var at: usize = 0;
        var lines = std.mem.tokenizeScalar(u8, index.lines, '\n');
        while (lines.next()) |line| {
            const blank = std.mem.indexOfScalar(u8, line, ' ') orelse return common.fail("{s}: no blank in {s}", .{ path, line });
            const size = std.fmt.parseInt(usize, line[0..blank], 10) catch return common.fail("{s}: no size in {s}", .{ path, line });
            if (at + size > index.files.len) return common.fail("{s} is truncated", .{path});
            const content = index.files[at .. at + size];
            const name = line[blank + 1 ..];
            try self.files.put(try self.beside(path, name), .{ .content = content });
            try self.basenames.put(std.fs.path.basename(name), {});
            at += size;
        }
    }

    fn beside(self: *Packs, pack: []const u8, name: []const u8) ![]const u8 {
        return std.fs.path.join(self.allocator, &.{ std.fs.path.dirname(pack) orelse ".", name });
    }

    /// Lays out each file that a name in the text of a file may mean.
    fn wantAll(self: *Packs, text: []const u8, path: []const u8) !void {
        var found = names.Names{ .allocator = self.allocator, .text = text };
        while (try found.next()) |name| {
            if (self.basenames.contains(std.fs.path.basename(name))) try self.want(name, std.fs.path.dirname(path) orelse "");
        }
    }

    fn want(self: *Packs, name: []const u8, directory: []const u8) !void {
        try self.look(directory, name);
        if ((try self.sought.getOrPut(name)).found_existing) return;
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
        const index = self.files.getIndex(path) orelse return;
        if (!plain) try self.makeOnTheWay(directory, name);
        try self.bring(index);
    }

    /// Creates the directories of the packs that a name enters and leaves by `..`.
    fn makeOnTheWay(self: *Packs, directory: []const u8, name: []const u8) !void {
        if (self.known.count() == 0) {
            for (self.files.keys()) |path| {
                var at = std.fs.path.dirname(path);
                while (at) |parent| : (at = std.fs.path.dirname(parent)) {
                    if ((try self.known.getOrPut(parent)).found_existing) break;
                }
            }
        }
        var end: usize = 0;
        while (std.mem.indexOfPos(u8, name, end, "..")) |found| : (end = found + 2) {
            const way = try std.fs.path.resolvePosix(self.allocator, &.{ directory, name[0..found] });
            if (self.known.contains(way)) std.fs.cwd().makePath(way) catch |err|
                return common.fail("cannot make {s}: {s}", .{ way, @errorName(err) });
        }
    }

    /// Lays out a file, unless it exists: without Bazel's sandbox, all headers exist.
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
        const written = std.fs.cwd().createFile(path, .{ .exclusive = true }) catch |err| switch (err) {
            error.PathAlreadyExists => return,
            else => return common.fail("cannot write {s}: {s}", .{ path, @errorName(err) }),
        };
        defer written.close();
        written.writeAll(file.content) catch |err| return common.fail("cannot write {s}: {s}", .{ path, @errorName(err) });
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

test "headers that are laid out" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var directory = std.testing.tmpDir(.{});
    defer directory.cleanup();
    const files = [_][2][]const u8{
        .{ "include/a.h", "#include \"sub/../b.h\"\n" },
        .{ "include/b.h", "#if HAS(<deep/c.h>)\n#endif\n" },
        .{ "more/deep/c.h", "" },
        .{ "more/other.h", "#include <a.h>\n" },
        .{ "include/sub/x.h", "" },
    };
    var index = std.ArrayList(u8).init(a);
    try index.appendSlice(first_line ++ "\ndirectory include\ndirectory more\nroot include\nroot more\n");
    for (files) |file| try index.writer().print("{d} {s}\n", .{ file[1].len, file[0] });
    try index.append('\n');
    for (files) |file| try index.appendSlice(file[1]);
    try directory.dir.writeFile(.{ .sub_path = "headers.pack", .data = index.items });
    try directory.dir.writeFile(.{ .sub_path = "source.cpp", .data = "#include <a.h>\n" });
    var packs = Packs.init(a);
    try std.testing.expect(try packs.takes("--pack", try directory.dir.realpathAlloc(a, "headers.pack")));
    try std.testing.expect(try packs.takes("--reads", try directory.dir.realpathAlloc(a, "source.cpp")));
    try packs.layOut();
    for (files[0..3]) |file|
        try std.testing.expectEqualStrings(file[1], try directory.dir.readFileAlloc(a, file[0], 1000));
    try std.testing.expectError(error.FileNotFound, directory.dir.access(files[3][0], .{}));
    try std.testing.expect(try packs.rest());
    try directory.dir.access(files[3][0], .{});
    try std.testing.expect(!try packs.rest());

    // For a pack that is a link, the directories beside its target are used.
    try directory.dir.makeDir("elsewhere");
    try directory.dir.symLink(try directory.dir.realpathAlloc(a, "headers.pack"), "elsewhere/headers.pack", .{});
    var others = Packs.init(a);
    const link = try std.fs.path.join(a, &.{ try directory.dir.realpathAlloc(a, "elsewhere"), "headers.pack" });
    try std.testing.expect(try others.takes("--pack", link));
    try others.layOut();
    try std.testing.expect(others.whole);
    const linked = try std.fs.path.join(a, &.{ std.fs.path.dirname(link).?, "include/b.h" });
    try std.testing.expectEqualStrings(files[1][1], try directory.dir.readFileAlloc(a, "elsewhere/include/b.h", 1000));
    try std.testing.expect(try others.holds(linked));
    try std.testing.expect(try others.holds("/elsewhere.h"));
    try directory.dir.writeFile(.{ .sub_path = "include/c.h", .data = "" });
    try std.testing.expect(!try others.holds(try std.fs.path.join(a, &.{ std.fs.path.dirname(link).?, "include/c.h" })));
    try directory.dir.writeFile(.{ .sub_path = "include/b.h", .data = "int changed;\n" });
    var later = Packs.init(a);
    try std.testing.expect(try later.takes("--pack", link));
    try later.layOut();
    try std.testing.expect(!try later.holds(linked));

    // For a link to a file without such directories beside it, the files are unpacked.
    try directory.dir.makeDir("alone");
    try directory.dir.makeDir("store");
    try directory.dir.copyFile("headers.pack", directory.dir, "store/pack", .{});
    try directory.dir.symLink(try directory.dir.realpathAlloc(a, "store/pack"), "alone/headers.pack", .{});
    var alone = Packs.init(a);
    const path = try std.fs.path.join(a, &.{ try directory.dir.realpathAlloc(a, "alone"), "headers.pack" });
    try std.testing.expect(try alone.takes("--pack", path));
    try std.testing.expect(try alone.takes("--reads", try directory.dir.realpathAlloc(a, "source.cpp")));
    try alone.layOut();
    try std.testing.expectEqualStrings(files[1][1], try directory.dir.readFileAlloc(a, "alone/include/b.h", 1000));
    try directory.dir.access("alone/include/sub", .{});
}

test "errors of unused templates" {
    const own = "a.h:1:2: error: no member named 'f' in 'Matrix<type-parameter-0-0, 4>'; did you mean 'g'?\n m.f();\n";
    try std.testing.expect(Packs.unusedTemplates(own));
    try std.testing.expect(!Packs.unusedTemplates(""));
    try std.testing.expect(!Packs.unusedTemplates(own ++ "a.h:2:2: error: use of undeclared identifier 'x'\n"));
}
