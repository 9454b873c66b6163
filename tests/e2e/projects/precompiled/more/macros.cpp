#include <torch/extension.h>

#include <cstring>

size_t named() { return std::strlen(__FILE__) + __COUNTER__ + __LINE__; }
