// The id of a kernel, for a binding whose text does not have it; see registration.h.
#include "registration.h"

extern "C" const char rules_torch_kernels_id[] = RULES_TORCH_KERNELS_STRING(TORCH_EXTENSION_NAME);
