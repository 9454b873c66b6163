// The types of arguments and results that have others in them.
#pragma once
#pragma GCC system_header

#include <c10/util/OptionalArrayRef.h>

#include <deque>
#include <list>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "objects.h"

namespace rules_torch_kernels {
namespace binding {

// The type of a result in a schema, which is another one for some of torch's own types.
template <class T, class = void>
struct Returned {
  static c10::TypePtr wire() {
    return Type<T>::wire();
  }
};
template <class T>
struct Returned<T, std::void_t<decltype(&Type<T>::returned)>> {
  static c10::TypePtr wire() {
    return Type<T>::returned();
  }
};

template <class T>
struct Type<std::optional<T>, std::enable_if_t<is_supported<T>>> {
  using Element = Type<bare<T>>;
  using held = std::conditional_t<is_plain<T>, std::optional<T>, std::optional<typename Element::held>>;
  static std::string describe() {
    return generic("optional", Element::describe());
  }
  static c10::TypePtr wire() {
    return c10::OptionalType::create(Element::wire());
  }
  static c10::TypePtr returned() {
    return c10::OptionalType::create(Returned<bare<T>>::wire());
  }
  static held load(const c10::IValue& value) {
    return value.isNone() ? held() : held(Element::load(value));
  }
  static c10::IValue store(const std::optional<T>& value) {
    return value ? Element::store(*value) : c10::IValue();
  }
  static std::optional<T> view(held& value) {
    return value ? std::optional<T>(Element::view(*value)) : std::nullopt;
  }
};

// Elements of a list, in any container.
template <class Items, class T>
struct List {
  using held = Items;
  using Element = Type<bare<T>>;
  static c10::TypePtr wire() {
    return c10::ListType::create(Element::wire());
  }
  static c10::TypePtr returned() {
    return c10::ListType::create(Returned<bare<T>>::wire());
  }
  static Items load(const c10::IValue& value) {
    Items items;
    for (const c10::IValue& item : value.toListRef()) {
      items.insert(items.end(), Element::load(item));
    }
    return items;
  }
  template <class Stored>
  static c10::IValue store(const Stored& items) {
    c10::impl::GenericList list(Returned<bare<T>>::wire());
    list.reserve(items.size());
    for (const auto& item : items) {
      list.push_back(Element::store(item));
    }
    return list;
  }
};

#define RULES_TORCH_KERNELS_LIST(CONTAINER, NAME)                                                             \
  template <class T, class... More>                                                                           \
  struct Type<CONTAINER<T, More...>, std::enable_if_t<is_plain<T>>> : List<CONTAINER<T, More...>, T> { \
    static std::string describe() {                                                                           \
      return generic(NAME, Type<bare<T>>::describe());                                                        \
    }                                                                                                         \
  };
RULES_TORCH_KERNELS_LIST(std::vector, "list")
RULES_TORCH_KERNELS_LIST(std::deque, "list")
RULES_TORCH_KERNELS_LIST(std::list, "list")
RULES_TORCH_KERNELS_LIST(std::set, "set")
RULES_TORCH_KERNELS_LIST(std::unordered_set, "set")
#undef RULES_TORCH_KERNELS_LIST

template <class T>
struct Type<c10::ArrayRef<T>, std::enable_if_t<is_plain<T> && !std::is_same_v<T, bool>>> : List<std::vector<T>, T> {
  static std::string describe() {
    return generic("array_ref", Type<T>::describe());
  }
  static c10::ArrayRef<T> view(std::vector<T>& items) {
    return items;
  }
};

template <class T>
struct Type<c10::OptionalArrayRef<T>, std::enable_if_t<is_plain<T> && !std::is_same_v<T, bool>>> {
  using held = std::optional<std::vector<T>>;
  static std::string describe() {
    return generic("optional", Type<c10::ArrayRef<T>>::describe());
  }
  static c10::TypePtr wire() {
    return c10::OptionalType::create(Type<c10::ArrayRef<T>>::wire());
  }
  static held load(const c10::IValue& value) {
    return value.isNone() ? held() : held(Type<c10::ArrayRef<T>>::load(value));
  }
  static c10::IValue store(const c10::OptionalArrayRef<T>& value) {
    return value.has_value() ? Type<c10::ArrayRef<T>>::store(*value) : c10::IValue();
  }
  static c10::OptionalArrayRef<T> view(held& value) {
    return value ? c10::OptionalArrayRef<T>(*value) : c10::OptionalArrayRef<T>();
  }
};

template <class T, size_t N>
struct Type<std::array<T, N>, std::enable_if_t<is_plain<T>>> : List<std::vector<T>, T> {
  using held = std::array<T, N>;
  static std::string describe() {
    return generic("array", Type<T>::describe(), std::to_string(N));
  }
  static held load(const c10::IValue& value) {
    held items{};
    const auto list = value.toListRef();
    TORCH_CHECK(list.size() == N, "an argument of the binding has ", N, " elements, not ", list.size());
    for (size_t i = 0; i < N; ++i) {
      items[i] = Type<T>::load(list[i]);
    }
    return items;
  }
};

template <class... T>
struct Type<std::tuple<T...>, std::enable_if_t<(is_plain<T> && ...)>> {
  using held = std::tuple<T...>;
  static std::string describe() {
    return generic("tuple", Type<bare<T>>::describe()...);
  }
  static c10::TypePtr wire() {
    return c10::TupleType::create({Type<bare<T>>::wire()...});
  }
  static c10::TypePtr returned() {
    return c10::TupleType::create({Returned<bare<T>>::wire()...});
  }
  static held load(const c10::IValue& value) {
    return elements(value, std::index_sequence_for<T...>());
  }
  static c10::IValue store(const held& value) {
    return std::apply(
        [](const auto&... item) {
          return c10::IValue(c10::ivalue::Tuple::create(std::vector<c10::IValue>{Type<bare<decltype(item)>>::store(item)...}));
        },
        value);
  }

