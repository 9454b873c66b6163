// Classes of the author's as the types of arguments and results: by value, by reference, as pointers of all kinds.
#pragma once
#pragma GCC system_header

#include "boxes.h"
#include "types.h"

namespace rules_torch_kernels {
namespace binding {

// An object, wherever Python has it already, or put into a box as the policy says.
template <class T>
class Giver {
 public:
  using Policy = pybind11::return_value_policy;

  static c10::IValue pointer(T* object, Policy policy) {
    if (object == nullptr) {
      return {};
    }
    const auto [whole, kind] = whole_of(object);
    if (Box* box = Boxes::find(whole, kind)) {
      return address(box);
    }
    switch (policy) {
      case Policy::copy:
        return copy(*object);
      case Policy::move:
        return value(std::move(*object));
      case Policy::reference:
      case Policy::automatic_reference:
        return address(Boxes::add(whole, kind, shared_by(object)));
      case Policy::reference_internal:
        return address(Boxes::add(whole, kind, nullptr, parent()));
      default: {
        auto owner = shared_by(object);
        return address(Boxes::add(whole, kind, owner != nullptr ? std::move(owner) : owner_of(whole, *kind)));
      }
    }
  }

  static c10::IValue reference(T& object) {
    const Policy policy = Handing::now().policy;
    if (Handing::now().passing) {
      return copy(object);
    }
    const bool automatic = policy == Policy::automatic || policy == Policy::automatic_reference;
    return pointer(&object, automatic ? Policy::copy : policy);
  }

  static c10::IValue value(T&& object) {
    if constexpr (std::is_move_constructible_v<T> && !std::is_abstract_v<T>) {
      return owned(new T(std::move(object)));
    } else {
      throw std::runtime_error(
          "return_value_policy = move, but type is neither movable nor copyable! "
          "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)");
    }
  }

  static c10::IValue copy(const T& object) {
    if constexpr (std::is_copy_constructible_v<T> && !std::is_abstract_v<T>) {
      return owned(new T(object));
    } else {
      throw std::runtime_error(
          "return_value_policy = copy, but type is non-copyable! "
          "(#define PYBIND11_DETAILED_ERROR_MESSAGES or compile in debug mode for details)");
    }
  }

  static c10::IValue shared(std::shared_ptr<T> object) {
    if (object == nullptr) {
      return {};
    }
    const auto [whole, kind] = whole_of(object.get());
    Box* box = Boxes::find(whole, kind);
    return address(box != nullptr ? box : Boxes::add(whole, kind, std::move(object)));
  }

  // A new object of a constructor's, which is in no box yet.
  static c10::IValue owned(T* object) {
    const Class& kind = class_of<T>();
    return address(Boxes::add(object, &kind, owner_of(object, kind)));
  }

  static int64_t address(Box* box) {
    return reinterpret_cast<int64_t>(box);
  }

 private:
  static std::shared_ptr<void> owner_of(void* object, const Class& kind) {
    if (kind.own == nullptr) {
      throw std::runtime_error("an object of `" + kind.type.substr(0, kind.type.find('@')) + "` is made before its py::class_");
    }
    return kind.own(object);
  }

  // An object as one of the class that it was made of, if that has a `py::class_`.
  static std::pair<void*, const Class*> whole_of(T* object) {
    if constexpr (std::is_polymorphic_v<T>) {
      const auto found = Boxes::classes().find(typeid(*object));
      if (found != Boxes::classes().end()) {
        return {dynamic_cast<void*>(object), found->second};
      }
    }
    return {static_cast<void*>(object), &class_of<T>()};
  }

  template <class Object>
  static auto shared_owner(Object* object, int) -> decltype(std::shared_ptr<void>(object->weak_from_this().lock())) {
    return object->weak_from_this().lock();
  }
  template <class Object>
  static std::shared_ptr<void> shared_owner(Object*, long) {
    return nullptr;
  }
  // The owner that a class with `std::enable_shared_from_this` knows.
  static std::shared_ptr<void> shared_by(T* object) {
    return shared_owner(object, 0);
  }

