//! The owner of a type by the mangled name of its type information: torch or the C++ library, whose types other
//! libraries of the process share, or the extension. Grammar: Itanium C++ ABI, chapter 5.1.
const std = @import("std");
const common = @import("common");

const Error = error{ Unknown, Own };

pub const Owner = enum {
    /// Another library of the process may share the type by this name.
    shared,
    /// The extension's own: a part of its name belongs to the extension.
    own,
    /// Local to a single file of the extension: in an anonymous namespace, or in a static function.
    file,
};

/// Names that other libraries share, and the project's names in the same namespaces.
pub const Names = struct {
    /// Outermost namespaces and global classes: policy/shared_types.txt.
    shared: std.StringHashMap(void),
    /// Classes that the project defines, `at::native::Mine`.
    defined: std.StringHashMap(void),
    /// The tag for names of the extension's own types: the id of the kernel.
    tag: []const u8 = "",

    /// Reads a list with a name on each line; `#` begins a comment.
    pub fn read(allocator: std.mem.Allocator, text: []const u8) !Names {
        var names = Names{
            .shared = std.StringHashMap(void).init(allocator),
            .defined = std.StringHashMap(void).init(allocator),
        };
        var lines = std.mem.splitScalar(u8, text, '\n');
        while (lines.next()) |line| {
            const name = std.mem.trim(u8, line[0 .. std.mem.indexOfScalar(u8, line, '#') orelse line.len], " \t\r");
            if (name.len > 0) try names.shared.put(name, {});
        }
        return names;
    }

    /// The owner of the type with a mangled name such as `N2at6TensorE`. A name that cannot be read counts as shared.
    pub fn owner(self: *const Names, name: []const u8) Owner {
        var reader = Reader{ .name = name, .names = self };
        const is_cut = if (reader.full()) false else |err| switch (err) {
            error.Own => true,
            error.Unknown => return .shared,
        };
        if (!reader.own) return .shared;
        return if (reader.of_file or (is_cut and isOfFile(name))) .file else .own;
    }

    /// Whether a mangled name begins with a type that is the extension's own.
    pub fn beginsWithOwn(self: *const Names, name: []const u8) bool {
        var reader = Reader{ .name = name, .names = self };
        reader.mangledType() catch {};
        return reader.own;
    }

    fn isDefined(self: *const Names, path: []const u8, from_substitution: bool) bool {
        if (self.defined.contains(path)) return true;
        if (!from_substitution) return false;
        // The text of the substitution is not known here, so the rest of the path decides.
        var defined = self.defined.keyIterator();
        while (defined.next()) |name| {
            if (name.len > path.len + 2 and std.mem.endsWith(u8, name.*, path) and
                std.mem.endsWith(u8, name.*[0 .. name.len - path.len], "::")) return true;
        }
        return false;
    }
};

/// Whether a name that was not read to its end has a part that is local to a single file.
fn isOfFile(name: []const u8) bool {
    for ([_][]const u8{ "12_GLOBAL__N_1", "$_" }) |mark| {
        if (std.mem.indexOf(u8, name, mark) != null) return true;
    }
    // `L5guard`: a name of internal linkage.
    for (name[0 .. name.len - 1], name[1..]) |c, next| if (c == 'L' and std.ascii.isDigit(next)) return true;
    return false;
}

/// The position for a tag (`B` and a name, as of `abi_tag`) in the mangled name of a type: behind the first identifier.
/// The end of the name if another kind of part comes first; with a tag there it is not a valid mangled name.
pub fn tagPosition(name: []const u8) usize {
    var at: usize = 0;
    while (at < name.len) {
        const c = name[at];
        if (std.mem.startsWith(u8, name[at..], "St")) {
            at += 2;
        } else if (c == 'A') {
            at = (std.mem.indexOfScalarPos(u8, name, at, '_') orelse return name.len) + 1;
        } else if (std.mem.indexOfScalar(u8, "KLNOPRVZr", c) != null) {
            at += 1;
        } else break;
    }
    const start = at;
    while (at < name.len and std.ascii.isDigit(name[at])) at += 1;
    const length = std.fmt.parseInt(usize, name[start..at], 10) catch return name.len;
    return if (length > name.len - at) name.len else at + length;
}

test "places of tags" {
    for ([_][2][]const u8{
        .{ "7Counter", "7Counter|" },
        .{ "N2my7CounterE", "N2my|7CounterE" },
        .{ "3BoxIiE", "3Box|IiE" },
        .{ "St6vectorI1ASaIS0_EE", "St6vector|I1ASaIS0_EE" },
        .{ "PK1A", "PK1A|" },
        .{ "A10_1A", "A10_1A|" },
        .{ "Z4makevE5Local", "Z4make|vE5Local" },
        .{ "FvRK1AE", "FvRK1AE|" },
        .{ "99x", "99x|" },
    }) |case| {
        const position = tagPosition(case[0]);
        try std.testing.expectEqual(std.mem.indexOfScalar(u8, case[1], '|').?, position);
    }
}

