#include "registration.h"
#include "csrc/relu.h"
#ifdef USE_HIP
#include "csrc/hip.h"
#endif

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
