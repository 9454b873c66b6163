// A comment, and then what many sources begin with.
#include <torch/extension.h>

at::Tensor sin_add(at::Tensor x, at::Tensor y) { return x.sin() + torch::softmax(y, 0); }
at::Tensor all_types(std::vector<at::Tensor> tensors, double scale);
int64_t after(int64_t x);
at::Tensor own(at::Tensor x);
std::string special(int64_t x);
std::string words(const std::string& text);

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("sin_add", &sin_add, "adds", py::arg("x"), py::arg("y"));
  m.def("all_types", &all_types);
  m.def("after", &after);
  m.def("own", &own);
  m.def("special", &special);
  m.def("words", &words);
}
