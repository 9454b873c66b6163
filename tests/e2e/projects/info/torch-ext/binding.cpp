#include <cstdio>

#include "info.h"
#include "registration.h"

namespace {

struct OnLoad {
  OnLoad() {
    const Info info = describe(3);
    std::printf("%s, %d\n", info.name.c_str(), info.n);
    std::fflush(stdout);
  }
} on_load;

}  // namespace

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
