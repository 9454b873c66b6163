//! A precompiled header of torch's headers, and the text that it was made from.
//!
//! Both are preprocessed texts, without macros. If a source's text begins with the header's text, apart from line
//! markers before it, and the compiler's options behind the preprocessor are the same, the source is compiled with the
//! precompiled header in place of that text. So no effect of a define, an include guard or a header directory can be
//! missed. The rest of the source is compiled unchanged. A source that opens a namespace of the headers, or specialises
//! a template, could change the meaning of a template that the precompiled header has already instantiated: it is
//! compiled without. Not detected: a function in the global namespace that a template of the headers finds by an
//! argument whose class is in the global namespace too. C++ does not define which function such a template calls
//! ([temp.point]).
//!
//! The file beside a precompiled header has the options in its first line, followed by the text. clang writes absolute
//! file names into a precompiled header, so it reads the text from stdin, in the root directory.
const std = @import("std");
const common = @import("common");
const dryrun = @import("dryrun.zig");
const inputs = @import("inputs.zig");
const lexer = @import("lexer.zig");
const needed = @import("needed.zig");
const Packs = @import("packs.zig").Packs;

/// clang's further options for a preprocessed text; `compile_cxx` has the same for other texts.
const of_text = [_][]const u8{ "-Wno-unused-command-line-argument", "-Wno-gnu-line-marker" };

const parse = [_][]const u8{ "-x", "c++-cpp-output", "-Xclang", "-emit-pch" };

/// The precompiled header has no timestamp, and instantiates the templates that the headers use.
const reproducible = [_][]const u8{ "-Xclang", "-fno-pch-timestamp", "-Xclang", "-fpch-instantiate-templates" };

/// Options with a value that only the preprocessor reads.
const of_preprocessor = [_][]const u8{ "-D", "-U", "-I", "-isystem", "-iquote", "-include" };

/// Makes a precompiled header of all headers of a source: `[PACKS] --text TEXT -- COMPILER ARGUMENT...`.
pub fn run(allocator: std.mem.Allocator, arguments: *common.Arguments) !void {
    var kept: []const u8 = "";
    var packs = Packs.init(allocator);
    while (arguments.next()) |flag| {
        if (common.is(flag, "--")) break;
        const value = try arguments.value(flag);
        if (try packs.takes(flag, value)) continue;
        if (!common.is(flag, "--text")) return common.fail("precompile: no such flag: {s}", .{flag});
        kept = value;
    }
    const command = arguments.items[arguments.at..];
    const out = try inputs.output(command);
    const environment = try dryrun.environmentHere(allocator);
    try packs.layOut();
    const preprocess = try inputs.preprocessing(allocator, try needed.widest(allocator, command), kept);
    _ = try packs.run(try inputs.listing(allocator, preprocess, kept), &environment, true);
    try inputs.check(allocator, kept, &packs);
    const text = try common.read(allocator, kept);
    const start = headersStart(text) orelse return common.fail("{s} includes nothing first", .{kept});
    const end = if (std.mem.lastIndexOf(u8, text, "\n# ")) |found| found + 1 else 0;
    if (end <= start or !leaves(text[end..])) return common.fail("{s} has more than headers", .{kept});
    const headers = text[start..end];

    const compile = (try Words.of(allocator, command)) orelse return common.fail("no command for {s}", .{out});
    const path = try std.mem.concat(allocator, u8, &.{ out, ".ii" });
    try common.write(path, headers);
    defer std.fs.cwd().deleteFile(path) catch {};
    try common.write(kept, try std.mem.concat(allocator, u8, &.{ compile.key, "\n", headers }));
    var words = std.ArrayList([]const u8).init(allocator);
    try words.append(try dryrun.absolute(allocator, command[0]));
    try words.appendSlice(compile.words[1..]);
    inline for (.{ &of_text, &parse, &reproducible }) |more| try words.appendSlice(more);
    try words.appendSlice(&.{ "-c", "-", "-o", "-" });
    // A child process inherits the file descriptors of this one.
    try redirect(try std.fs.cwd().openFile(path, .{}), std.posix.STDIN_FILENO);
    try redirect(try std.fs.cwd().createFile(out, .{}), std.posix.STDOUT_FILENO);
    const code = try dryrun.redirected("/", allocator, words.items, &environment);
    if (code != 0) std.process.exit(code);
}

