// What the headers beside this file declare and do not define: compiled once for a release of torch, and linked to each
// module that has a binding.
#include <torch/csrc/jit/runtime/jit_exception.h>
#include <torch/extension.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <mutex>

// The id of the kernel, which the build links.
extern "C" __attribute__((visibility("hidden"))) const char rules_torch_kernels_id[];

namespace rules_torch_kernels {
namespace binding {

// Of JSON.

std::string json_text(std::string_view text) {
  std::string spelled = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == '"' || byte == '\\') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      spelled += escape;
    } else {
      spelled += c;
    }
  }
  return spelled + '"';
}

Json& Json::item(std::string_view json) {
  if (!text_.empty()) {
    text_ += ',';
  }
  text_ += json;
  return *this;
}

Json& Json::text_item(std::string_view text) {
  return item(json_text(text));
}

Json& Json::key(std::string_view name, std::string_view json) {
  text_item(name);
  text_ += ':';
  text_ += json;
  return *this;
}

Json& Json::text(std::string_view name, std::string_view value) {
  return key(name, json_text(value));
}

Json& Json::text(std::string_view name, const char* value) {
  return key(name, value == nullptr ? "null" : json_text(value));
}

Json& Json::flag(std::string_view name, bool value) {
  return key(name, value ? "true" : "false");
}

Json& Json::number(std::string_view name, int64_t value) {
  return key(name, std::to_string(value));
}

std::string Json::object() const {
  return "{" + text_ + "}";
}

std::string Json::list() const {
  return "[" + text_ + "]";
}

std::string tagged(std::string_view tag, std::string_view json) {
  return Json().key(tag, json).object();
}

std::string real(double value) {
  if (std::isnan(value)) {
    return "NaN";
  }
  if (std::isinf(value)) {
    return value > 0 ? "Infinity" : "-Infinity";
  }
  char text[40];
  std::snprintf(text, sizeof(text), "%.17g", value);
  const std::string spelled = text;
  return spelled.find_first_of(".e") == std::string::npos ? spelled + ".0" : spelled;
}

// Of the lock.

namespace {

std::atomic<std::recursive_timed_mutex*>& mutex() {
  static std::atomic<std::recursive_timed_mutex*> shared{new std::recursive_timed_mutex};
  return shared;
}

std::atomic<pid_t>& owner() {
  static std::atomic<pid_t> process{getpid()};
  return process;
}

}  // namespace

void Lock::acquire() {
  std::recursive_timed_mutex* held = mutex().load();
  // A process that was forked while another thread had the lock would wait for ever: that thread is not in it. The clock is
  // one that a C library of 2018 can wait for.
  while (!held->try_lock_until(std::chrono::system_clock::now() + std::chrono::seconds(1))) {
    if (owner().load() != getpid()) {
      owner() = getpid();
      mutex() = new std::recursive_timed_mutex;
    }
    held = mutex().load();
  }
  if (depth()++ == 0 && owner().load() != getpid()) {
    owner() = getpid();
  }
}

void Lock::release() {
  --depth();
  mutex().load()->unlock();
}

int& Lock::depth() {
  static thread_local int count = 0;
  return count;
}

// Of exceptions.

namespace {

std::vector<Exceptions::Match>& matches() {
  static auto* all = new std::vector<Exceptions::Match>;
  return *all;
}

}  // namespace

size_t Exceptions::add(Match match) {
  matches().push_back(match);
  return matches().size() - 1;
}

void Exceptions::translate() {
  std::string what;
  // As in pybind11 the last that was registered is asked first.
  for (size_t number = matches().size(); number-- > 0;) {
    if (matches()[number](what)) {
      throw std::runtime_error("rules_torch_kernels_exception " + std::to_string(number) + " " + what);
    }
  }
}

void throw_as_torch() {
  try {
    throw;
  } catch (const c10::Error&) {
    throw;
  } catch (const pybind11::value_error&) {
    throw;
  } catch (const pybind11::index_error&) {
    throw;
  } catch (const torch::jit::JITException&) {
    throw;
  } catch (const RaisedWarning&) {
    throw;
  } catch (const std::exception& problem) {
    throw PlainError(problem);
  }
}

