#include <torch/extension.h>

struct Mine {
  int64_t x;
};

template <>
struct c10::CppTypeToScalarType<Mine> : std::integral_constant<c10::ScalarType, c10::ScalarType::Long> {};

std::string special(int64_t x) { return c10::toString(c10::CppTypeToScalarType<Mine>::value) + std::to_string(x); }
