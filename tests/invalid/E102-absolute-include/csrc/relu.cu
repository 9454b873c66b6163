#include "/usr/local/include/vector.h"
#ifdef USE_HIP
#include </opt/rocm/include/hip.h>
#endif
#include "relu.h"