// Of warnings.

namespace {

// The function of the module's Python file that issues warnings: see `bound`.
Issue issue = nullptr;

std::string warnings_json(const std::vector<c10::Warning>& buffered) {
  Json warnings;
  for (const c10::Warning& warning : buffered) {
    const c10::SourceLocation& place = warning.source_location();
    const bool deprecated = std::holds_alternative<c10::Warning::DeprecationWarning>(warning.type());
    Json keys;
    keys.text("text", warning.msg()).flag("deprecated", deprecated).flag("verbatim", warning.verbatim());
    keys.text("file", place.file).number("line", place.line);
    warnings.item(keys.object());
  }
  return warnings.list();
}

}  // namespace

void Warnings::Buffer::process(const c10::Warning& warning) {
  warnings.push_back(warning);
}

Warnings::~Warnings() noexcept(false) {
  if (buffer_.warnings.empty()) {
    return;
  }
  const std::string json = warnings_json(buffer_.warnings);
  // What Python does with a warning may wait for a thread that wants the lock, as it may for one that wants the GIL.
  const pybind11::gil_scoped_release unlocked;
  const int64_t raised = issue(json.c_str(), failed_);
  if (raised != 0 && !failed_) {
    throw RaisedWarning(raised);
  }
}

// Of objects.

namespace {

// Not destroyed: Python lets go of objects after the destructors of a library have run.
std::unordered_multimap<const void*, Box*>& live() {
  static auto* all = new std::unordered_multimap<const void*, Box*>;
  return *all;
}

}  // namespace

Box* Boxes::find(const void* object, const Class* kind) {
  const auto [first, last] = live().equal_range(object);
  for (auto item = first; item != last; ++item) {
    if (item->second->kind == kind) {
      ++item->second->count;
      return item->second;
    }
  }
  return nullptr;
}

Box* Boxes::add(void* object, const Class* kind, std::shared_ptr<void> owner, Box* parent) {
  Box* box = new Box{object, kind, std::move(owner), parent};
  if (parent != nullptr) {
    ++parent->count;
  }
  live().emplace(object, box);
  return box;
}

void Boxes::drop(Box* box) {
  while (box != nullptr && --box->count == 0) {
    const auto [first, last] = live().equal_range(box->object);
    for (auto item = first; item != last; ++item) {
      if (item->second == box) {
        live().erase(item);
        break;
      }
    }
    Box* parent = box->parent;
    delete box;
    box = parent;
  }
}

std::unordered_map<std::type_index, const Class*>& Boxes::classes() {
  static auto* all = new std::unordered_map<std::type_index, const Class*>;
  return *all;
}

void* part_of(void* object, const Class* kind, const Class* wanted) {
  if (kind == wanted) {
    return object;
  }
  for (const auto& [base, part] : kind->bases) {
    if (void* found = part_of(part(object), base, wanted)) {
      return found;
    }
  }
  return nullptr;
}

Box* box_at(int64_t address) {
  if (address == 0) {
    throw c10::TypeError(
        {__func__, __FILE__, __LINE__}, "__init__() must be called when overriding __init__: the object has no value");
  }
  return reinterpret_cast<Box*>(address);
}

Handing& Handing::now() {
  static thread_local Handing handing;
  return handing;
}

namespace {

// What Python calls, by address: the module's file is told of it.
void retain(int64_t box) {
  const Locked locked;
  ++reinterpret_cast<Box*>(box)->count;
}

void release(int64_t box) {
  const Locked locked;
  Boxes::drop(reinterpret_cast<Box*>(box));
}

const char* type_of(int64_t box) {
  return reinterpret_cast<Box*>(box)->kind->type.c_str();
}

}  // namespace

// Of what a module has.

struct Function {
  std::string scope;
  std::string name;
  std::vector<c10::Argument> arguments;
  std::vector<c10::Argument> results;
  c10::BoxedKernel kernel;
  // What is told of it.
  Json keys;
};

