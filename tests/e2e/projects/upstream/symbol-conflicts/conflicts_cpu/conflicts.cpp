#include <cstdint>

// A static in an inline function is one for the whole process (STB_GNU_UNIQUE) where its library exports it.
template <typename T>
struct Counter {
  static T& value() {
    static T kept = 0;
    return kept;
  }
};

int64_t count() { return ++Counter<int64_t>::value(); }
