// Everything that a binding can have: compiled by the rules, and by torch's own cpp_extension with pybind11, the module
// behaves the same.
#include <torch/extension.h>

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <complex>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace wide {

enum class Mode { Sum = 0, Mean = 1, Max = 5 };

// Signatures as attention kernels have them.
std::vector<at::Tensor> fwd(
    at::Tensor& q,
    const at::Tensor& k,
    std::optional<at::Tensor>& out_,
    const float p,
    const bool causal,
    int window,
    std::optional<at::Generator> generator) {
  at::Tensor out = out_.has_value() ? out_.value() : torch::empty_like(q);
  out.copy_(q * p + k);
  return {out, at::full({1}, window + (causal ? 1 : 0) + (generator.has_value() ? 100 : 0))};
}

void add_(const torch::Tensor& x, torch::Tensor out, int n) {
  out.copy_(x + n);
}

std::tuple<int, torch::Tensor, double> several(torch::Tensor x, const float scale) {
  return {static_cast<int>(x.numel()), x * scale, scale};
}

float scaled(float x, int n) noexcept {
  return x * static_cast<float>(n);
}
torch::Tensor scaled_tensor(torch::Tensor x, int n) {
  return x * n;
}

int64_t fails(const std::string& how) {
  if (how == "invalid") {
    throw std::invalid_argument("an invalid argument");
  }
  if (how == "range") {
    throw std::out_of_range("out of range");
  }
  if (how == "runtime") {
    throw std::runtime_error("a runtime error");
  }
  if (how == "overflow") {
    throw std::overflow_error("an overflow");
  }
  if (how == "value") {
    throw py::value_error("a value error");
  }
  if (how == "index") {
    throw py::index_error("an index error");
  }
  if (how == "type") {
    throw py::type_error("a type error");
  }
  TORCH_CHECK(how != "check", "a check of ", 3);
  TORCH_CHECK_VALUE(how != "check_value", "a check of a value");
  TORCH_CHECK_INDEX(how != "check_index", "a check of an index");
  TORCH_CHECK_NOT_IMPLEMENTED(how != "check_not", "not implemented");
  return at::ones({2}).view({3}).numel();
}

// As a kernel's parameters are.
struct Settings {
  float factor = 0.5f;
  std::array<int, 2> sizes{{1, 2}};
  Mode mode = Mode::Mean;
  double area(double unit) const {
    return sizes[0] * sizes[1] * unit;
  }
};

template <class T>
T same(T value) {
  return value;
}

}  // namespace wide

namespace inner {

int twice(int x) {
  return 2 * x;
}

using namespace py::literals;

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "A wide module";
  m.attr("__version__") = "1.5";
  m.attr("number") = 7;
  m.attr("ratio") = 0.5;
  m.attr("flag") = true;
  m.attr("nothing") = py::none();
  m.attr("wrapped") = py::int_(9);
  m.attr("text") = py::str("a \"text\"\n");

  py::enum_<wide::Mode>(m, "Mode", "How to reduce")
      .value("Sum", wide::Mode::Sum)
      .value("Mean", wide::Mode::Mean, "the mean")
      .value("Max", wide::Mode::Max)
      .export_values();
  m.def("mode_name", [](wide::Mode mode) { return static_cast<int>(mode); }, "The number of a mode", py::arg("mode") = wide::Mode::Mean);
  m.def("mode_of", [](int number) { return static_cast<wide::Mode>(number); });
  m.def("modes", [](const std::vector<wide::Mode>& modes) { return modes; });

  m.def("fwd", &wide::fwd, "Forward pass");
  m.def("add_", &wide::add_, py::arg("x"), py::arg("out"), py::arg("n") = 1);
  m.def("several", &wide::several, "Several results", "x"_a, "scale"_a = 2.0);
  m.def("fails", &wide::fails);
  m.def("twice", &twice);

  // classes.cpp has all that a class can have.
  py::class_<wide::Settings>(m, "Settings", "Settings of a kernel")
      .def(py::init<>())
      .def_readwrite("factor", &wide::Settings::factor)
      .def_readwrite("sizes", &wide::Settings::sizes)
      .def_readwrite("mode", &wide::Settings::mode)
      .def("area", &wide::Settings::area, py::arg("unit") = 1.0);
  m.def("apply", [](const at::Tensor& x, const wide::Settings& settings) { return x * settings.factor; }, py::arg("x"), py::arg("settings"));
  m.def("larger", [](wide::Settings settings) {
    settings.factor *= 2;
    return settings;
  });

  // Overloads, in both orders of what converts.
  m.def("scaled", &wide::scaled, py::arg("x"), py::arg("n"));
  m.def("scaled", &wide::scaled_tensor, "Of a tensor", py::arg("x"), py::arg("n"));
  m.def("kind", py::overload_cast<int64_t>(&wide::same<int64_t>));
  m.def("kind", static_cast<double (*)(double)>(&wide::same<double>));
  m.def("kind", [](const std::string& text) { return text; }, "Of a text");

