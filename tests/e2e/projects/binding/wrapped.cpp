// Functions with torch's handling of errors, and the same without.
#include <torch/csrc/utils/pybind.h>
#include <torch/extension.h>

#include <functional>
#include <future>
#include <new>

namespace {

struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

int64_t fails(const std::string& how) {
  if (how == "out_of_range") {
    throw std::out_of_range("out of range");
  }
  if (how == "invalid_argument") {
    throw std::invalid_argument("an invalid argument");
  }
  if (how == "domain_error") {
    throw std::domain_error("a domain");
  }
  if (how == "length_error") {
    throw std::length_error("a length");
  }
  if (how == "range_error") {
    throw std::range_error("a range");
  }
  if (how == "overflow_error") {
    throw std::overflow_error("an overflow");
  }
  if (how == "bad_alloc") {
    throw std::bad_alloc();
  }
  if (how == "runtime_error") {
    throw std::runtime_error("a runtime error");
  }
  if (how == "registered") {
    throw Problem("a problem");
  }
  if (how == "number") {
    throw 3;
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
  TORCH_CHECK_TYPE(how != "check_type", "a check of a type");
  TORCH_CHECK_NOT_IMPLEMENTED(how != "check_not", "not implemented");
  if (how == "view") {
    at::ones({2}).view({3});
  }
  return static_cast<int64_t>(how.size());
}

int64_t warns(int64_t count, const std::string& how) {
  for (int64_t i = 0; i < count; ++i) {
    TORCH_WARN("warning ", i);
    TORCH_WARN_DEPRECATION("deprecated ", i);
  }
  c10::warn(c10::Warning(c10::UserWarning(), {"f", "place.cpp", 7}, "as it is", how == "verbatim"));
  return fails(how);
}

struct Counter {
  int64_t count = 5;
  int64_t add(int64_t more) {
    TORCH_WARN("added");
    return count += more;
  }
  int64_t get() const {
    return count;
  }
};

int64_t again(int64_t count) {
  const auto wrapped = torch::wrap_pybind_function(&warns);
  const int64_t size = wrapped(count, "inner");
  TORCH_WARN("outer");
  return size;
}

// How far a function came that calls a wrapped one: an exception of a warning leaves it where it is raised.
int64_t reached = 0;

int64_t inner(int64_t count, const std::string& how) {
  const auto wrapped = torch::wrap_pybind_function(&warns);
  reached = 1;
  const int64_t size = wrapped(count, how);
  reached = 2;
  return size;
}

int64_t caught(int64_t count) {
  try {
    return inner(count, "caught");
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  py::register_exception<Problem>(m, "Problem");
  m.def("fails", torch::wrap_pybind_function(fails), "Fails");
  m.def("fails_without_lock", torch::wrap_pybind_function_no_gil(fails));
  m.def("fails_plain", &fails);
  m.def("warns", torch::wrap_pybind_function(&warns), py::arg("count"), py::arg("how") = "");
  m.def("warns_without_lock", torch::wrap_pybind_function_no_gil(&warns), py::arg("count"), py::arg("how") = "");
  m.def("warns_plain", &warns, py::arg("count"), py::arg("how") = "");
  m.def("warns_strict", torch::wrap_pybind_function(&warns), py::arg("count").noconvert(), py::kw_only(), py::arg("how") = "");
  m.def("again", torch::wrap_pybind_function(again));
  int64_t calls = 0;
  // What torch returns of a tensor where a warning is an exception is lost: a number here.
  m.def("anonymous", torch::wrap_pybind_function([calls](at::Tensor& x) {
        TORCH_WARN_DEPRECATION("of a lambda");
        x.add_(1);
        return x.numel() + calls;
      }));
  m.def("inner", &inner, py::arg("count"), py::arg("how") = "");
  m.def("caught", &caught);
  m.def("reached", [] { return reached; });
  m.def("of_lambda", [](int64_t count) { return inner(count, "lambda") + 1; });
  m.def("of_function", std::function<int64_t(int64_t)>([](int64_t count) { return inner(count, "function"); }));
  m.def("of_other_thread", [](int64_t count) {
    const py::gil_scoped_release released;
    return std::async(std::launch::async, [count] { return inner(count, "thread"); }).get();
  });
  py::class_<Counter>(m, "Counter")
      .def(py::init<>())
      .def(py::init([](int64_t count) { return Counter{inner(count, "init")}; }))
      .def("add", torch::wrap_pybind_function(&Counter::add), py::arg("more") = 1)
      .def("add_without_lock", torch::wrap_pybind_function_no_gil(&Counter::add))
      .def("get", torch::wrap_pybind_function(&Counter::get))
      .def_property_readonly("count", torch::wrap_pybind_function([](const Counter& counter) {
        TORCH_WARN("got");
        return counter.count;
      }))
      .def("inner", [](const Counter& counter, int64_t count) { return counter.count + inner(count, "method"); })
      .def_property_readonly("warned", [](const Counter& counter) { return counter.count + inner(1, "property"); })
      .def_static("inner_static", [](int64_t count) { return inner(count, "static"); })
      .def_static("warns", torch::wrap_pybind_function([] { TORCH_WARN("static"); }));
}