const Reader = struct {
    name: []const u8,
    names: *const Names,
    at: usize = 0,
    own: bool = false,
    of_file: bool = false,

    fn full(self: *Reader) Error!void {
        try self.mangledType();
        if (self.at != self.name.len) return error.Unknown;
    }

    fn peek(self: *const Reader) u8 {
        return if (self.at < self.name.len) self.name[self.at] else 0;
    }

    fn starts(self: *const Reader, text: []const u8) bool {
        return std.mem.startsWith(u8, self.name[self.at..], text);
    }

    fn skip(self: *Reader, text: []const u8) bool {
        if (!self.starts(text)) return false;
        self.at += text.len;
        return true;
    }

    fn expect(self: *Reader, text: []const u8) Error!void {
        if (!self.skip(text)) return error.Unknown;
    }

    fn number(self: *Reader) Error!usize {
        const start = self.at;
        while (std.ascii.isDigit(self.peek())) self.at += 1;
        return std.fmt.parseInt(usize, self.name[start..self.at], 10) catch error.Unknown;
    }

    fn sourceName(self: *Reader) Error![]const u8 {
        const length = try self.number();
        if (length == 0 or length > self.name.len - self.at) return error.Unknown;
        defer self.at += length;
        return self.name[self.at .. self.at + length];
    }

    /// Reads the base-36 number of a substitution or parameter, and the `_` behind it.
    fn sequence(self: *Reader) Error!void {
        while (std.ascii.isDigit(self.peek()) or std.ascii.isUpper(self.peek())) self.at += 1;
        try self.expect("_");
    }

    /// The error that stops reading: the name has a part that no other library can share.
    fn isOwn(self: *Reader) Error {
        self.own = true;
        return error.Own;
    }

    fn mangledType(self: *Reader) Error!void {
        switch (self.peek()) {
            'r', 'V', 'K', 'P', 'R', 'O', 'C', 'G' => {
                self.at += 1;
                return self.mangledType();
            },
            'U' => {
                self.at += 1;
                _ = try self.sourceName();
                if (self.peek() == 'I') try self.templateArguments();
                return self.mangledType();
            },
            'u' => {
                self.at += 1;
                _ = try self.sourceName();
                if (self.peek() == 'I') try self.templateArguments();
            },
            'a'...'q', 's', 't', 'v'...'z' => self.at += 1,
            'D' => return self.typeOfD(),
            'F' => {
                self.at += 1;
                _ = self.skip("Y");
                while (self.peek() != 'E') {
                    if ((self.peek() == 'R' or self.peek() == 'O') and std.mem.startsWith(u8, self.name[self.at + 1 ..], "E")) {
                        self.at += 1;
                    } else try self.mangledType();
                }
                self.at += 1;
            },
            'A' => {
                self.at += 1;
                if (self.peek() != '_') _ = try self.number();
                try self.expect("_");
                return self.mangledType();
            },
            'M' => {
                self.at += 1;
                try self.mangledType();
                return self.mangledType();
            },
            'T' => {
                self.at += 1;
                try self.sequence();
                if (self.peek() == 'I') try self.templateArguments();
            },
            else => return self.className(),
        }
    }

    fn typeOfD(self: *Reader) Error!void {
        self.at += 1;
        defer self.at = @min(self.at, self.name.len);
        switch (self.peek()) {
            'd', 'e', 'f', 'h', 'i', 's', 'a', 'c', 'n', 'u' => self.at += 1,
            'p' => {
                self.at += 1;
                return self.mangledType();
            },
            'o', 'x' => {
                self.at += 1;
                return self.mangledType();
            },
            'v' => {
                self.at += 1;
                _ = try self.number();
                try self.expect("_");
                return self.mangledType();
            },
            'F', 'B', 'U' => {
                self.at += 1;
                _ = try self.number();
                if (!self.skip("b")) _ = self.skip("x");
                _ = self.skip("_");
            },
            else => return error.Unknown,
        }
    }

    /// A class or an enumeration.
    fn className(self: *Reader) Error!void {
        var path = Path{};
        switch (self.peek()) {
            'Z' => return self.isOwn(),
            'N' => {
                self.at += 1;
                while (self.peek() == 'r' or self.peek() == 'V' or self.peek() == 'K') self.at += 1;
                if (self.peek() == 'R' or self.peek() == 'O') self.at += 1;
                while (!self.skip("E")) try self.component(&path);
            },
            'S' => {
                const standard = self.starts("St");
                try self.component(&path);
                if (standard) try self.component(&path);
                if (self.peek() == 'I') try self.templateArguments();
            },
            else => {
                try self.component(&path);
                if (self.peek() == 'I') try self.templateArguments();
            },
        }
        // If the name began with a substitution, its first part was read before.
        if (path.length == 0) return;
        if (!path.substituted and !self.names.shared.contains(path.first())) self.own = true;
    }

    /// Reads a part of a name; a class that the project defines makes the whole name the project's.
    fn component(self: *Reader, path: *Path) Error!void {
        switch (self.peek()) {
            'S' => {
                self.at += 1;
                if (self.skip("t")) return path.add("std");
                path.substituted = true;
                if (std.ascii.isLower(self.peek())) {
                    self.at += 1;
                } else try self.sequence();
            },
            'I' => return self.templateArguments(),
            'T' => return self.mangledType(),
            'M' => self.at += 1, // of a lambda that initialises the member before
            'L' => {
                self.at += 1; // of internal linkage
                path.add(try self.sourceName());
                self.own = true;
                self.of_file = true;
            },
            'U' => return self.isOwn(),
            '0'...'9' => {
                const name = try self.sourceName();
                path.add(name);
                if (std.mem.startsWith(u8, name, "_GLOBAL__N_") or std.mem.startsWith(u8, name, "$_")) {
                    self.own = true;
                    self.of_file = true;
                }
                while (self.skip("B")) _ = try self.sourceName();
                if (self.names.isDefined(path.text(), path.substituted)) self.own = true;
            },
            else => return error.Unknown,
        }
    }

    fn templateArguments(self: *Reader) Error!void {
        try self.expect("I");
        while (!self.skip("E")) try self.templateArgument();
    }

    fn templateArgument(self: *Reader) Error!void {
        switch (self.peek()) {
            'J' => {
                self.at += 1;
                while (!self.skip("E")) try self.templateArgument();
            },
            // A function or a variable, or an expression of one.
            'X' => return self.isOwn(),
            'L' => {
                self.at += 1;
                if (self.starts("_Z")) return self.isOwn();
                try self.mangledType();
                self.at = (std.mem.indexOfScalarPos(u8, self.name, self.at, 'E') orelse return error.Unknown) + 1;
            },
            else => return self.mangledType(),
        }
    }
};