  static Box* parent() {
    if (Handing::now().parent == nullptr) {
      throw std::runtime_error("Could not activate keep_alive!");
    }
    return Handing::now().parent;
  }
};

// An object of a box, as an argument: converted to what the function takes, and to a copy where a container holds it.
template <class T>
struct Reference {
  T* object;
  operator T&() const {
    return *object;
  }
};

template <class T>
std::string object_text(const char* how) {
  return generic(how, json_text(class_of<T>().type), std::is_polymorphic_v<T> ? "true" : "false");
}

// Defaults and attributes that are objects of the module: the library keeps them.
template <class T>
struct WrittenObject {
  static std::string write(const T& value) {
    const Locked locked;
    const c10::IValue box = Type<T>::store(value);
    return box.isNone() ? "null" : tagged("object", Json().item(Type<T>::describe()).item(std::to_string(box.toInt())).list());
  }
};
template <class T>
struct Written<T, std::enable_if_t<is_object<T> && !std::is_convertible_v<T, std::string_view>>> : WrittenObject<T> {};
template <class T>
struct Written<T*, std::enable_if_t<is_object<std::remove_cv_t<T>>>> : WrittenObject<T*> {};
template <class T>
struct Written<std::shared_ptr<T>, std::enable_if_t<is_object<std::remove_cv_t<T>>>> : WrittenObject<std::shared_ptr<T>> {};

template <class T>
struct Type<T, std::enable_if_t<is_object<T>>> {
  using held = Reference<T>;
  static std::string describe() {
    return object_text<T>("object");
  }
  static c10::TypePtr wire() {
    return c10::IntType::get();
  }
  static held load(const c10::IValue& value) {
    return {object_in<T>(value.toInt())};
  }
  static c10::IValue store(T& value) {
    return Giver<T>::reference(value);
  }
  static c10::IValue store(const T& value) {
    return Giver<T>::reference(const_cast<T&>(value));
  }
  static c10::IValue store(T&& value) {
    return Giver<T>::value(std::move(value));
  }
  static T& view(held& value) {
    return *value.object;
  }
};

// Pointers, of which null is None.
template <class T>
struct Nullable {
  static std::string describe() {
    return object_text<T>("pointer");
  }
  static c10::TypePtr wire() {
    return c10::OptionalType::create(c10::IntType::get());
  }
};

template <class T>
struct Type<T*, std::enable_if_t<is_object<std::remove_cv_t<T>>>> : Nullable<std::remove_cv_t<T>> {
  using held = T*;
  using Object = std::remove_cv_t<T>;
  static held load(const c10::IValue& value) {
    return value.isNone() ? nullptr : object_in<Object>(value.toInt());
  }
  static c10::IValue store(T* value) {
    return Giver<Object>::pointer(const_cast<Object*>(value), Handing::now().policy);
  }
};

template <class T>
struct Type<std::shared_ptr<T>, std::enable_if_t<is_object<std::remove_cv_t<T>>>> : Nullable<std::remove_cv_t<T>> {
  using held = std::shared_ptr<T>;
  using Object = std::remove_cv_t<T>;
  static held load(const c10::IValue& value) {
    if (value.isNone()) {
      return nullptr;
    }
    Object* object = object_in<Object>(value.toInt());
    Box* box = box_at(value.toInt());
    while (box != nullptr && box->owner == nullptr) {
      box = box->parent;
    }
    if (box == nullptr) {
      throw std::runtime_error("Unable to load a custom holder type from a default-holder instance");
    }
    return held(box->owner, object);
  }
  static c10::IValue store(const held& value) {
    return Giver<Object>::shared(std::const_pointer_cast<Object>(value));
  }
};

// As a result alone: an argument would take the object from Python.
template <class T, class Deleter>
struct Type<std::unique_ptr<T, Deleter>, std::enable_if_t<is_object<std::remove_cv_t<T>>>> : Nullable<std::remove_cv_t<T>> {
  struct held {};
  using Object = std::remove_cv_t<T>;
  template <class Value>
  static held load(const Value&) {
    static_assert(never<Value>, RULES_TORCH_KERNELS_REFUSED("an argument that is a std::unique_ptr"));
    return {};
  }
  static c10::IValue store(std::unique_ptr<T, Deleter>&& value) {
    return Giver<Object>::shared(std::const_pointer_cast<Object>(std::shared_ptr<T>(std::move(value))));
  }
};

// What a constructor has made: an object of one owner, or one that C++ shares.
template <class T>
class Fresh {
 public:
  static Fresh of(T* object) {
    return Fresh(object, nullptr);
  }
  static Fresh of(T&& object) {
    return of(new T(std::move(object)));
  }
  static Fresh of(std::shared_ptr<T> object) {
    return Fresh(object.get(), object);
  }
  template <class Deleter>
  static Fresh of(std::unique_ptr<T, Deleter> object) {
    return of(std::shared_ptr<T>(std::move(object)));
  }

  c10::IValue boxed() const {
    return shared_ == nullptr ? Giver<T>::owned(object_) : Giver<T>::address(Boxes::add(object_, &class_of<T>(), shared_));
  }

 private:
  Fresh(T* object, std::shared_ptr<void> shared) : object_(object), shared_(std::move(shared)) {
    if (object == nullptr) {
      throw c10::TypeError({__func__, __FILE__, __LINE__}, "pybind11::init(): factory function returned nullptr");
    }
  }

  T* object_;
  std::shared_ptr<void> shared_;
};

template <class T>
struct Type<Fresh<T>> {
  struct held {};
  static std::string describe() {
    return json_text("none");
  }
  static c10::TypePtr wire() {
    return c10::IntType::get();
  }
  static c10::IValue store(const Fresh<T>& value) {
    return value.boxed();
  }
};

}  // namespace binding
}  // namespace rules_torch_kernels
