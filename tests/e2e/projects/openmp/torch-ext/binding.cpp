#include <torch/library.h>

#include "dot.h"
#include "registration.h"

#ifdef CPU_KERNEL
void tiles(char *data, long count);

namespace {

void multiply(at::Tensor &data) { tiles(static_cast<char *>(data.data_ptr()), data.nbytes() / 1024); }

}  // namespace
#else
int64_t devices();
#endif

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("dot(Tensor a, Tensor b) -> float", &dot);
  ops.def("threads() -> int", &threads);
  ops.def("team() -> int", &team);
#ifdef CPU_KERNEL
  ops.def("tiles(Tensor(a!) data) -> ()", &multiply);
#else
  ops.def("devices() -> int", &devices);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
