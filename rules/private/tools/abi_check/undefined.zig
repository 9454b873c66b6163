//! The rule of the ABI check about undefined symbols: a library that is already loaded must define them.
const std = @import("std");
const common = @import("common");
const elf = @import("elf.zig");
const libraries = @import("libraries.zig");
const mangled = @import("mangled.zig");
const rules = @import("rules.zig");
const tables = @import("exports.zig");

const Check = rules.Check;

/// The rule's name.
pub const name = "undefined-symbol";

/// Checks each undefined symbol, except Python's, which have a rule of their own.
pub fn check(work: *Check) elf.Error!void {
    const torch = Torch.of(work);
    for (work.library.symbols) |symbol| {
        if (symbol.defined or symbol.binding == std.elf.STB_LOCAL or rules.isOfPython(symbol.name)) continue;
        if (versionOf(work, symbol)) |version| {
            try versioned(work, symbol.name, version);
        } else if (work.wanted.tvm_ffi or torch != null) try unversioned(work, symbol, torch);
    }
}

/// The symbol version, if it is one of a system library. The libraries of CUDA and ROCm version their symbols with
/// their own name; the releases with such a symbol are looked up by its name.
fn versionOf(work: *const Check, symbol: elf.Symbol) ?elf.Version {
    if (symbol.version <= 1) return null;
    for (work.library.versions) |version| {
        if (version.index == symbol.version) return if (work.policy.isOfGpu(version.library)) null else version;
    }
    return null;
}

/// Checks a symbol with a version; `symbolVersions` has reported versions that are not allowed.
fn versioned(work: *Check, symbol: []const u8, version: elf.Version) elf.Error!void {
    if (work.policy.judge(version.name) != .allowed or !work.system.knows(work.cpu(), version.library)) return;
    if (work.system.defines(work.cpu(), symbol, version.name)) return;
    try work.add(name, symbol, "no system library defines it in version {s}, which is needed from {s}", .{
        version.name, version.library,
    }, "use functions of the oldest supported system; `driver build` links against its libraries");
}

/// Checks a symbol without a version: torch, or a library of the system, CUDA or ROCm must define it.
fn unversioned(work: *Check, symbol: elf.Symbol, torch: ?Torch) elf.Error!void {
    const weak = symbol.binding == std.elf.STB_WEAK;
    if (weak and work.policy.isKnownWeak(symbol.name)) return;
    if (try isOfSystem(work, symbol.name)) return;
    if (weak and !mayBeOfGpu(work, symbol.name) and (torch == null or !torch.?.hasEver(symbol.name))) return work.add(
        name,
        symbol.name,
        "a weak symbol that no library defines: its address is zero",
        .{},
        "add the source that defines it to `src`, or remove its uses",
    );
    if (weak) return;
    if ((work.wanted.gpu or work.wanted.tvm_ffi) and try isOfGpuLibrary(work, symbol.name)) return;
    if (torch) |release| return release.check(work, symbol.name);
    const of_torch = mangled.isTorch(symbol.name);
    try work.add(
        name,
        symbol.name,
        "{s}",
        .{if (of_torch) "torch defines it, but is not loaded for tvm-ffi" else "no library defines it"},
        advice(symbol.name),
    );
}

/// The help for a symbol that no library defines. `__kmpc_*` are functions of LLVM's OpenMP;
/// rules/private/include/openmp.c has a part of them.
fn advice(symbol: []const u8) []const u8 {
    return if (std.mem.startsWith(u8, symbol, "__kmpc_"))
        "host code of GPU sources cannot use this part of OpenMP: move it to a .cpp file"
    else
        "add the source that defines it to `src`, or remove the call";
}

