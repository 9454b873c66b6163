#pragma once

#include "types.h"

namespace {
// Another type than that of the same name in the binding.
struct Hidden : torch::CustomClassHolder {
  int64_t at = 1000 * VERSION;
};
}  // namespace

void throw_failure() { throw Failure(); }

void throw_kind() { throw Kind::some; }

const std::type_info& type_in_other_file(const std::string& what) {
  if (what == "named") return typeid(Named);
  if (what == "box") return typeid(Box<std::vector<Named>>);
  if (what == "opaque") return typeid(Opaque*);
  if (what == "function") return typeid(std::function<void(const Named&, Kind)>);
  if (what == "tensor") return typeid(at::Tensor);
  return typeid(Hidden);
}

std::any any_in_other_file() { return Box<int>{}.at; }

int64_t hidden_in_other_file() {
  std::any hidden = Hidden().at;
  return std::any_cast<int64_t>(hidden);
}
