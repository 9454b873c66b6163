// Objects of the author's classes while Python has them: each is in a box, whose address is what travels through torch's
// dispatcher. All of it is the library's own: two modules that have a class of the same name do not meet.
#pragma once
#pragma GCC system_header

#include <c10/util/Exception.h>

#include <memory>
#include <typeindex>
#include <unordered_map>

#include "gil.h"
#include "text.h"

namespace pybind11 {

enum class return_value_policy {
  automatic,
  automatic_reference,
  take_ownership,
  copy,
  move,
  reference,
  reference_internal,
};

}  // namespace pybind11

namespace rules_torch_kernels {
namespace binding {

// What is known of a class of the author's.
struct Class {
  std::string type;
  // The owner of an object that was made with `new`: what deletes it is the class's own affair.
  std::shared_ptr<void> (*own)(void*) = nullptr;
  // The classes that it is derived from, and where in an object of it they are.
  std::vector<std::pair<const Class*, void* (*)(void*)>> bases;
};

// The only definition of this function is in `py::class_<T>`: a function of the module that has a T as an argument or as its
// result refers to it, so that a module without the class does not link.
template <class T>
struct ClassOf {
  friend Class& without_py_class_for(ClassOf*);
};
template <class T>
Class& class_of() {
  return without_py_class_for(static_cast<ClassOf<T>*>(nullptr));
}

// An object that Python has. All boxes are changed under the lock.
struct Box {
  void* object;
  const Class* kind;
  // Empty for an object that C++ alone looks after.
  std::shared_ptr<void> owner;
  // The box of the object that this one is a part of, which lives as long.
  Box* parent = nullptr;
  int64_t count = 1;
};

class Boxes {
 public:
  // The box of an object that Python has; null without.
  static Box* find(const void* object, const Class* kind);
  static Box* add(void* object, const Class* kind, std::shared_ptr<void> owner, Box* parent = nullptr);
  static void drop(Box* box);

  // The classes by their C++ types, for objects of a class that is derived from the one that a function is declared with.
  static std::unordered_map<std::type_index, const Class*>& classes();
};

// An object as one of a class: its own, or one that it is derived from; null for others.
void* part_of(void* object, const Class* kind, const Class* wanted);

// The box at an address; a TypeError for 0, an object without a value.
Box* box_at(int64_t address);

template <class T>
T* object_in(int64_t address) {
  Box* box = box_at(address);
  void* object = part_of(box->object, box->kind, &class_of<T>());
  if (object == nullptr) {
    throw c10::TypeError({__func__, __FILE__, __LINE__}, "the object is of another class than the argument");
  }
  return static_cast<T*>(object);
}

// How the result of the function that runs is handed to Python, and the box of the object whose method it is.
struct Handing {
  pybind11::return_value_policy policy = pybind11::return_value_policy::automatic;
  Box* parent = nullptr;
  // Whether the result is a value: what is in it does not outlive the call.
  bool passing = false;

  static Handing& now();
};

class HandingScope {
 public:
  explicit HandingScope(Handing handing) : before_(Handing::now()) {
    Handing::now() = handing;
  }
  ~HandingScope() {
    Handing::now() = before_;
  }
  HandingScope(const HandingScope&) = delete;
  HandingScope& operator=(const HandingScope&) = delete;

 private:
  Handing before_;
};

}  // namespace binding
}  // namespace rules_torch_kernels
