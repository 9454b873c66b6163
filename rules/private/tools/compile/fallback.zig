//! Selects the outputs of the phases with the headers of torch that a source seems to need; if a phase failed, runs all
//! phases with all headers. A user sees only the errors of the latter.
const std = @import("std");
const common = @import("common");
const needed = @import("needed.zig");
const nvcc = @import("nvcc.zig");
const phases = @import("phase.zig");
const texts = @import("texts.zig");

const Device = struct {
    number: []const u8,
    gencode: []const u8,

    fn file(self: Device, allocator: std.mem.Allocator, directory: []const u8, extension: []const u8) ![]const u8 {
        const name = try std.mem.concat(allocator, u8, &.{ "sm_", self.number, ".", extension });
        return std.fs.path.join(allocator, &.{ directory, name });
    }
};

/// Copies the object of the host code and that of the device code of all architectures. After a failed attempt, one of
/// both is empty, and all phases run here in order, with files in a directory beside the output. `--read BEFORE AFTER`
/// names the file with the headers of the attempt, and the file for the headers of the result.
///
/// `--cubin NUMBER ATTEMPT OUT` names the code of an architecture for the device link.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var work = phases.Work.init(allocator);
    var cubins = std.ArrayList([3][]const u8).init(allocator);
    var devices = std.ArrayList(Device).init(allocator);
    var images = std.ArrayList([]const u8).init(allocator);
    var host: []const u8 = "";
    var attempt: [2][]const u8 = undefined;
    var out: [2][]const u8 = undefined;
    var read: [2][]const u8 = undefined;
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (try work.takes(flag, value) or try work.packs.takes(flag, value)) continue;
        if (common.is(flag, "--host")) {
            host = value;
        } else if (common.is(flag, "--device")) {
            try devices.append(.{ .number = value, .gencode = try arguments.value(flag) });
        } else if (common.is(flag, "--image")) {
            try images.append(value);
        } else if (common.is(flag, "--cubin")) {
            try cubins.append(.{ value, try arguments.value(flag), try arguments.value(flag) });
        } else if (common.is(flag, "--attempt")) {
            attempt = .{ value, try arguments.value(flag) };
        } else if (common.is(flag, "--out")) {
            out = .{ value, try arguments.value(flag) };
        } else if (common.is(flag, "--read")) {
            read = .{ value, try arguments.value(flag) };
        } else return common.fail("fallback: no such flag: {s}", .{flag});
    }
    const host_code = try common.read(allocator, attempt[0]);
    const device_code = try common.read(allocator, attempt[1]);
    if (host_code.len > 0 and device_code.len > 0) {
        try common.write(out[0], host_code);
        try common.write(read[1], try common.read(allocator, read[0]));
        for (cubins.items) |cubin| try common.write(cubin[2], try common.read(allocator, cubin[1]));
        return common.write(out[1], device_code);
    }
    try needed.tell(allocator, read[1], needed.failed);
    try work.packs.layOut();
    _ = try work.packs.rest();
    const call = try needed.full(allocator, arguments.items[arguments.at..]);
    const directory = try std.mem.concat(allocator, u8, &.{ out[1], ".fallback" });
    try std.fs.cwd().makePath(directory);
    defer std.fs.cwd().deleteTree(directory) catch {};
    const text = try std.fs.path.join(allocator, &.{ directory, "host.ii" });
    const split = try std.fs.path.join(allocator, &.{ directory, "cudafe1.cpp" });
    work.stub = try std.fs.path.join(allocator, &.{ directory, "stub.c" });
    var wanted = std.ArrayList(texts.Text).init(allocator);
    try wanted.append(.{ .arch = null, .out = text, .gencode = host });
    for (devices.items) |device|
        try wanted.append(.{ .arch = device.number, .out = try device.file(allocator, directory, "ii"), .gencode = device.gencode });
    _ = try nvcc.preprocessed(&work, call, wanted.items, true);
    try work.inputs.put("code", text);
    try phase(&work, .frontend, split, call, &.{host});
    for (devices.items) |device| {
        try work.inputs.put("code", try device.file(allocator, directory, "ii"));
        try phase(&work, .cicc, try device.file(allocator, directory, "ptx"), call, &.{device.gencode});
        try work.inputs.put("code", work.out);
        try phase(&work, .ptxas, try device.file(allocator, directory, "cubin"), call, &.{device.gencode});
        for (cubins.items) |cubin| {
            if (common.is(cubin[0], device.number)) try common.write(cubin[2], try common.read(allocator, work.out));
        }
    }
    work.inputs.clearRetainingCapacity();
    for (devices.items) |device| {
        for ([_][2][]const u8{ .{ "sm_", "cubin" }, .{ "compute_", "ptx" } }) |kind|
            try work.inputs.put(
                try std.mem.concat(allocator, u8, &.{ kind[0], device.number }),
                try device.file(allocator, directory, kind[1]),
            );
    }
    try phase(&work, .fatbinary, out[1], call, images.items);
    work.inputs.clearRetainingCapacity();
    try work.inputs.put("code", split);
    try phase(&work, .@"host-compile", out[0], call, &.{host});
}

fn phase(
    work: *phases.Work,
    which: phases.Phase,
    out: []const u8,
    call: []const []const u8,
    gencodes: []const []const u8,
) !void {
    work.out = out;
    try phases.perform(work, which, try std.mem.concat(work.allocator, []const u8, &.{ call, gencodes }), false);
}
