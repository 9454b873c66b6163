// PYBIND11_MODULE without Python. The functions of a module become ops of torch when the module's Python file asks for
// them, in a namespace that no other library has; the file makes Python functions of what it is told (_binding.py.template).
#pragma once
#pragma GCC system_header

// For a GPU, with fewer of torch's headers, a source that names nothing of a binding does without: see needed.bzl.
#if defined(__CUDA_ARCH__) && defined(TORCH_KERNELS_NEEDED) && !defined(TORCH_KERNELS_LIBRARY)
namespace pybind11 {}
namespace py = pybind11;
#else

#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

#include "names.h"

// The id of the kernel, which the build links.
extern "C" __attribute__((visibility("hidden"))) const char rules_torch_kernels_id[];

namespace rules_torch_kernels {
namespace binding {

// The namespace for a module of a kernel: `pkg._C` becomes `<id>_pkg___C`.
inline std::string namespace_of(std::string_view module) {
  std::string name = rules_torch_kernels_id;
  name += "_";
  for (const char c : module) {
    name += c == '.' ? std::string("__") : std::string(1, c);
  }
  return name;
}

// The name of an op: that of the function, where it is the name of an op for torch too.
inline std::string op_name(const std::string& scope, const std::string& name) {
  std::string op = scope.empty() ? name : scope + "_" + name;
  bool plain = op.substr(0, 2) != "__" && !op.empty() && !(op[0] >= '0' && op[0] <= '9');
  for (char& c : op) {
    const bool allowed = c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    c = allowed ? c : '_';
  }
  return plain ? op : "op_" + op;
}

// Where a function is called besides the keys of devices and of autograd, which it has without a word: as a function of C++
// it sees its arguments first, and what modes, transformations and classes of tensors do, they do to the ops that it calls.
inline constexpr const char* keys[] = {
    "FuncTorchDynamicLayerFrontMode",
    "PreDispatch",
    "FuncTorchVmapMode",
    "FuncTorchBatched",
    "FuncTorchBatchedDecomposition",
    "FuncTorchGradWrapper",
    "FuncTorchDynamicLayerBackMode",
    "VmapMode",
    "Batched",
    "Tracer",
    "Functionalize",
    "Named",
    "Conjugate",
    "Negative",
    "ZeroTensor",
    "Python",
};

// Those of them that this release of torch has.
inline std::vector<c10::DispatchKey> keys_here() {
  std::vector<c10::DispatchKey> here;
  for (const char* name : keys) {
    try {
      here.push_back(c10::parseDispatchKey(name));
    } catch (const c10::Error&) {
    }
  }
  return here;
}

// Registers the functions of a module, and says in JSON what it has.
inline std::string registered(const char* name, const char* module, void (*define)(pybind11::module_&)) {
  Definitions definitions;
  pybind11::module_ root(definitions, "");
  define(root);
  // The same library may be loaded from two places: each has its ops.
  static constexpr const char* mark = "rules_torch_kernels_binding";
  const std::string base = namespace_of(module);
  std::string space = base;
  for (int copy = 2; c10::Dispatcher::singleton().findOp({space + "::" + mark, ""}).has_value(); ++copy) {
    space = base + "_" + std::to_string(copy);
  }
  auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, space, std::nullopt, __FILE__, __LINE__);
  library->def(c10::FunctionSchema(mark, "", {}, {}));
  std::set<std::string> taken{mark};
  std::vector<std::string> functions;
  for (auto& function : definitions.functions) {
    const std::string op = op_name(function.scope, function.name);
    std::string overload;
    for (int number = 2; !taken.insert(op + "." + overload).second; ++number) {
      overload = "overload" + std::to_string(number);
    }
    library->def(c10::FunctionSchema(op, overload, std::move(function.arguments), std::move(function.results)));
    const std::string full = overload.empty() ? op : op + "." + overload;
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedKernel(function.kernel));
    for (const c10::DispatchKey dispatch_key : keys_here()) {
      library->impl(full.c_str(), torch::dispatch(dispatch_key, torch::CppFunction::makeFromBoxedKernel(function.kernel)));
    }
    functions.push_back("{" + joined({function.json, key("op", json_text(op)), key("overload", json_text(overload))}) + "}");
  }
  auto next = functions.begin();
  for (auto& item : definitions.items) {
    if (item.empty()) {
      item = *next++;
    }
  }
  // It stays registered: a module is not unloaded.
  library.release();
  const auto address = [](auto* function) { return std::to_string(reinterpret_cast<uintptr_t>(function)); };
  return "{" +
      joined({key("retain", address(&retain)), key("release", address(&release)), key("type_of", address(&type_of)),
              key("name", json_text(name)), key("namespace", json_text(space)), key("doc", json_text(definitions.doc)),
              key("items", "[" + joined(definitions.items) + "]")}) +
      "}";
}

