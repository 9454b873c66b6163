//! The rules of the ABI check, a function for each. Every finding is reported, not only the first.
const std = @import("std");
const common = @import("common");
const elf = @import("elf.zig");
const device = @import("device.zig");
const linker = @import("linker.zig");
const loading = @import("loading.zig");
const mangled = @import("mangled.zig");
const policies = @import("policy.zig");
const systems = @import("system.zig");
const tables = @import("exports.zig");
const undefined_symbols = @import("undefined.zig");
const libraries = @import("libraries.zig");

const examples_shown = 3;

/// A violation of a rule.
pub const Finding = struct {
    rule: []const u8,
    subject: []const u8,
    message: []const u8,
    help: []const u8,
    /// For a symbol, its C++ name, if the linker demangled it.
    name: []const u8 = "",
    /// Its references, and similar symbols.
    context: []const []const u8 = &.{},
};

/// The function that a library exports for its loader.
pub const Entry = enum {
    /// The PyInit function of a kernel.
    kernel,
    /// The PyInit function of an extension module, or no function: torch.ops.load_library loads it.
    module,
    /// The function that the Python file of a binding calls; the library does not use Python.
    binding,
};

/// The requirements for a library, besides those for every library.
pub const Wanted = struct {
    module: ?[]const u8 = null,
    /// The kind of loader.
    entry: Entry = .kernel,
    /// The CPU: `x86_64` or `aarch64`; null for either.
    cpu: ?[]const u8 = null,
    cxx_abi: ?[]const u8 = null,
    stable_abi: ?[]const u8 = null,
    torch: ?[]const u8 = null,
    /// The SHA-256 of that torch's wheel, if known: the symbols of other builds are not recorded.
    torch_wheel: ?[]const u8 = null,
    gpu: bool = true,
    /// Whether tvm-ffi loads it instead of Python and torch.
    tvm_ffi: bool = false,
    /// Whether the GPUs are AMD's.
    rocm: bool = false,
    code: ?[]const device.Code = null,
    /// The objects of the library that are compiled from the author's files.
    objects: []const linker.Object = &.{},
    /// The same as in metadata.json: AMD's architectures without features.
    stated: ?[]const device.Code = null,
};