fn redirect(file: std.fs.File, number: std.posix.fd_t) !void {
    try std.posix.dup2(file.handle, number);
    file.close();
}

/// A precompiled header among the inputs of an action.
pub const Precompiled = struct {
    header: []const u8,
    text: []const u8,

    /// Starts to compile a text with it; null if the text does not begin with the same headers, or has other options.
    pub fn begin(
        self: Precompiled,
        allocator: std.mem.Allocator,
        command: []const []const u8,
        text: []const u8,
        environment: *const std.process.EnvMap,
    ) !?Compile {
        const words = (try Words.of(allocator, command)) orelse return null;
        const rest = (try self.without(allocator, words.key, text)) orelse return null;
        const out = try inputs.output(command);
        const path = try std.mem.concat(allocator, u8, &.{ out, ".rest.ii" });
        try common.write(path, rest);
        const words_of_clang = try std.mem.concat(allocator, []const u8, &.{
            words.words, &of_text, &.{ "-Xclang", "-include-pch", "-Xclang", self.header, "-c", path, "-o", out },
        });
        return .{ .child = try dryrun.start(null, allocator, words_of_clang, environment, .Pipe), .path = path, .out = out };
    }

    /// A text without the precompiled headers; null if the text does not begin with them, or the options differ.
    fn without(self: Precompiled, allocator: std.mem.Allocator, key: []const u8, text: []const u8) !?[]const u8 {
        const kept = try common.read(allocator, self.text);
        const line = std.mem.indexOfScalar(u8, kept, '\n') orelse return null;
        if (!common.is(kept[0..line], key)) return null;
        const headers = kept[line + 1 ..];
        const start = headersStart(text) orelse return null;
        if (!std.mem.startsWith(u8, text[start..], headers)) return null;
        const marker = text[start + headers.len ..];
        if (!leaves(marker)) return null;
        const length = std.mem.indexOfScalar(u8, marker, '\n') orelse return null;
        const after = marker[length..];
        if (try reopens(allocator, after, headers)) return null;
        const back = std.mem.trimRight(u8, marker[0..length], " 23");
        return try std.mem.concat(allocator, u8, &.{ text[0..start], back, after });
    }
};

/// A running compile with a precompiled header.
pub const Compile = struct {
    child: std.process.Child,
    path: []const u8,
    out: []const u8,

    /// Waits for its end; returns whether clang wrote an object without messages, and `wanted`. Otherwise deletes the
    /// object.
    pub fn end(self: *Compile, allocator: std.mem.Allocator, wanted: bool) !bool {
        const messages = try dryrun.listen(allocator, &self.child);
        const code = try dryrun.finish(&self.child);
        std.fs.cwd().deleteFile(self.path) catch {};
        if (wanted and code == 0 and messages.len == 0) return true;
        std.fs.cwd().deleteFile(self.out) catch {};
        return false;
    }
};

/// The start of a text's first header; null if other text than line markers stands before it.
fn headersStart(text: []const u8) ?usize {
    var at: usize = 0;
    while (at < text.len) {
        const end = std.mem.indexOfScalarPos(u8, text, at, '\n') orelse return null;
        const line = text[at..end];
        if (line.len > 0) {
            const name = named(line) orelse return null;
            if (name.len > 0 and name[0] != '<' and std.mem.indexOf(u8, line, "\" 1") != null) return at;
        }
        at = end + 1;
    }
    return null;
}

/// The file name in a line marker, `# 12 "name" 1`; null for another line.
fn named(line: []const u8) ?[]const u8 {
    if (line.len < 4 or !std.mem.startsWith(u8, line, "# ") or !std.ascii.isDigit(line[2])) return null;
    const open = std.mem.indexOfScalar(u8, line, '"') orelse return null;
    const close = std.mem.lastIndexOfScalar(u8, line, '"').?;
    return if (close > open) line[open + 1 .. close] else null;
}

