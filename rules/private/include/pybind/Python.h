// Python's headers, where a section has them; else nothing: a source that includes them and uses nothing of them compiles.
#pragma once
#if __has_include_next(<Python.h>)
#include_next <Python.h>
#endif
