// Types of all kinds whose layout differs between versions, each with a value that tells which version made it.
#pragma once

#include <torch/custom_class.h>

#include <any>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <typeindex>
#include <typeinfo>

#define VERSION 1

// What comes before the value, in all types.
struct Padding {
  int64_t pad[8 * VERSION] = {0};
};

struct Named : torch::CustomClassHolder {
  Padding padding;
  int64_t at = 100 * VERSION;
  int64_t next() { return ++at; }
};

template <typename T>
struct Box : torch::CustomClassHolder {
  Padding padding;
  T content;
  int64_t at = 100 * VERSION;
  int64_t next() { return ++at; }
};

// In a namespace of torch, under a name that torch has elsewhere.
namespace at {
namespace native {
struct Tensor : torch::CustomClassHolder {
  Padding padding;
  int64_t at = 100 * VERSION;
  int64_t next() { return ++at; }
};
}  // namespace native
}  // namespace at

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("a failure of " + std::to_string(VERSION)) {}
  Padding padding;
  int64_t at = 100 * VERSION;
};

enum class Kind { none, some };

// Nobody defines it: type information of a pointer to it is in each file that asks for it.
struct Opaque;

// In the other file.
void throw_failure();
void throw_kind();
const std::type_info& type_in_other_file(const std::string& what);
std::any any_in_other_file();
int64_t hidden_in_other_file();