 private:
  template <size_t... I>
  static held elements(const c10::IValue& value, std::index_sequence<I...>) {
    const auto tuple = value.toTuple();
    TORCH_CHECK(tuple->elements().size() == sizeof...(T), "an argument of the binding has ", sizeof...(T), " elements");
    return held{Type<bare<T>>::load(tuple->elements()[I])...};
  }
};

template <class First, class Second>
struct Type<std::pair<First, Second>, std::enable_if_t<is_plain<First> && is_plain<Second>>> {
  using held = std::pair<First, Second>;
  using Tuple = Type<std::tuple<First, Second>>;
  static std::string describe() {
    return Tuple::describe();
  }
  static c10::TypePtr wire() {
    return Tuple::wire();
  }
  static c10::TypePtr returned() {
    return Tuple::returned();
  }
  static held load(const c10::IValue& value) {
    auto [first, second] = Tuple::load(value);
    return {std::move(first), std::move(second)};
  }
  static c10::IValue store(const held& value) {
    return Tuple::store({value.first, value.second});
  }
};

// Keys of torch's dictionaries.
template <class T>
inline constexpr bool is_key = std::is_same_v<T, std::string> || std::is_same_v<T, double> || std::is_same_v<T, bool> ||
    std::is_same_v<T, int64_t> || std::is_same_v<T, int>;

template <class Items, class Key, class T>
struct Dictionary {
  using held = Items;
  static std::string describe() {
    return generic("dict", Type<Key>::describe(), Type<bare<T>>::describe());
  }
  static c10::TypePtr wire() {
    return c10::DictType::create(Type<Key>::wire(), Type<bare<T>>::wire());
  }
  static c10::TypePtr returned() {
    return c10::DictType::create(Type<Key>::wire(), Returned<bare<T>>::wire());
  }
  static Items load(const c10::IValue& value) {
    Items items;
    for (const auto& item : value.toGenericDict()) {
      items.emplace(Type<Key>::load(item.key()), Type<bare<T>>::load(item.value()));
    }
    return items;
  }
  static c10::IValue store(const Items& items) {
    c10::impl::GenericDict dictionary(Type<Key>::wire(), Returned<bare<T>>::wire());
    for (const auto& [key, item] : items) {
      dictionary.insert(Type<Key>::store(key), Type<bare<T>>::store(item));
    }
    return dictionary;
  }
};
template <class Key, class T, class... More>
struct Type<std::map<Key, T, More...>, std::enable_if_t<is_key<Key> && is_plain<T>>>
    : Dictionary<std::map<Key, T, More...>, Key, T> {};
template <class Key, class T, class... More>
struct Type<std::unordered_map<Key, T, More...>, std::enable_if_t<is_key<Key> && is_plain<T>>>
    : Dictionary<std::unordered_map<Key, T, More...>, Key, T> {};

}  // namespace binding
}  // namespace rules_torch_kernels
