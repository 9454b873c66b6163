// Conversions between the types of torch's ops and those of the functions that they call: an op has 64-bit integers and
// doubles alone.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

namespace torch_binding {

// The argument of a function, from that of an op.
template <typename T, typename = void>
struct Argument {
  static T from(T value) { return value; }
};

template <typename T>
struct Argument<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static T from(std::int64_t value) {
    bool fits = sizeof(T) >= sizeof(value) || static_cast<std::int64_t>(static_cast<T>(value)) == value;
    if constexpr (std::is_unsigned_v<T>) {
      fits = fits && value >= 0;
    }
    TORCH_CHECK_TYPE(fits, "the integer ", value, " is out of range");
    return static_cast<T>(value);
  }
};

template <typename T>
struct Argument<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static T from(double value) { return static_cast<T>(value); }
};

template <typename T>
struct Argument<std::optional<T>> {
  template <typename V>
  static std::optional<T> from(const std::optional<V>& value) {
    return value ? std::optional<T>(Argument<T>::from(*value)) : std::nullopt;
  }
};

template <typename T>
struct Argument<std::vector<T>> {
  template <typename V>
  static std::vector<T> from(const std::vector<V>& values) {
    std::vector<T> found;
    found.reserve(values.size());
    for (const auto& value : values) {
      found.push_back(Argument<T>::from(value));
    }
    return found;
  }
};

// The result of an op, from that of a function.
template <typename T, typename = void>
struct Result {
  static T from(T value) { return value; }
};

template <typename T>
struct Result<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>>> {
  static std::int64_t from(T value) {
    if constexpr (std::is_unsigned_v<T>) {
      TORCH_CHECK(static_cast<std::uint64_t>(value) <=
                      static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()),
                  "the integer ", value, " is out of range");
    }
    return static_cast<std::int64_t>(value);
  }
};

template <typename T>
struct Result<T, std::enable_if_t<std::is_floating_point_v<T>>> {
  static double from(T value) { return static_cast<double>(value); }
};

template <typename T>
struct Result<std::optional<T>> {
  static auto from(const std::optional<T>& value) {
    using Value = decltype(Result<T>::from(*value));
    return value ? std::optional<Value>(Result<T>::from(*value)) : std::nullopt;
  }
};

template <typename T>
struct Result<std::vector<T>> {
  static auto from(const std::vector<T>& values) {
    std::vector<decltype(Result<T>::from(std::declval<T>()))> found;
    found.reserve(values.size());
    for (const auto& value : values) {
      found.push_back(Result<T>::from(value));
    }
    return found;
  }
};

template <typename... T>
struct Result<std::tuple<T...>> {
  static auto from(std::tuple<T...> values) {
    return std::apply([](auto&&... value) { return std::make_tuple(Result<T>::from(std::move(value))...); },
                      std::move(values));
  }
};

template <typename F, typename S>
struct Result<std::pair<F, S>> {
  static auto from(std::pair<F, S> values) {
    return std::make_tuple(Result<F>::from(std::move(values.first)), Result<S>::from(std::move(values.second)));
  }
};

}  // namespace torch_binding
