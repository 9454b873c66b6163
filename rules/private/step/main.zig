//! The one program that our Bazel actions run besides compilers: static, without libc, no host tool needed.
//!
//!   step id      --backend B --module M --config C --header OUT --text OUT [--src NAME PATH]...
//!   step compile -- COMPILER ARGUMENT...
//!   step nvcc    --source NAME --section NAME -- NVCC ARGUMENT...
//!   step preprocess --arch-list LIST [--host OUT GENCODE] [--device OUT GENCODE]... -- NVCC ARGUMENT...
//!   step phase   PHASE --source NAME --section NAME [--in ROLE PATH]... --out PATH [--stub PATH]
//!                [--share MODE --target SM] -- NVCC ARGUMENT...
//!   step hip-bundle --cuid ID --out OBJECT [--code ARCH FILE]...
//!   step variant --id ID.txt --template METADATA.json --out DIR [--file NAME PATH]... [--extension PATH]
//!   step bundle  --out DIR [--variant NAME DIR]...
//!   step check   LIBRARY --versions FILE --python-abi FILE --libraries FILE [--torch-shims FILE] [--json]
//!                [--report OUT] [--init NAME | --id ID.txt] [--archs LIST] [--metadata-archs LIST]
//!                [--cxx-abi ABI [--object PATH]...] [--torch-stable-abi M.N]
//!                [--torch-exports FILE [--torch M.N [--torch-wheel SHA256]] [--gpu-symbols FILE]... [--backend NAME]]
//!
//! An argument `@FILE` stands for the lines of FILE. Errors go to stderr as one line; the exit code is then 1, for
//! `check` 2.
const std = @import("std");
const identity = @import("identity.zig");
const inputs = @import("inputs.zig");
const hip = @import("hip.zig");
const nvcc = @import("nvcc.zig");
const directory = @import("directory.zig");
const check = @import("check.zig");

/// What is wrong with a call, for `fail`.
pub const Failure = error{Failed};

/// Prints one line to stderr and returns the error to propagate.
pub fn fail(comptime format: []const u8, values: anytype) Failure {
    std.io.getStdErr().writer().print("step: " ++ format ++ "\n", values) catch {};
    return error.Failed;
}

/// The arguments of a step, read one after another.
pub const Arguments = struct {
    items: []const []const u8,
    at: usize = 0,

    pub fn next(self: *Arguments) ?[]const u8 {
        if (self.at == self.items.len) return null;
        defer self.at += 1;
        return self.items[self.at];
    }

    /// The value that belongs to a flag.
    pub fn value(self: *Arguments, flag: []const u8) Failure![]const u8 {
        return self.next() orelse fail("{s} needs a value", .{flag});
    }
};

pub fn is(a: []const u8, b: []const u8) bool {
    return std.mem.eql(u8, a, b);
}

/// The whole content of a file.
pub fn read(allocator: std.mem.Allocator, path: []const u8) ![]u8 {
    return std.fs.cwd().readFileAlloc(allocator, path, std.math.maxInt(usize)) catch |err|
        fail("cannot read {s}: {s}", .{ path, @errorName(err) });
}

/// Writes a whole file.
pub fn write(path: []const u8, content: []const u8) !void {
    std.fs.cwd().writeFile(.{ .sub_path = path, .data = content }) catch |err|
        return fail("cannot write {s}: {s}", .{ path, @errorName(err) });
}

fn run(allocator: std.mem.Allocator) !void {
    var items = std.ArrayList([]const u8).init(allocator);
    var raw = try std.process.argsWithAllocator(allocator);
    _ = raw.next();
    while (raw.next()) |argument| {
        if (argument.len > 1 and argument[0] == '@') {
            var lines = std.mem.splitScalar(u8, try read(allocator, argument[1..]), '\n');
            while (lines.next()) |line| {
                if (line.len > 0 or lines.peek() != null) try items.append(line);
            }
        } else try items.append(argument);
    }
    var arguments = Arguments{ .items = items.items };
    const verb = arguments.next() orelse return fail("no step named", .{});
    if (is(verb, "id")) return identity.run(allocator, &arguments);
    if (is(verb, "compile")) return inputs.run(allocator, &arguments);
    if (is(verb, "nvcc")) return nvcc.run(allocator, &arguments);
    if (is(verb, "preprocess")) return nvcc.preprocess(allocator, &arguments);
    if (is(verb, "phase")) return nvcc.runPhase(allocator, &arguments);
    if (is(verb, "hip-bundle")) return hip.bundle(allocator, &arguments);
    if (is(verb, "variant")) return directory.variant(allocator, &arguments);
    if (is(verb, "bundle")) return directory.bundle(allocator, &arguments);
    if (is(verb, "check")) check.run(allocator, &arguments);
    return fail("no such step: {s}", .{verb});
}

pub fn main() u8 {
    var arena = std.heap.ArenaAllocator.init(std.heap.page_allocator);
    run(arena.allocator()) catch |err| {
        if (err != error.Failed) fail("{s}", .{@errorName(err)}) catch {};
        return 1;
    };
    return 0;
}
