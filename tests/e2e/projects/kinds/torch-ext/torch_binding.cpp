#include <type_traits>
#include <torch/library.h>
#include "registration.h"
#include "k/part.tpp"
extern "C" int first();
// With the extensions of GNU, as with CMake.
static_assert(std::is_integral_v<__int128>);
static int64_t get() { typeof(first()) found = first(); return twice(found); }
TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) { ops.def("get() -> int", &get); }
REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
