// The entry point of a kernel's library, for a binding whose text does not have the kernel's id; see registration.h.
#include "registration.h"

extern "C" const char rules_torch_kernels_module[] = "";

RULES_TORCH_KERNELS_MODULE_of_given_name(TORCH_EXTENSION_NAME)
