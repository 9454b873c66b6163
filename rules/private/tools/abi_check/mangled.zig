//! Reads mangled C++ names without demangling them: the owner of a function, and the std::string of its parameters.
//! Grammar: Itanium C++ ABI, chapter 5.1.
const std = @import("std");

const namespaces = [_][]const u8{ "2at", "3c10", "5torch", "6caffe2" };

/// The part of a name for a function, a variable, or the class of a vtable or of type information.
fn subject(name: []const u8) ?[]const u8 {
    if (!std.mem.startsWith(u8, name, "_Z")) return null;
    for ([_][]const u8{ "TV", "TI", "TS", "TT", "TH", "TW", "GV" }) |special| {
        if (std.mem.startsWith(u8, name[2..], special)) return name[2 + special.len ..];
    }
    return name[2..];
}

/// The qualified name of a function or variable, without parameters.
pub const Entity = struct {
    /// The identifiers, each behind its length: `2ns4near`; empty for a name that is not mangled.
    path: []const u8 = "",
    last: []const u8 = "",

    pub fn of(name: []const u8) Entity {
        if (!std.mem.startsWith(u8, name, "_Z")) return .{ .last = name };
        const nested = name.len > 2 and name[2] == 'N';
        const rest = std.mem.trimLeft(u8, name[if (nested) 3 else 2..], "rVKROL");
        var found = Entity{};
        var at: usize = 0;
        while (at < rest.len and std.ascii.isDigit(rest[at])) {
            const digits = countDigits(rest[at..]);
            const length = std.fmt.parseInt(usize, rest[at..][0..digits], 10) catch break;
            if (length > rest.len - at - digits) break;
            found.last = rest[at + digits ..][0..length];
            at += digits + length;
            found.path = rest[0..at];
            if (!nested) break;
        }
        return found;
    }

    pub fn isSame(self: Entity, other: Entity) bool {
        return self.path.len > 0 and std.mem.eql(u8, self.path, other.path);
    }
};

/// Whether a name belongs to one of torch's namespaces: a function, a variable, a vtable, type information.
pub fn isTorch(name: []const u8) bool {
    var rest = subject(name) orelse return false;
    if (rest.len == 0 or rest[0] != 'N') return false;
    rest = std.mem.trimLeft(u8, rest[1..], "rVKRO");
    for (namespaces) |namespace| {
        if (std.mem.startsWith(u8, rest, namespace)) return true;
    }
    return false;
}

/// Whether a name has a class of the new library ABI, std::__cxx11::string or list, or the tag of their functions.
pub fn isCxx11(name: []const u8) bool {
    return std.mem.indexOf(u8, name, "7__cxx11") != null or std.mem.indexOf(u8, name, "B5cxx11") != null;
}

/// Whether a name has std::string, std::basic_string or std::list of the old library ABI.
///
/// The letters `Ss` mean std::string only outside of identifiers, so identifiers are skipped. Where the number of a
/// lambda could also be the length of an identifier, the rest of the name is not read. Not distinguished, but rare:
/// operators inside expressions. A suffix behind a dot, such as `.cold`, is not part of the name.
pub fn isCxx98(full_name: []const u8) bool {
    const mangled = subject(full_name) orelse return false;
    const name = mangled[0 .. std.mem.indexOfScalar(u8, mangled, '.') orelse mangled.len];
    var lambda = false;
    var at: usize = 0;
    while (at < name.len) {
        const rest = name[at..];
        if (std.ascii.isDigit(rest[0])) {
            const digits = countDigits(rest);
            if (lambda and name[at - 1] == 'E' and std.mem.startsWith(u8, rest[digits..], "_")) return false;
            const length = std.fmt.parseInt(usize, rest[0..digits], 10) catch return false;
            if (length > rest.len - digits) return false;
            at += digits + length;
        } else if (rest[0] == 'L' and rest.len > 1 and std.ascii.isLower(rest[1])) {
            at += (std.mem.indexOfScalar(u8, rest, 'E') orelse return false) + 1;
        } else if (rest[0] == 'A' and rest.len > 1 and std.ascii.isDigit(rest[1])) {
            at += 1 + countDigits(rest[1..]);
        } else if ((rest[0] == 'C' or rest[0] == 'D') and rest.len > 1 and std.ascii.isDigit(rest[1])) {
            at += 2; // a constructor or destructor
        } else if (std.mem.startsWith(u8, rest, "Dv")) {
            at += 2 + countDigits(rest[2..]);
        } else if (rest[0] == 'S') {
            if (std.mem.startsWith(u8, rest, "Ss") or std.mem.startsWith(u8, rest, "Sb") or
                std.mem.startsWith(u8, rest, "St12basic_stringI") or std.mem.startsWith(u8, rest, "St4listI")) return true;
            at += 1 + sequence(rest[1..]);
        } else if (rest[0] == 'T') {
            at += 1 + sequence(rest[1..]);
        } else if (std.mem.startsWith(u8, rest, "Ul")) {
            lambda = true;
            at += 2;
        } else at += 1;
    }
    return false;
}