namespace {

// A function of the author's as torch calls it.
class Kernel final : public c10::OperatorKernel {
 public:
  Kernel(Callee callee, pybind11::return_value_policy policy) : callee_(std::move(callee)), policy_(policy) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    try {
      callee_.call(callee_.function.get(), policy_, *stack);
    } catch (const PlainError&) {
      throw;
    } catch (const RaisedWarning& problem) {
      throw std::runtime_error("rules_torch_kernels_raised " + std::to_string(problem.number));
    } catch (...) {
      Exceptions::translate();
      throw;
    }
  }

 private:
  Callee callee_;
  pybind11::return_value_policy policy_;
};

const char* how_text(How how) {
  static constexpr const char* texts[] = {
      "function", "method", "init", "static", "getter", "setter", "static_getter", "static_setter"};
  return texts[static_cast<int>(how)];
}

// Of some types the schema has two: the one that it says, and the one that Python's values are converted to.
c10::Argument wired(const std::string& name, size_t number, const Parameter& parameter) {
  std::optional<c10::AliasInfo> alias;
  if (parameter.is_written) {
    const auto set = c10::Symbol::fromQualString("alias::a" + std::to_string(number));
    alias.emplace();
    alias->setIsWrite(true);
    alias->addBeforeSet(set);
    alias->addAfterSet(set);
  }
  return {name, parameter.wire, parameter.wire, std::nullopt, std::nullopt, false, std::move(alias)};
}

}  // namespace

void Attribute::set(const char* key, const std::string& value) {
  Json keys;
  keys.text("kind", "attribute").text("scope", scope_).text("name", name_).key(key, value);
  definitions_.items.push_back(keys.object());
}

void Scope::note(const char* kind, Json keys) const {
  definitions_->items.push_back(keys.text("kind", kind).text("scope", path_).object());
}

void Scope::define(
    How how,
    const char* name,
    const pybind11::detail::Told& told,
    const std::vector<Parameter>& parameters,
    const std::string& result,
    const std::vector<c10::TypePtr>& returned,
    Callee callee) const {
  auto function = std::make_shared<Function>();
  function->scope = path_;
  function->name = name;
  function->kernel = c10::BoxedKernel::makeFromFunctor(std::make_unique<Kernel>(std::move(callee), told.policy));
  for (const c10::TypePtr& type : returned) {
    function->results.emplace_back("", type);
  }
  Json arguments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const bool named = i < told.names.size();
    const std::string argument_name = named && !told.names[i].empty() ? told.names[i] : "arg" + std::to_string(i);
    function->arguments.push_back(wired(argument_name, i + 1, parameters[i]));
    Json argument;
    argument.key("type", parameters[i].json);
    argument.item(named ? told.arguments[i] : R"("name":null,"convert":true,"none":true)");
    arguments.item(argument.object());
  }
  Json& keys = function->keys;
  keys.text("kind", "function").text("how", how_text(how)).text("scope", path_).text("name", name).text("doc", told.doc);
  keys.key("arguments", arguments.list()).key("result", result);
  keys.number("positional", told.positional).number("keywords", told.keywords).key("keep", told.kept_alive.list());
  keys.flag("operator", told.is_operator).flag("self", told.has_self).flag("prepend", told.first);
  definitions_->items.emplace_back();
  definitions_->functions.push_back(std::move(function));
}

// Of the module.