  // Lambdas.
  int offset = 40;
  m.def("shifted", [offset](int x) { return x + offset; }, py::arg("x"));
  int calls = 0;
  m.def("calls", [calls]() mutable { return ++calls; });

  // Integers of all sizes, and other scalars.
  m.def("i8", &wide::same<int8_t>);
  m.def("u8", &wide::same<uint8_t>);
  m.def("i16", &wide::same<int16_t>);
  m.def("u16", &wide::same<uint16_t>);
  m.def("i32", &wide::same<int32_t>);
  m.def("u32", &wide::same<uint32_t>);
  m.def("i64", &wide::same<int64_t>);
  m.def("u64", &wide::same<uint64_t>);
  m.def("size", &wide::same<size_t>);
  m.def("address", &wide::same<uintptr_t>);
  m.def("f32", &wide::same<float>);
  m.def("f64", &wide::same<double>);
  m.def("boolean", &wide::same<bool>);
  m.def("letter", &wide::same<char>);
  m.def("text_of", &wide::same<std::string>);
  m.def("view_of", [](std::string_view text) { return text.size(); });
  m.def("c_text", [](const char* text) { return text; });
  m.def("complex_of", &wide::same<c10::complex<double>>);

  // Torch's own types.
  m.def("dtype_of", &wide::same<at::ScalarType>, py::arg("dtype") = torch::kFloat16);
  m.def("device_of", &wide::same<c10::Device>);
  m.def("layout_of", [](const at::Tensor& x) { return x.layout(); });
  m.def("scalar_of", [](const at::Scalar& x) { return x.toDouble(); });
  m.def("is_generator", [](std::optional<at::Generator> generator) { return generator.has_value(); }, py::arg("generator") = py::none());
  m.def("undefined", []() { return at::Tensor(); });
  m.def("list_with_undefined", []() { return std::vector<at::Tensor>{at::ones({1}), at::Tensor()}; });
  m.def("identity", [](at::Tensor x) { return x; });

  // Containers.
  m.def("ints", &wide::same<std::vector<int>>);
  m.def("int_ref", [](at::IntArrayRef sizes) { return sizes.vec(); });
  m.def("nested", &wide::same<std::vector<std::vector<float>>>);
  m.def("three", &wide::same<std::array<int, 3>>);
  m.def("pair", &wide::same<std::pair<int, std::string>>);
  m.def("one", [](int x) { return std::make_tuple(x); });
  m.def("triple", &wide::same<std::tuple<int, double, bool>>);
  m.def("tensors", [](std::vector<at::Tensor> xs) { return xs; });
  m.def("optional_tensors", [](std::vector<std::optional<at::Tensor>> xs) { return xs.size(); });
  m.def("table", &wide::same<std::map<std::string, int>>);
  m.def("optional_int", &wide::same<std::optional<int>>, py::arg("x") = py::none());
  m.def("optional_ref", [](const std::optional<at::Tensor>& x) { return x.has_value(); }, py::arg("x") = std::nullopt);
  m.def("optional_const", [](std::optional<const at::Tensor>& x) { return x; });
  m.def("dtype_tuple", [](at::Tensor x) { return std::make_tuple(x.scalar_type(), x.device()); });

  // How arguments are given.
  m.def("defaults", [](int a, double b, bool c, std::string d, std::optional<int> e, std::vector<int> f) {
        return std::to_string(a) + " " + std::to_string(b) + " " + std::to_string(c) + " " + d + " " +
            (e ? std::to_string(*e) : "none") + " " + std::to_string(f.size());
      },
      py::arg("a") = 1, py::arg("b") = 1e-6, py::arg("c") = true, py::arg("d") = "text", py::arg("e") = std::optional<int>(),
      py::arg("f") = std::vector<int>{1, 2});
  m.def("described", &wide::same<int>, py::arg_v("x", 3, "THREE"));
  m.def("keywords", [](int a, int b) { return 10 * a + b; }, py::arg("a"), py::kw_only(), py::arg("b") = 2);
  m.def("positional", [](int a, int b) { return 10 * a + b; }, py::arg("a"), py::pos_only(), py::arg("b") = 2);
  m.def("strict", &wide::same<double>, py::arg("x").noconvert());
  m.def("no_none", &wide::same<std::optional<int>>, py::arg("x").none(false));
  m.def("without_lock", [](at::Tensor x) { return x + 1; }, py::call_guard<py::gil_scoped_release>());
  m.def("released", [](at::Tensor x) {
    py::gil_scoped_release release;
    return x + 2;
  });
  m.def("policy", [](at::Tensor x) { return x; }, py::return_value_policy::move);

  auto below = m.def_submodule("below", "A submodule");
  below.def("twice", &twice, "Doubles", py::arg("x"));
  below.attr("level") = 1;
  m.attr("also_twice") = m.attr("twice");
}

}  // namespace inner