/// The symbols of a release of torch, if they are recorded.
const Torch = struct {
    version: []const u8,
    table: *const tables.Exports,
    /// The same for libtorch_python.so, if the library may need it.
    python: ?*const tables.Exports,
    /// The columns of the release, and the relevant ones of these.
    of_release: tables.Mask,
    columns: tables.Mask,
    /// Whether the columns are for the library's C++ ABI.
    of_abi: bool,

    fn of(work: *const Check) ?Torch {
        if (work.wanted.tvm_ffi) return null;
        const version = work.wanted.torch orelse return null;
        const table = if (work.exports) |*exports| exports else return null;
        const wheel = work.wanted.torch_wheel;
        const of_release = table.of(version, wheel, null, work.wanted.gpu);
        if (of_release == 0) return null;
        const of_abi = table.of(version, wheel, work.wanted.cxx_abi, work.wanted.gpu);
        return .{
            .version = version,
            .table = table,
            .python = if (work.torch_python) |*exports| exports else null,
            .of_release = of_release,
            .columns = if (of_abi == 0) of_release else of_abi,
            .of_abi = of_abi != 0,
        };
    }

    /// Whether any release defines a symbol: a library may call it only where it exists.
    fn hasEver(self: *const Torch, symbol: []const u8) bool {
        return self.table.definers(symbol) != 0 or (if (self.python) |python| python.definers(symbol) != 0 else false);
    }

    fn check(self: *const Torch, work: *Check, symbol: []const u8) elf.Error!void {
        // The exports of ROCm builds of torch are not recorded: they are those of a CUDA build, except HIP's types.
        const of_hip = mangled.isTorch(symbol) and std.mem.indexOf(u8, symbol, "hip") != null;
        if (work.wanted.rocm and of_hip) return;
        // For some releases only the build with the other C++ ABI is recorded, which has other names for these symbols.
        if (!self.of_abi and (mangled.isCxx11(symbol) or mangled.isCxx98(symbol))) return;
        if (self.python) |python| {
            if (python.definers(symbol) & python.of(self.version, work.wanted.torch_wheel, null, true) != 0) return;
        }
        const definers = self.table.definers(symbol);
        if (definers & self.columns != 0) return;
        const elsewhere = self.table.of(self.version, null, null, work.wanted.gpu) & ~self.of_release;
        const others = try self.table.releases(work.allocator, definers & ~self.of_release);
        if (definers & elsewhere != 0) {
            try work.add(name, symbol, "torch {s} defines it for another CPU only", .{
                self.version,
            }, "use functions that torch has on every CPU of the build");
        } else if (others.len > 0) {
            try work.add(name, symbol, "torch {s} does not define it; these releases do: {s}", .{
                self.version, others,
            }, "use functions of all releases of the build, or limit the releases with `minver` and `maxver`");
        } else if (definers & self.of_release != 0 or mangled.isTorch(symbol)) {
            try work.add(name, symbol, "no loaded library of torch {s} defines it", .{
                self.version,
            }, "use functions that torch exports; it does not export internal functions");
        } else try work.add(
            name,
            symbol,
            "no library defines it",
            .{},
            advice(symbol),
        );
    }
};

/// Whether a loaded library of the system defines a symbol: a needed library, the C library, the loader, or a library
/// that torch needs.
fn isOfSystem(work: *Check, symbol: []const u8) elf.Error!bool {
    const library = work.system.definer(work.cpu(), symbol) orelse return false;
    const always = std.mem.startsWith(u8, library, "libc.") or std.mem.startsWith(u8, library, "ld-linux");
    const by_torch = !work.wanted.tvm_ffi and !std.mem.startsWith(u8, library, "libmvec.");
    if (!always and !by_torch and !work.needs(library)) try work.add(
        name,
        symbol,
        "{s} defines it, but is not a needed library",
        .{library},
        "link with that library; `driver build` links with each library that is called",
    );
    return true;
}

fn mayBeOfGpu(work: *const Check, symbol: []const u8) bool {
    return work.wanted.gpu and work.policy.libraryLike(symbol) != null;
}

/// Whether a library of CUDA or ROCm defines a symbol, even a library that is not needed.
fn isOfGpuLibrary(work: *Check, symbol: []const u8) elf.Error!bool {
    var definer: ?libraries.Library = null;
    for (work.gpu_libraries) |library| {
        if (!library.symbols.contains(symbol)) continue;
        if (work.needs(library.name)) return true;
        definer = library;
    }
    if (definer) |library| {
        try work.add(name, symbol, "{s} of {s} defines it, but is not a needed library", .{
            library.name, library.release,
        }, "link with that library; `driver build` links with each library that is called");
        return true;
    }
    const like = work.policy.libraryLike(symbol) orelse return false;
    for (work.library.needed) |needed| {
        if (!like.is(needed) or isRecorded(work, needed)) continue;
        try work.notes.append(try std.fmt.allocPrint(work.allocator, "{s}: probably in {s}, whose symbols are not recorded", .{
            try rules.clean(work.allocator, symbol), try rules.clean(work.allocator, needed),
        }));
        return true;
    }
    for (work.gpu_libraries) |library| {
        if (like.is(library.name)) return false;
    }
    try work.add(name, symbol, "{s} may define it, but is not a needed library, and its symbols are not recorded", .{
        std.mem.trimRight(u8, like.name, ".#"),
    }, "remove the call, or record the library: `libraries` of the release in the matrix, see docs/toolchains.md");
    return true;
}

fn isRecorded(work: *const Check, soname: []const u8) bool {
    for (work.gpu_libraries) |library| {
        if (common.is(library.name, soname)) return true;
    }
    return false;
}
