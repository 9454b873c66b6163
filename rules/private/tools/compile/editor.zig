//! Derives a command from another command, word by word.
const std = @import("std");
const common = @import("common");

const list_flag = "-D__CUDA_ARCH_LIST__=";

/// Whether the source's name follows: nvcc hashes it into the names of symbols, and writes it into line tables.
pub fn namesSource(word: []const u8) bool {
    return common.is(word, "--orig_src_path_name") or common.is(word, "--orig_src_file_name");
}

/// Goes through the words of a command and collects the words of the new command.
pub const Editor = struct {
    allocator: std.mem.Allocator,
    /// The value of __CUDA_ARCH_LIST__; empty for nvcc's value.
    arch_list: []const u8,
    command: []const []const u8,
    at: usize = 1,
    words: std.ArrayList([]const u8),

    pub fn init(allocator: std.mem.Allocator, command: []const []const u8, arch_list: []const u8) !Editor {
        var words = std.ArrayList([]const u8).init(allocator);
        try words.append(command[0]);
        return .{ .allocator = allocator, .arch_list = arch_list, .command = command, .words = words };
    }

    pub fn next(self: *Editor) ?[]const u8 {
        if (self.at == self.command.len) return null;
        defer self.at += 1;
        return self.command[self.at];
    }

    pub fn keep(self: *Editor, word: []const u8) !void {
        const list = self.arch_list;
        const replaced = list.len > 0 and std.mem.startsWith(u8, word, list_flag);
        try self.words.append(if (replaced) try std.mem.concat(self.allocator, u8, &.{ list_flag, list }) else word);
    }

    /// Keeps the current word, and replaces the next word by a value.
    pub fn replace(self: *Editor, value: []const u8) !void {
        try self.words.append(self.command[self.at - 1]);
        try self.words.append(value);
        self.at += 1;
    }

    /// Handles the words that cudafe++ and cicc have in common; returns whether the word was one of them.
    ///
    /// `name` is the source's name, and `code` the path of its text.
    pub fn keepShared(self: *Editor, word: []const u8, module_id: []const u8, name: []const u8, code: []const u8) !bool {
        if (common.is(word, "--gen_module_id_file")) return true;
        if (common.is(word, "--module_id_file_name")) {
            try self.replace(module_id);
        } else if (namesSource(word)) {
            try self.replace(name);
        } else if (std.mem.endsWith(u8, word, ".ii")) {
            try self.words.append(code);
        } else return false;
        return true;
    }
};
