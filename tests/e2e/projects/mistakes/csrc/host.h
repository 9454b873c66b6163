#pragma once

template <class T> T twice(T t) { return t + t; }
int host();
