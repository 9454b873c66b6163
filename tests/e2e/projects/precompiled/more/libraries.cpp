/* a comment */
#include <torch/extension.h>
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
static int CAT(x, __COUNTER__) = __COUNTER__;
const char* where() { return __FILE__ __BASE_FILE__; }
TORCH_LIBRARY(precompiled_libraries, m) { m.def("a(Tensor x) -> Tensor"); }
TORCH_LIBRARY_FRAGMENT(precompiled_libraries, m) { m.def("b(Tensor x) -> Tensor"); }
int counter() { TORCH_CHECK(__COUNTER__ >= 0, "message ", __LINE__, __INCLUDE_LEVEL__, __func__); TORCH_WARN_ONCE("once"); return __COUNTER__ + __LINE__ + (int)where()[0]; }