namespace {

// The namespace for a module of a kernel: `pkg._C` becomes `<id>_pkg___C`.
std::string namespace_of(std::string_view module) {
  std::string name = rules_torch_kernels_id;
  name += "_";
  for (const char c : module) {
    name += c == '.' ? std::string("__") : std::string(1, c);
  }
  return name;
}

// The name of an op: that of the function, where it is the name of an op for torch too.
std::string op_name(const std::string& scope, const std::string& name) {
  std::string op = scope.empty() ? name : scope + "_" + name;
  const bool plain = op.substr(0, 2) != "__" && !op.empty() && !(op[0] >= '0' && op[0] <= '9');
  for (char& c : op) {
    const bool allowed = c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    c = allowed ? c : '_';
  }
  return plain ? op : "op_" + op;
}

// Where a function is called besides the keys of devices and of autograd, which it has without a word: as a function of C++
// it sees its arguments first, and what modes, transformations and classes of tensors do, they do to the ops that it calls.
constexpr const char* keys[] = {
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
std::vector<c10::DispatchKey> keys_here() {
  std::vector<c10::DispatchKey> here;
  for (const char* name : keys) {
    try {
      here.push_back(c10::parseDispatchKey(name));
    } catch (const c10::Error&) {
    }
  }
  return here;
}

bool is_taken(const std::string& space, const std::string& op, const std::string& overload) {
  return c10::Dispatcher::singleton().findOp({space + "::" + op, overload}).has_value();
}

template <class T>
std::string address(T* place) {
  return std::to_string(reinterpret_cast<uintptr_t>(place));
}

// Registers the functions of a module, and says in JSON what it has.
std::string registered(const char* name, const char* module, int64_t python, void (*define)(pybind11::module_&)) {
  Definitions definitions;
  pybind11::module_ root(definitions, "");
  define(root);
  // The same library may be loaded from two places: each has its ops.
  static constexpr const char* mark = "rules_torch_kernels_binding";
  const std::string base = namespace_of(module);
  std::string space = base;
  for (int copy = 2; is_taken(space, mark, ""); ++copy) {
    space = base + "_" + std::to_string(copy);
  }
  auto library = std::make_unique<torch::Library>(torch::Library::FRAGMENT, space, std::nullopt, __FILE__, __LINE__);
  library->def(c10::FunctionSchema(mark, "", {}, {}));
  const std::vector<c10::DispatchKey> dispatch_keys = keys_here();
  auto item = definitions.items.begin();
  for (const auto& function : definitions.functions) {
    const std::string op = op_name(function->scope, function->name);
    std::string overload;
    for (int number = 2; is_taken(space, op, overload); ++number) {
      overload = "overload" + std::to_string(number);
    }
    library->def(c10::FunctionSchema(op, overload, std::move(function->arguments), std::move(function->results)));
    const std::string full = overload.empty() ? op : op + "." + overload;
    library->impl(full.c_str(), torch::CppFunction::makeFromBoxedKernel(function->kernel));
    for (const c10::DispatchKey dispatch_key : dispatch_keys) {
      library->impl(full.c_str(), torch::dispatch(dispatch_key, torch::CppFunction::makeFromBoxedKernel(function->kernel)));
    }
    // The places of functions are empty.
    item = std::find(item, definitions.items.end(), "");
    *item = function->keys.text("op", op).text("overload", overload).object();
  }
  // It stays registered: a module is not unloaded.
  library.release();
  Json items;
  for (const std::string& object : definitions.items) {
    items.item(object);
  }
  Json all;
  all.key("retain", address(&retain)).key("release", address(&release)).key("type_of", address(&type_of));
  all.number("python", python);
  all.text("name", name).text("namespace", space).text("doc", definitions.doc).key("items", items.list());
  return all.object();
}

}  // namespace

const char* bound(const char* name, const Loading& loading, void (*define)(pybind11::module_&)) {
  static std::mutex once;
  static std::string text;
  const std::lock_guard<std::mutex> guard(once);
  if (text.empty()) {
    issue = loading.issue;
    try {
      text = registered(name, loading.module, loading.python, define);
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

namespace pybind11 {
namespace detail {

void Told::add_argument(const arg& named, const arg_v* with_default) {
  binding::Json keys;
  keys.text("name", named.name).flag("convert", named.converts).flag("none", named.takes_none);
  if (with_default != nullptr) {
    keys.key("default", with_default->value).text("text", with_default->text);
  }
  arguments.push_back(keys.inner());
  names.push_back(named.name == nullptr ? "" : named.name);
}

}  // namespace detail
}  // namespace pybind11
