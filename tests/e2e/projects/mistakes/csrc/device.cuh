#pragma once

template <class T> __device__ T halve(T t) { return t / 2; }