fn countDigits(text: []const u8) usize {
    for (text, 0..) |c, i| {
        if (!std.ascii.isDigit(c)) return i;
    }
    return text.len;
}

/// The length of the base-36 number of a substitution or template parameter, with its final `_`.
fn sequence(text: []const u8) usize {
    for (text, 0..) |c, i| {
        if (c == '_') return i + 1;
        if (!std.ascii.isDigit(c) and !std.ascii.isUpper(c)) return 0;
    }
    return 0;
}

test "subjects of names" {
    for ([_][4][]const u8{
        .{ "_Z5scalePfl", "_Z5scalePfi", "5scale", "scale" },
        .{ "_ZN2ns4nearEPNS_1TEi", "_ZNK2ns4nearEv", "2ns4near", "near" },
        .{ "_ZL5scalei", "_Z5scaleIiEvT_", "5scale", "scale" },
    }) |case| {
        const entity = Entity.of(case[0]);
        try std.testing.expect(entity.isSame(Entity.of(case[1])));
        try std.testing.expectEqualStrings(case[2], entity.path);
        try std.testing.expectEqualStrings(case[3], entity.last);
    }
    try std.testing.expectEqualStrings("c_name", Entity.of("c_name").last);
    for ([_][]const u8{ "_Z", "_ZN", "_Z9f", "_ZTV1A", "_Z99999999999999999999999f" }) |name|
        try std.testing.expectEqualStrings("", Entity.of(name).last);
}

test "names of torch" {
    for ([_][]const u8{
        "_ZN2at5emptyEv", "_ZNK3c106Device3strEv", "_ZTVN5torch8autograd4NodeE", "_ZTIN3c105ErrorE", "_ZGVN6caffe21xE",
    }) |name| try std.testing.expect(isTorch(name));
    for ([_][]const u8{ "_ZN5other9elsewhereEv", "_Z1fN2at6TensorE", "at", "_Z", "_ZTV", "_ZN" }) |name|
        try std.testing.expect(!isTorch(name));
}

test "strings of the new library" {
    for ([_][]const u8{
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
        "_ZNKSt13runtime_error4whatB5cxx11Ev",
    }) |name| {
        try std.testing.expect(isCxx11(name));
        try std.testing.expect(!isCxx98(name));
    }
    try std.testing.expect(!isCxx11("_Z8describeSs"));
}

test "strings of the old library" {
    for ([_][]const u8{
        "_Z8describeSs",
        "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs",
        "_ZNSs6assignEPKc",
        "_Z1fSt4listIiSaIiEE",
        "_Z1fSt12basic_stringIwSt11char_traitsIwESaIwEE",
        "_ZTV1AIA3_SsE",
        "_Z1fILi3EEvDv4_fSs",
        "_ZN1AC2ESs.cold",
    }) |name| try std.testing.expect(isCxx98(name));
    for ([_][]const u8{
        "Ss", "_Z", "_Z1fv", "_Z2Ssv", "_ZN7ClassSs1fEv", "_Z1fS_S0_", "_Z1fv.Ss", "_Z9f", "_Z99999999999999999999999f",
    }) |name| try std.testing.expect(!isCxx98(name));
}