/// Whether a text begins with a marker of the return to the including file.
fn leaves(text: []const u8) bool {
    const line = text[0 .. std.mem.indexOfScalar(u8, text, '\n') orelse text.len];
    return named(line) != null and std.mem.endsWith(u8, line, "\" 2");
}

/// The attributes that may stand between `struct` and a name.
const attributes = [_][]const u8{ "__attribute__", "__attribute", "alignas", "__declspec", "_Alignas" };

const class_keys = [_][]const u8{ "struct", "class", "union", "enum" };

/// Whether a text may change the meaning of templates that the headers have instantiated: it opens a namespace that the
/// headers also open, defines a class with a qualified name, specialises or instantiates a template, or has a pragma
/// for the file. Every specialisation counts, whatever its name: an alias or a using-declaration may stand for the
/// namespace.
fn reopens(allocator: std.mem.Allocator, text: []const u8, headers: []const u8) !bool {
    var known = std.StringHashMap(void).init(allocator);
    var all = lexer.Lexer{ .text = text };
    var before: []const u8 = "";
    while (all.next()) |token| {
        if (token.kind == .comment) continue;
        if (token.kind == .directive) {
            if (named(token.text) == null and !isLocalPragma(token.text)) return true;
            continue;
        }
        const opens = common.is(before, "namespace");
        if (opens or common.isAny(before, &class_keys)) {
            // `struct ::at::T` and `struct [[a]] at::T`: the name comes later.
            if (token.isMark(':') or token.isMark('[') or common.isAny(token.text, &attributes)) return true;
            if (opens and token.kind == .name) {
                if (known.count() == 0) try namespaces(headers, &known);
                if (common.is(token.text, "inline") or known.contains(token.text)) return true;
            }
            const rest = std.mem.trimLeft(u8, text[all.at..], " \t\r\n");
            const is_more = std.mem.startsWith(u8, rest, "::") or std.mem.startsWith(u8, rest, "<");
            if (!opens and token.kind == .name and is_more) return true;
        }
        if (common.is(before, "template") and (!token.isMark('<') or isSpecialisation(all))) return true;
        before = token.text;
    }
    return false;
}

/// Whether a template is an explicit specialisation, or a partial specialisation of a variable: `template <class T>
/// bool v<T*> = true`. Also true for a template with a constraint, and where a comparison may end the parameters.
fn isSpecialisation(behind_bracket: lexer.Lexer) bool {
    var words = behind_bracket;
    var open_brackets: usize = 1;
    var depth: usize = 0;
    var before: []const u8 = "";
    while (words.next()) |token| {
        if (token.kind == .comment or token.kind == .directive) continue;
        if (token.isMark('(') or token.isMark('[')) {
            const is_function = token.isMark('(') and !common.isAny(before, &attributes);
            if (open_brackets == 0 and depth == 0 and is_function) return false;
            depth += 1;
        } else if (token.isMark(')') or token.isMark(']')) {
            depth -|= 1;
        } else if (depth > 0) {
            // of a default argument, or of an attribute
        } else if (common.is(token.text, "requires")) {
            return true;
        } else if (open_brackets > 0) {
            if (token.isMark(';') or token.isMark('{') or (token.isMark('>') and before.len == 0)) return true;
            if (token.isMark('<')) open_brackets += 1;
            if (token.isMark('>')) open_brackets -= 1;
        } else if (common.isAny(token.text, &class_keys)) {
            return false;
        } else if (token.isMark(';') or token.isMark('{') or token.isMark('=')) {
            return common.is(before, ">");
        }
        before = token.text;
    }
    return true;
}

/// Whether a directive of a preprocessed text is a pragma about messages or about the next statement.
fn isLocalPragma(line: []const u8) bool {
    const directive = std.mem.trimLeft(u8, line[1..], " \t");
    if (!std.mem.startsWith(u8, directive, "pragma ")) return false;
    const words = std.mem.trimLeft(u8, directive["pragma ".len..], " \t");
    for ([_][]const u8{ "GCC diagnostic", "clang diagnostic", "GCC unroll", "clang loop", "unroll", "nounroll", "once" }) |start|
        if (std.mem.startsWith(u8, words, start)) return true;
    return false;
}

