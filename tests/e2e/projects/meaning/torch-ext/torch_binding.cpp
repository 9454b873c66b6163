#include <torch/all.h>

#include <string>

#include "registration.h"

#ifdef CPU_KERNEL
const char* d21(float* x, int64_t n);
void d03(const torch::Tensor& t);
int c1();
int count(const char*) { return 1; }
int count(const char*, const char*) { return 2; }

std::string parallel(const torch::Tensor& x) { return d21(x.data_ptr<float>(), x.numel()); }

// Writes the file `x.bin` if torch::save is called.
void save(const torch::Tensor& x) { d03(x); }

int64_t strings() { return c1(); }
#else
void launch(const torch::Tensor& x);
#endif

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
#ifdef CPU_KERNEL
  ops.def("parallel(Tensor x) -> str", &parallel);
  ops.def("save(Tensor x) -> ()", &save);
  ops.def("strings() -> int", &strings);
#else
  ops.def("launch(Tensor x) -> ()", &launch);
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
