#include "one,two^!.h"

int one() { return 1; }