/// Adds the names of the namespaces that a text opens.
fn namespaces(text: []const u8, into: *std.StringHashMap(void)) !void {
    const word = "namespace";
    var at: usize = 0;
    while (std.mem.indexOfPos(u8, text, at, word)) |found| {
        at = found + word.len;
        while (at < text.len and std.ascii.isWhitespace(text[at])) at += 1;
        var end = at;
        while (end < text.len and (std.ascii.isAlphanumeric(text[end]) or text[end] == '_')) end += 1;
        if (end > at) try into.put(text[at..end], {});
    }
}

/// The command that compiles a text, made from the command that compiles the source.
const Words = struct {
    /// All words except those for the preprocessor, the source and the output.
    words: []const []const u8,
    /// The words that affect the code, in a line: without the compiler's path, warnings and file names.
    key: []const u8,

    /// Null for a command with more than one source.
    fn of(allocator: std.mem.Allocator, command: []const []const u8) !?Words {
        var words = std.ArrayList([]const u8).init(allocator);
        var key = std.ArrayList([]const u8).init(allocator);
        if (command.len < 2) return null;
        try words.appendSlice(command[0..2]);
        var sources: usize = 0;
        // Of several such options, the last counts.
        var chosen = [_]?[]const u8{ null, null };
        var i: usize = 2;
        while (i < command.len) : (i += 1) {
            const word = command[i];
            if (common.isAny(word, &of_preprocessor) or common.is(word, "-o")) {
                i += 1;
            } else if (word.len == 0 or word[0] != '-') {
                sources += 1;
            } else if (!common.isAny(word, &.{ "-c", "-E" }) and !forPreprocessor(word)) {
                try words.append(word);
                if (aboutMessages(word)) continue;
                for ([_][]const u8{ "-O", "-std=" }, &chosen) |start, *choice| {
                    if (!std.mem.startsWith(u8, word, start)) continue;
                    choice.* = word;
                    break;
                } else try key.append(word);
            }
        }
        if (sources != 1) return null;
        for (chosen) |choice| if (choice) |word| try key.append(word);
        return .{ .words = words.items, .key = try std.mem.join(allocator, " ", key.items) };
    }

    fn forPreprocessor(word: []const u8) bool {
        for ([_][]const u8{ "-D", "-U", "-I", needed.place }) |start| if (std.mem.startsWith(u8, word, start)) return true;
        return false;
    }

    fn aboutMessages(word: []const u8) bool {
        for ([_][]const u8{ "-ffile-prefix-map=", "-fdebug-compilation-dir=" }) |start| if (std.mem.startsWith(u8, word, start)) return true;
        const warns = common.is(word, "-w") or std.mem.startsWith(u8, word, "-W");
        return warns and std.mem.indexOfAny(u8, word, ",") == null and std.mem.indexOf(u8, word, "system-headers") == null;
    }
};

