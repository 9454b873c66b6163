#include "one.h"

int one() { return 1; }