/// The path of a class without its template arguments.
const Path = struct {
    buffer: [1024]u8 = undefined,
    length: usize = 0,
    substituted: bool = false,

    fn add(self: *Path, name: []const u8) void {
        const between = if (self.length > 0) "::" else "";
        const room = self.buffer[self.length..];
        // A longer path is truncated: no list has such a class.
        const added = std.fmt.bufPrint(room, "{s}{s}", .{ between, name }) catch return;
        self.length += added.len;
    }

    fn text(self: *const Path) []const u8 {
        return self.buffer[0..self.length];
    }

    fn first(self: *const Path) []const u8 {
        const path = self.text();
        return path[0 .. std.mem.indexOf(u8, path, "::") orelse path.len];
    }
};

test "owners of types" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    var names = try Names.read(arena.allocator(), "# of torch\nat\nc10\nstd # of gcc\n\nLinearPackedParamsBase\n");
    try names.defined.put("at::native::Mine", {});
    for ([_][]const u8{
        "N2at6TensorE",                                                                                        "N3c105ErrorE",
        "FN2at6TensorERKS0_E",                                                                                 "St6vectorIiSaIiEE",
        "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",                                                "i",
        "PKc",                                                                                                 "A10_i",
        "N3c1013intrusive_ptrI22LinearPackedParamsBaseNS_6detail34intrusive_target_default_null_typeIS1_EEEE", "FvDpT_E",
        "St8functionIFvRKN2at6TensorEEE",                                                                      "M4NoneE",
        "N2at8TemplateILj128ELN3c1010ScalarTypeE5EE",                                                          "9",
        "N2at6native5OtherE",                                                                                  "NS_3FooE",
        "FN3c1013intrusive_ptrIN2at1XENS_1YEEERKNS2_IS_EEE",                                                   "Dv4_f",
    }) |name| try std.testing.expectEqual(Owner.shared, names.owner(name));
    for ([_][]const u8{
        "7Counter",                                                                            "N2my7CounterE",
        "N3c1013intrusive_ptrI7CounterNS_6detail34intrusive_target_default_null_typeIS1_EEEE", "St6vectorI1ASaIS0_EE",
        "FN2at6TensorERKS0_R7CounterE",                                                        "N2at6native4MineE",
        "N2at6native4Mine5InnerE",                                                             "FvN2at6TensorENS_6native4MineEE",
        "ZN2at1fEvEUlvE_",                                                                     "P10Incomplete",
        "P6XNLfoo",                                                                            "N3c104impl24WrapFunctionIntoFunctor_INS_26CompileTimeFunctionPointerIFvvEXadL_Z1fvEEE",
        "A3_7Counter",                                                                         "M7CounterFvvE",
        "N2at8TemplateILN2my4KindE5EEE",                                                       "N2my3FooB5cxx11E",
        "N2at1x1yMUlvE_E",                                                                     "12LinearPacked",
    }) |name| try std.testing.expectEqual(Owner.own, names.owner(name));
    for ([_][]const u8{
        "N2at12_GLOBAL__N_17CounterE", "N12_GLOBAL__N_17CounterE", "ZL4makevE5Local", "Z4makevE3$_0", "ZN6helperL5guardEvE4Stop", "Z4makevE4$_10", "St6vectorIN12_GLOBAL__N_11AESaIS1_EE", "N2my12_GLOBAL__N_11AE",
    }) |name| try std.testing.expectEqual(Owner.file, names.owner(name));
}