pub const Check = struct {
    allocator: std.mem.Allocator,
    library: *elf.Library,
    policy: *const policies.Policy,
    wanted: Wanted,
    exports: ?tables.Exports = null,
    /// The symbols of libtorch_python.so in the releases of torch, if the library may need it.
    torch_python: ?tables.Exports = null,
    /// The symbols of the library's single Python; empty for a library for every Python.
    python: []const libraries.Library = &.{},
    /// The symbols of the system's libraries.
    system: systems.System = .{},
    /// The allowed program headers, tags, flags and relocations.
    lists: loading.Lists = .{},
    /// The symbols of the libraries of CUDA or ROCm, for the possible releases.
    gpu_libraries: []const libraries.Library = &.{},
    code: []const device.Code = &.{},
    /// The linkable PTX, which the CUDA driver can compile too.
    linkable: []const device.Code = &.{},
    findings: std.ArrayList(Finding),
    /// Facts that could not be checked and are no findings.
    notes: std.ArrayList([]const u8),

    pub fn run(self: *Check) elf.Error!void {
        const right = self.library.isLibrary() and std.mem.eql(u8, self.cpu(), self.library.cpu().?);
        if (!right or !self.library.dynamic) return self.add(
            "file-type",
            "",
            "not a shared library for {s} (ELF64, ET_DYN, with a dynamic segment)",
            .{self.cpu()},
            "compile it for that CPU and Linux with `-shared -fPIC`",
        );
        self.code = try device.find(self.allocator, self.library);
        self.linkable = try device.linkable(self.allocator, self.library);
        try self.symbolVersions();
        try self.pythonAbi();
        try self.needed();
        try self.searchPaths();
        try self.uniqueSymbols();
        try self.exported();
        try self.hardening();
        try loading.check(self);
        try self.cxxAbi();
        try self.cxxAbiOfObjects();
        try self.torchStableAbi();
        try undefined_symbols.check(self);
        try self.gpuCode();
    }

    /// Adds a finding.
    pub fn add(
        self: *Check,
        rule: []const u8,
        subject: []const u8,
        comptime message: []const u8,
        values: anytype,
        help: []const u8,
    ) elf.Error!void {
        const text = try std.fmt.allocPrint(self.allocator, message, values);
        try self.findings.append(.{
            .rule = rule,
            .subject = try clean(self.allocator, subject),
            .message = try clean(self.allocator, text),
            .help = help,
        });
    }

    fn symbolVersions(self: *Check) elf.Error!void {
        for (self.library.versions) |version| {
            if (!self.needs(version.library)) try self.add(
                "symbol-version",
                version.name,
                "a version of {s}, which is not a needed library: the loader fails",
                .{version.library},
                "link with that library",
            );
            // Libraries of CUDA and ROCm version their symbols with their own name; `undefined.zig` looks up the
            // releases.
            if (self.policy.isOfGpu(version.library)) continue;
            const family, const limit = self.policy.familyOf(version.name);
            const users = try self.usersOf(version.index);
            switch (self.policy.judge(version.name)) {
                .allowed => {},
                .unknown => try self.add("symbol-version", version.name, "no version of {s} is allowed; needed from {s} by {s}", .{
                    family, version.library, users,
                }, "remove the uses of these symbols, or link the library statically"),
                .private => try self.add("symbol-version", version.name, "not a public version; needed from {s} by {s}", .{
                    version.library, users,
                }, "remove the uses of these symbols"),
                .newer => try self.add(
                    "symbol-version",
                    version.name,
                    "newer than {s}_{s}; needed from {s} by {s}",
                    .{ family, limit.?, version.library, users },
                    "compile and link for an older system, like `driver build`",
                ),
            }
        }
    }

    /// The symbols that need a version, the first few by name.
    fn usersOf(self: *Check, index: u16) elf.Error![]const u8 {
        var text = std.ArrayList(u8).init(self.allocator);
        var count: usize = 0;
        for (self.library.symbols) |symbol| {
            if (symbol.defined or symbol.version != index) continue;
            count += 1;
            if (count > examples_shown) continue;
            if (count > 1) try text.appendSlice(", ");
            try text.writer().print("`{s}`", .{symbol.name});
        }
        if (count == 0) return "no symbol";
        if (count > examples_shown) try text.writer().print(" and {d} more", .{count - examples_shown});
        return text.items;
    }

    fn pythonAbi(self: *Check) elf.Error!void {
        for (self.library.symbols) |symbol| {
            if (symbol.defined or !isOfPython(symbol.name)) continue;
            if (self.wanted.entry == .binding) {
                try self.add("python-abi", symbol.name, "a symbol of Python, in a binding without Python", .{}, "remove its uses");
                continue;
            }
            if (self.python.len > 0) {
                try self.ofOnePython(symbol.name);
                continue;
            }
            const since = self.policy.python.get(symbol.name) orelse {
                try self.add("python-abi", symbol.name, "not in Python's stable ABI", .{}, "use only the limited API");
                continue;
            };
            if (policies.newer(since, self.policy.oldest_python) orelse true) try self.add(
                "python-abi",
                symbol.name,
                "in Python's stable ABI since {s}; the library must load into {s}",
                .{ since, self.policy.oldest_python },
                "use functions of that Python; `Py_LIMITED_API` limits the headers to them",
            );
        }
    }

    fn ofOnePython(self: *Check, symbol: []const u8) elf.Error!void {
        for (self.python) |library| {
            if (library.symbols.contains(symbol)) return;
        }
        try self.add("python-abi", symbol, "{s} does not define it", .{
            self.python[0].release,
        }, "use functions of that Python, or do not build for it");
    }

    fn needed(self: *Check) elf.Error!void {
        for (self.library.needed) |name| {
            if (self.python.len > 0 and common.is(name, "libtorch_python.so")) continue;
            if (!self.policy.allowsLibrary(name)) try self.add(
                "needed-library",
                name,
                "no library of torch or of every Linux system",
                .{},
                "link it statically, or do not use it",
            );
        }
    }

    fn searchPaths(self: *Check) elf.Error!void {
        for (self.library.search_paths) |path| try self.add(
            "search-path",
            path,
            "a search path for libraries in the file (RPATH or RUNPATH)",
            .{},
            "link without `-rpath`; torch has loaded the needed libraries",
        );
    }

    fn uniqueSymbols(self: *Check) elf.Error!void {
        for (self.library.symbols) |symbol| {
            if (symbol.binding == std.elf.STB_GNU_UNIQUE) try self.add(
                "unique-symbol",
                symbol.name,
                "unique in the process (STB_GNU_UNIQUE): two versions of a kernel would share it",
                .{},
                "compile with `-fno-gnu-unique`, or do not export it",
            );
        }
    }

    fn exported(self: *Check) elf.Error!void {
        if (self.wanted.tvm_ffi) return self.exportedToTvmFfi();
        const prefix = if (self.wanted.entry == .binding) "rules_torch_kernels_binding_" else "PyInit_";
        const help = "hide it: `-fvisibility=hidden`, and a version script that exports only the module's function";
        var found = false;
        for (self.library.symbols) |symbol| {
            if (!symbol.defined or symbol.binding == std.elf.STB_LOCAL or !symbol.visible) continue;
            const is_init = std.mem.startsWith(u8, symbol.name, prefix);
            const module = if (is_init) symbol.name[prefix.len..] else "";
            if (is_init and (self.wanted.module == null or common.is(self.wanted.module.?, module))) {
                found = true;
            } else try self.add("exported-symbol", symbol.name, "exported; other libraries could bind to it", .{}, help);
        }
        if (!found and self.wanted.entry != .module) try self.add(
            "init-function",
            try std.fmt.allocPrint(self.allocator, "{s}{s}", .{ prefix, self.wanted.module orelse "*" }),
            "not exported, so Python cannot import the library",
            .{},
            if (self.wanted.entry == .binding)
                "name the module in the source: `PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)`"
            else
                "end the binding with `REGISTER_EXTENSION(TORCH_EXTENSION_NAME)`",
        );
    }

    fn exportedToTvmFfi(self: *Check) elf.Error!void {
        const prefix = "__tvm_ffi_";
        var found = false;
        for (self.library.symbols) |symbol| {
            if (!symbol.defined or symbol.binding == std.elf.STB_LOCAL or !symbol.visible) continue;
            if (std.mem.startsWith(u8, symbol.name, prefix)) {
                found = true;
            } else try self.add(
                "exported-symbol",
                symbol.name,
                "exported; other libraries could bind to it",
                .{},
                "hide it: `-fvisibility=hidden` and a version script with `global: __tvm_ffi_*; local: *;`",
            );
        }
        if (!found) try self.add(
            "init-function",
            prefix ++ "*",
            "not exported, so tvm-ffi finds no function",
            .{},
            "export one in the binding: `TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, function)`",
        );
    }

    fn hardening(self: *Check) elf.Error!void {
        const stack = self.library.segment(std.elf.PT_GNU_STACK);
        if (stack == null or stack.?.flags & std.elf.PF_X != 0) try self.add(
            "executable-stack",
            "PT_GNU_STACK",
            "{s}",
            .{if (stack == null) "missing, so the stack becomes executable" else "requires an executable stack"},
            "link with `-z noexecstack`",
        );
        if (self.library.segment(std.elf.PT_GNU_RELRO) == null) try self.add(
            "relro",
            "PT_GNU_RELRO",
            "missing: relocated data stays writable",
            .{},
            "link with `-z relro`",
        );
        if (!self.library.bind_now) try self.add(
            "relro",
            "BIND_NOW",
            "missing: symbols are bound at the first call, so an undefined symbol fails late and the table stays writable",
            .{},
            "link with `-z now`",
        );
        if (self.library.text_relocations) try self.add(
            "text-relocations",
            "TEXTREL",
            "the loader would have to write into code",
            .{},
            "compile everything with `-fPIC`",
        );
    }

    fn cxxAbi(self: *Check) elf.Error!void {
        const abi = self.wanted.cxx_abi orelse return;
        const new = common.is(abi, "cxx11");
        for (self.library.symbols) |symbol| {
            if (symbol.defined or !mangled.isTorch(symbol.name)) continue;
            const other = if (new) mangled.isCxx98(symbol.name) else mangled.isCxx11(symbol.name);
            if (other) try self.add(
                "cxx-abi",
                symbol.name,
                "torch with the ABI {s} does not have this function",
                .{abi},
                if (new) "compile with `-D_GLIBCXX_USE_CXX11_ABI=1`" else "compile with `-D_GLIBCXX_USE_CXX11_ABI=0`",
            );
        }
    }

    /// Checks that no object has another std::string than the library's ABI: a type that one object returns and another
    /// takes can contain a string that no mangled name shows. Only the objects prove it: a library that needs both
    /// kinds of strings can be correct, because code of libstdc++.a supplies functions that old systems lack. For
    /// example, a move of std::logic_error links cow-stdexcept.o, which needs old strings in any case.
    fn cxxAbiOfObjects(self: *Check) elf.Error!void {
        const abi = self.wanted.cxx_abi orelse return;
        const new = common.is(abi, "cxx11");
        for (self.wanted.objects) |object| {
            var example: ?[]const u8 = null;
            var count: usize = 0;
            for (object.symbols) |symbol| {
                if (!if (new) mangled.isCxx98(symbol.name) else mangled.isCxx11(symbol.name)) continue;
                example = example orelse symbol.name;
                count += 1;
            }
            if (example) |name| try self.add(
                "cxx-abi",
                // Bazel's output directory differs between machines; the path below it has the target and the source.
                object.path[if (std.mem.indexOf(u8, object.path, "/bin/")) |at| at + "/bin/".len else 0..],
                "not compiled for {s}: symbols with the other ABI: {d}, such as `{s}`",
                .{ abi, count, name },
                "leave `_GLIBCXX_USE_CXX11_ABI` to the rules; no source may define it",
            );
        }
    }

    fn torchStableAbi(self: *Check) elf.Error!void {
        const oldest = self.wanted.stable_abi orelse return;
        for (self.library.symbols) |symbol| {
            if (symbol.defined) continue;
            if (mangled.isTorch(symbol.name)) try self.add(
                "torch-stable-abi",
                symbol.name,
                "a C++ symbol of torch; only its C functions are stable",
                .{},
                "include torch/csrc/stable/*.h and torch/headeronly/*.h only",
            );
            const since = self.policy.shims.get(symbol.name) orelse continue;
            if (policies.newer(since, oldest) orelse true) try self.add(
                "torch-stable-abi",
                symbol.name,
                "in torch since {s}; the library must load into {s}",
                .{ since, oldest },
                "do not use it, or raise `stable-abi`",
            );
        }
    }

    /// Whether the library needs another library.
    pub fn needs(self: *const Check, name: []const u8) bool {
        for (self.library.needed) |library| {
            if (common.is(library, name)) return true;
        }
        return false;
    }

    /// The CPU that the library is for.
    pub fn cpu(self: *const Check) []const u8 {
        return self.wanted.cpu orelse self.library.cpu() orelse "x86_64";
    }

    fn gpuCode(self: *Check) elf.Error!void {
        if (self.wanted.code) |wanted| try self.compare(wanted, self.code);
        if (self.wanted.stated) |stated| try self.compare(stated, try device.plain(self.allocator, self.code));
    }

    fn compare(self: *Check, wanted: []const device.Code, found: []const device.Code) elf.Error!void {
        for (wanted) |code| {
            if (!device.has(found, code) and !device.has(self.linkable, code)) try self.add(
                "gpu-code",
                try code.spell(self.allocator),
                "declared, but not in the file",
                .{},
                "compile for it, or remove the declaration",
            );
        }
        for (found) |code| {
            if (!device.has(wanted, code)) try self.add(
                "gpu-code",
                try code.spell(self.allocator),
                "in the file, but not declared",
                .{},
                "declare it, or do not compile for it",
            );
        }
    }
};

/// Whether a symbol's name is that of a symbol of Python.
pub fn isOfPython(symbol: []const u8) bool {
    return std.mem.startsWith(u8, symbol, "Py") or std.mem.startsWith(u8, symbol, "_Py");
}

/// A text of a file, safe to print: characters other than printable ASCII are escaped, and a very long text is cut.
pub fn clean(allocator: std.mem.Allocator, text: []const u8) elf.Error![]const u8 {
    const most = 1000;
    var safe = std.ArrayList(u8).init(allocator);
    for (text[0..@min(text.len, most)]) |c| {
        if (std.ascii.isPrint(c)) try safe.append(c) else try safe.writer().print("\\x{x:0>2}", .{c});
    }
    if (text.len > most) try safe.appendSlice("...");
    return safe.items;
}
