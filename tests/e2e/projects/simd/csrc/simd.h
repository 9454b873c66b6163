#pragma once

#include <cstdint>

int32_t dot(const int8_t *a, const int8_t *b, int64_t count);
int32_t sum(const int32_t *values, int64_t count);