test "a text that begins with precompiled headers" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    var directory = std.testing.tmpDir(.{});
    defer directory.cleanup();
    const headers = "# 1 \"external/t/a.h\" 1 3\nnamespace at { struct T { }; }\n";
    try directory.dir.writeFile(.{ .sub_path = "kept", .data = "-O3\n" ++ headers });
    const precompiled = Precompiled{ .header = "", .text = try directory.dir.realpathAlloc(a, "kept") };
    const begin = "# 1 \"m.cpp\"\n# 1 \"<built-in>\" 1\n# 1 \"<command line>\" 1\n# 1 \"<built-in>\" 2\n# 1 \"m.cpp\" 2\n\n";
    const found = (try precompiled.without(a, "-O3", begin ++ headers ++ "# 3 \"m.cpp\" 2\nint x;\n")).?;
    try std.testing.expectEqualStrings(begin ++ "# 3 \"m.cpp\"\nint x;\n", found);
    const cases = [_][]const u8{
        begin ++ "int y;\n" ++ headers ++ "# 3 \"m.cpp\" 2\nint x;\n",
        begin ++ "#pragma once\n" ++ headers ++ "# 3 \"m.cpp\" 2\nint x;\n",
        begin ++ headers ++ "int y;\n# 3 \"m.cpp\" 2\nint x;\n",
        begin ++ "# 1 \"external/t/b.h\" 1 3\n\n" ++ headers ++ "# 3 \"m.cpp\" 2\nint x;\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nnamespace at { int x; }\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nnamespace mine::b { } inline namespace at { }\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\ntemplate <> struct A<at::T> { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nextern template struct A<at::T>;\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nstruct at::T { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nstruct ::at::T { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nstruct [[nodiscard]] at::T { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nstruct __attribute__((packed)) at::T { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nnamespace a = at; template <class T> struct a::S<T*> { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\nusing at::S; template <class T> struct S<T*> { };\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\ntemplate <class T> constexpr int at::v<T*> = 2;\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\ntemplate <class T> [[maybe_unused]] constexpr int at::v<T*>{2};\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\ntemplate <class T> requires C<T> int f(T);\n",
        begin ++ headers ++ "# 3 \"m.cpp\" 2\n#pragma GCC visibility push(default)\n",
        begin ++ headers,
        "",
    };
    for (cases) |text| try std.testing.expectEqual(null, try precompiled.without(a, "-O3", text));
    try std.testing.expectEqual(null, try precompiled.without(a, "-O2", begin ++ headers ++ "# 3 \"m.cpp\" 2\nint x;\n"));
    const own = [_][]const u8{
        "namespace mine { template <class T> struct A { }; }\n#pragma unroll\n# 9 \"m.cpp\"\nstruct B { };\n",
        "template <class T, class... R> struct D : mine::A<T> { }; enum class E : int { a };\n",
        "template <class T, int N = (2 > 1), class = mine::A<A<T>>> [[nodiscard]] std::vector<T> f(T x) { return {x}; }\n",
        "template <class T> using Y = std::vector<T>; template <class T> constexpr int v = 2; struct at_ {} x;\n",
        "template <class T> __attribute__((noinline)) void g(std::vector<T> x = {}) { }\n",
    };
    inline for (own) |text| try std.testing.expect(try precompiled.without(a, "-O3", begin ++ headers ++ "# 3 \"m.cpp\" 2\n" ++ text) != null);
}

test "words of a compile of a text" {
    var arena = std.heap.ArenaAllocator.init(std.testing.allocator);
    defer arena.deinit();
    const a = arena.allocator();
    const plain = [_][]const u8{ "zig", "clang", "-O3", "-fPIC", "-c", "a.cpp", "-o", "a.o" };
    const same = [_][]const u8{
        "zig",                "clang", "-O2",                  "-O3", "-DA=1", "-UB",   "-isystem", "c",   "-Id", "-include", "e.h", "-Wall",
        "--needed-headers=f", "-fPIC", "-ffile-prefix-map=g=", "-w",  "-c",    "h.cpp", "-o",       "h.o",
    };
    try std.testing.expectEqualStrings("-fPIC -O3", (try Words.of(a, &plain)).?.key);
    const found = (try Words.of(a, &same)).?;
    try std.testing.expectEqualStrings("-fPIC -O3", found.key);
    const kept = try std.mem.join(a, " ", found.words);
    try std.testing.expectEqualStrings("zig clang -O2 -O3 -Wall -fPIC -ffile-prefix-map=g= -w", kept);
    for ([_][]const u8{ "-g", "-O2", "-march=native", "-Wa,x", "-Wsystem-headers", "-std=c++17" }) |word| {
        const other = try std.mem.concat(a, []const u8, &.{ &plain, &.{word} });
        try std.testing.expect(!common.is((try Words.of(a, other)).?.key, "-fPIC -O3"));
    }
    const two = try std.mem.concat(a, []const u8, &.{ &plain, &.{ "-Xclang", "b" } });
    try std.testing.expectEqual(null, try Words.of(a, two));
}
