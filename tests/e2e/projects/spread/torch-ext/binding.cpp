#include "registration.h"

// Found below csrc, which upstream searches for every source.
#include <sum.h>

#include <torch/library.h>

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  // Helpers that upstream's registration.h has.
  ops.def(STRINGIFY(CONCAT(twice_and, _one)) "(int count) -> int");
#ifdef CPU_KERNEL
  ops.impl("twice_and_one", c10::DispatchKey::CompositeExplicitAutograd,
           [](int64_t count) { return static_cast<int64_t>(sum(static_cast<int>(count))); });
#endif
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
