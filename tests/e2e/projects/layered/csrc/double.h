#pragma once

void doubled(float* out, const float* in, long count);
