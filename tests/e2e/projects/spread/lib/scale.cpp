#include "scale.hpp"

int scale(int count) { return 2 * count; }
