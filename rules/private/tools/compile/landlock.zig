//! Limits the files that compilers may read, if the kernel has Landlock (Linux 5.13): the files below the working
//! directory, the targets of its links, and the files that a program needs to start. An assembler can compose the names
//! in its directives, so a search of the text cannot find all files that it reads.
//!
//! A sandbox puts an action's inputs into the working directory, as files or as links to them. Headers of toolchains
//! are links to directories (packs.zig). For a file of a repository with pinned archives, its whole directory is
//! allowed.
const std = @import("std");
const common = @import("common");
const inputs = @import("inputs.zig");
const linux = std.os.linux;

/// LANDLOCK_ACCESS_FS_READ_FILE, and LANDLOCK_ACCESS_FS_REFER: the right to move a file to another directory, which a
/// domain forbids unless it allows it.
const read_file: u64 = 1 << 2;
const refer: u64 = 1 << 13;

/// The first version of Landlock's ABI with `refer`.
const abi_of_refer = 2;

const rule_of_path = 1; // LANDLOCK_RULE_PATH_BENEATH
const ask_version = 1; // LANDLOCK_CREATE_RULESET_VERSION

/// The allowed files of this machine, if they exist: the shell, which nvcc starts, devices, and shared libraries.
const of_machine = [_][]const u8{
    "/bin/sh",                     "/dev/null",                  "/dev/random", "/dev/urandom", "/dev/zero",
    "/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1",
};
const library_directories = [_][]const u8{
    "/lib", "/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu",
};
const libraries = [_][]const u8{
    "libc.so.6",       "libdl.so.2", "libgcc_s.so.1",  "libm.so.6",
    "libpthread.so.0", "librt.so.1", "libstdc++.so.6", "libtinfo.so.6",
};

/// Whether this process is confined, or Landlock is missing.
var decided = false;

/// Confines this process and its children, once; does nothing without Landlock.
pub fn confine(allocator: std.mem.Allocator) !void {
    if (decided) return;
    decided = true;
    const version = linux.syscall3(.landlock_create_ruleset, 0, 0, ask_version);
    if (linux.E.init(version) != .SUCCESS) return;
    const reparents = version >= abi_of_refer;
    const handled = read_file | if (reparents) refer else 0;
    const ruleset = linux.syscall3(.landlock_create_ruleset, @intFromPtr(&handled), @sizeOf(u64), 0);
    try expect(ruleset);
    var rules = Rules{ .allocator = allocator, .ruleset = @intCast(ruleset) };
    defer std.posix.close(rules.ruleset);
    if (reparents) try rules.add("/", refer);
    try rules.add(".", read_file);
    rules.device = try rootDevice();
    try rules.walk(".");
    for (of_machine) |path| try rules.add(path, read_file);
    for (library_directories) |directory| {
        for (libraries) |name| try rules.add(try std.fs.path.join(allocator, &.{ directory, name }), read_file);
    }
    try expect(linux.prctl(@intFromEnum(linux.PR.SET_NO_NEW_PRIVS), 1, 0, 0, 0));
    try expect(linux.syscall2(.landlock_restrict_self, @intCast(rules.ruleset), 0));
}

/// Fails if a system call has failed: a kernel with Landlock must confine.
fn expect(answer: usize) !void {
    const code = linux.E.init(answer);
    if (code != .SUCCESS) return common.fail("cannot confine compilers to their inputs: {s}", .{@tagName(code)});
}

/// The device of the working directory if it is the root, because an executor can put inputs into a root of their own;
/// otherwise null.
fn rootDevice() !?u64 {
    var buffer: [std.fs.max_path_bytes]u8 = undefined;
    if (!common.is(try std.posix.getcwd(&buffer), "/")) return null;
    return (try std.posix.fstatat(std.fs.cwd().fd, ".", 0)).dev;
}

const Rules = struct {
    allocator: std.mem.Allocator,
    ruleset: std.posix.fd_t,
    /// If not null, files on other devices, such as /proc, are no inputs.
    device: ?u64 = null,

    /// The packed `struct landlock_path_beneath_attr`.
    const Beneath = extern struct { access: u64 align(4), parent: i32 };

    /// Allows an access at a path and below it; a path that does not exist is skipped.
    fn add(self: *Rules, path: []const u8, access: u64) !void {
        const descriptor = std.posix.open(path, .{ .PATH = true, .CLOEXEC = true }, 0) catch return;
        defer std.posix.close(descriptor);
        const rule = Beneath{ .access = access, .parent = descriptor };
        const done = linux.syscall4(.landlock_add_rule, @intCast(self.ruleset), rule_of_path, @intFromPtr(&rule), 0);
        if (linux.E.init(done) != .SUCCESS)
            return common.fail("cannot allow compilers to read {s}: {s}", .{ path, @tagName(linux.E.init(done)) });
    }

    /// Allows the targets of the links below a directory.
    fn walk(self: *Rules, directory: []const u8) !void {
        var opened = std.fs.cwd().openDir(directory, .{ .iterate = true, .no_follow = true }) catch |err|
            return common.fail("cannot read the directory {s}: {s}", .{ directory, @errorName(err) });
        defer opened.close();
        const is_pinned = std.mem.startsWith(u8, directory, "./" ++ inputs.pinned);
        var allowed: []const u8 = "";
        var entries = opened.iterate();
        while (try entries.next()) |entry| {
            if (entry.kind != .directory and entry.kind != .sym_link) continue;
            const path = try std.fs.path.join(self.allocator, &.{ directory, entry.name });
            if (entry.kind == .directory) {
                if (self.device) |device| {
                    const found = std.posix.fstatat(opened.fd, entry.name, linux.AT.SYMLINK_NOFOLLOW) catch continue;
                    if (found.dev != device) continue;
                }
                try self.walk(path);
                continue;
            }
            var buffer: [std.fs.max_path_bytes]u8 = undefined;
            const target = if (is_pinned) placeOf(opened, entry.name, &buffer) else null;
            if (target == null) try self.add(path, read_file);
            if (target == null or common.is(allowed, target.?)) continue;
            allowed = try self.allocator.dupe(u8, target.?);
            try self.add(allowed, read_file);
        }
    }
};

/// The directory of the file that a link names by an absolute path; null if the target is not a file, or another link.
fn placeOf(directory: std.fs.Dir, link: []const u8, buffer: []u8) ?[]const u8 {
    const path = directory.readLink(link, buffer) catch return null;
    const found = std.posix.fstatat(directory.fd, path, linux.AT.SYMLINK_NOFOLLOW) catch return null;
    return if (std.fs.path.isAbsolute(path) and linux.S.ISREG(found.mode)) std.fs.path.dirname(path) else null;
}