// What the exported function returns: JSON, or `!` and what is wrong.
inline const char* bound(const char* name, const char* module, void (*define)(pybind11::module_&)) {
  static std::mutex once;
  static std::string text;
  const std::lock_guard<std::mutex> guard(once);
  if (text.empty()) {
    try {
      text = registered(name, module, define);
    } catch (const c10::Error& problem) {
      text = std::string("!") + problem.what_without_backtrace();
    } catch (const std::exception& problem) {
      text = std::string("!") + problem.what();
    } catch (...) {
      text = "!an exception of an unknown type";
    }
  }
  return text.c_str();
}

}  // namespace binding
}  // namespace rules_torch_kernels

namespace py = pybind11;

#define RULES_TORCH_KERNELS_BINDING_CONCAT_(A, B) A##B
#define RULES_TORCH_KERNELS_BINDING_CONCAT(A, B) RULES_TORCH_KERNELS_BINDING_CONCAT_(A, B)
#define RULES_TORCH_KERNELS_BINDING_STRING_(A) #A
#define RULES_TORCH_KERNELS_BINDING_STRING(A) RULES_TORCH_KERNELS_BINDING_STRING_(A)

// The name of the exported function has the module's name in it, as that of Python's PyInit function has.
#define PYBIND11_MODULE(NAME, MODULE, ...)                                                                         \
  static void RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME)(::pybind11::module_&);         \
  extern "C" __attribute__((visibility("default"))) const char* RULES_TORCH_KERNELS_BINDING_CONCAT(                \
      rules_torch_kernels_binding_, NAME)(const char* module) {                                                    \
    return ::rules_torch_kernels::binding::bound(                                                                  \
        RULES_TORCH_KERNELS_BINDING_STRING(NAME),                                                                  \
        module,                                                                                                    \
        &RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME));                                   \
  }                                                                                                                \
  static void RULES_TORCH_KERNELS_BINDING_CONCAT(rules_torch_kernels_define_, NAME)(                               \
      [[maybe_unused]] ::pybind11::module_ & MODULE)

#define PYBIND11_OVERLOAD_CAST(...) ::pybind11::overload_cast<__VA_ARGS__>
#define PYBIND11_MAKE_OPAQUE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_MAKE_OPAQUE"))
#define PYBIND11_DECLARE_HOLDER_TYPE(...) static_assert(true, "")
#define PYBIND11_OVERRIDE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE"))
#define PYBIND11_OVERRIDE_PURE(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_PURE"))
#define PYBIND11_OVERRIDE_NAME(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_NAME"))
#define PYBIND11_OVERRIDE_PURE_NAME(...) static_assert(false, RULES_TORCH_KERNELS_REFUSED("PYBIND11_OVERRIDE_PURE_NAME"))
#define PYBIND11_EXPORT __attribute__((visibility("default")))
#define PYBIND11_NAMESPACE pybind11
#define PYBIND11_STRINGIFY(A) #A
#define PYBIND11_TOSTRING(A) PYBIND11_STRINGIFY(A)

namespace torch {

// A function that `m.def` is given with this runs as it is.
template <class F>
auto wrap_pybind_function(F&& function) {
  return std::forward<F>(function);
}

// The same without the lock that stands for the GIL.
template <class R, class... A>
auto wrap_pybind_function_no_gil(R (*function)(A...)) {
  return [function](A... arguments) -> R {
    pybind11::gil_scoped_release released;
    return function(std::forward<A>(arguments)...);
  };
}

}  // namespace torch

#endif
