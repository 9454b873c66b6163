#include "older.h"

#include "cutlass/version.h"

static_assert(CUTLASS_MAJOR == 3 && CUTLASS_MINOR == 5, "`depends` says CUTLASS 3.5");

int older_cutlass_version() { return 100 * CUTLASS_MAJOR + CUTLASS_MINOR; }
