#include <torch/all.h>
#include <torch/library.h>

#include <c10/util/Type.h>

#include "registration.h"
#include "types.h"

// As in kernels that are copied from ATen.
namespace at::native {
namespace {
struct Tensors : torch::CustomClassHolder {
  Padding padding;
  int64_t at = 100 * VERSION;
  int64_t next() { return ++at; }
};
}  // namespace
}  // namespace at::native

namespace {

struct Hidden : torch::CustomClassHolder {
  Padding padding;
  int64_t at = 100 * VERSION;
  int64_t next() { return ++at; }
};

template <typename T>
c10::intrusive_ptr<T> make() {
  return c10::make_intrusive<T>();
}

template <typename T>
int64_t step(const c10::intrusive_ptr<T>& object) {
  return object->next();
}

template <typename T>
void bind(torch::Library& ops, const std::string& name) {
  ops.class_<T>(name).def(torch::init<>()).def("next", &T::next);
  ops.def(("make_" + name).c_str(), &make<T>);
  ops.def(("step_" + name).c_str(), &step<T>);
}

// What an object of any class has for a value, if it is a Named of this version.
int64_t value_of(const c10::IValue& object) {
  const auto holder = object.toObjectRef().getSlot(0).toCapsule();
  const auto* named = dynamic_cast<const Named*>(holder.get());
  return named ? named->at : -1;
}

// What must be as without any of this: each that is not adds its name.
std::string wrong() {
  std::string said;
  const auto check = [&](bool is_right, const char* what) {
    if (!is_right) said += std::string(said.empty() ? "" : ", ") + what;
  };
  const auto caught = [](auto what, auto type) {
    using T = decltype(type);
    try {
      what();
    } catch (const T&) {
      return true;
    } catch (...) {
    }
    return false;
  };
  check(caught(throw_failure, Failure()), "own error");
  check(caught(throw_failure, std::runtime_error("")), "own error by its base");
  check(caught(throw_kind, Kind::none), "an enumeration");
  const auto of_torch = [] { torch::ones({2}) + torch::ones({3}); };
  try {
    of_torch();
    check(false, "no error of torch");
  } catch (const c10::Error& error) {
    check(typeid(error) == typeid(c10::Error), "the type of an error of torch");
  } catch (...) {
    check(false, "an error of torch");
  }
  try {
    torch::ones({2})[2];
    check(false, "no index error");
  } catch (const c10::IndexError&) {
  } catch (...) {
    check(false, "an index error");
  }
  for (const auto& [what, type] : std::map<std::string, const std::type_info*>{
           {"named", &typeid(Named)},
           {"box", &typeid(Box<std::vector<Named>>)},
           {"opaque", &typeid(Opaque*)},
           {"function", &typeid(std::function<void(const Named&, Kind)>)},
           {"tensor", &typeid(at::Tensor)}}) {
    const auto& other = type_in_other_file(what);
    check(*type == other, what.c_str());
    check(type->hash_code() == other.hash_code(), "a hash");
    check(std::type_index(*type) == std::type_index(other), "an index");
    check(std::string(type->name()) == other.name(), "a name");
    check(!type->before(other) && !other.before(*type), "an order");
  }
  check(typeid(Hidden) != type_in_other_file("hidden"), "two hidden types");
  check(typeid(Named) != typeid(Box<Named>), "two types");
  // A name has the id of the kernel as a tag.
  const std::string tag = "[abi:" C10_STRINGIZE(TORCH_EXTENSION_NAME) "]";
  check(c10::demangle(typeid(Named).name()) == "Named" + tag, "the name");
  check(c10::demangle(typeid(Box<int>).name()) == "Box" + tag + "<int>", "the name of a template");
  // An object's type is looked up under what the compiler knows.
  std::map<std::type_index, int> known{{typeid(Named), 1}, {typeid(Box<int>), 2}};
  std::unordered_map<std::type_index, int> hashed{{typeid(Named), 1}, {typeid(Box<int>), 2}};
  Named named;
  const torch::CustomClassHolder& object = named;
  check(known.count(typeid(object)) == 1 && known[typeid(object)] == 1, "an ordered index");
  check(hashed.count(typeid(object)) == 1 && hashed[typeid(object)] == 1, "a hashed index");
  check(dynamic_cast<const Named*>(&object) == &named, "a cast");
  check(std::any_cast<int64_t>(any_in_other_file()) == 100 * VERSION, "an any");
  check(std::any_cast<Kind>(std::any(Kind::some)) == Kind::some, "an any of an own type");
  std::function<int64_t(const Named&)> function = [](const Named& one) { return one.at; };
  check(function.target<int>() == nullptr, "a function");
  // torch compares the type of a function with that under which it has an operator.
  try {
    c10::Dispatcher::singleton()
        .findSchemaOrThrow("aten::add", "Tensor")
        .typed<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Scalar&)>();
  } catch (const c10::Error&) {
    check(false, "the type of an operator of torch");
  }
  check(hidden_in_other_file() == 1000 * VERSION, "what is hidden in the other file");
  return said;
}

void fail(const std::string& how) {
  if (how == "own") throw_failure();
  TORCH_CHECK_VALUE(how != "value", "a bad value");
  TORCH_CHECK_INDEX(how != "index", "a bad index");
  TORCH_CHECK(false, "an error");
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  struct Local : torch::CustomClassHolder {
    Padding padding;
    int64_t at = 100 * VERSION;
    int64_t next() { return ++at; }
  };
  bind<Named>(ops, "Named");
  bind<Hidden>(ops, "Hidden");
  bind<Box<std::vector<Named>>>(ops, "Box");
  bind<Box<Hidden>>(ops, "BoxOfHidden");
  bind<at::native::Tensor>(ops, "Native");
  bind<at::native::Tensors>(ops, "HiddenNative");
  bind<Local>(ops, "Local");
  ops.def("value_of", &value_of);
  ops.def("wrong", &wrong);
  ops.def("fail", &fail);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
