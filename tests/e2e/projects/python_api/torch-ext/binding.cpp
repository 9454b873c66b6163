#include <Python.h>
#include <torch/library.h>

#include <string>

#include "registration.h"
#include "scale.h"

#ifndef Py_LIMITED_API
#error "the full API of one Python is in sight"
#endif

namespace {

// The name of a new module, by way of objects and functions of Python's own.
std::string module_name(const std::string& name) {
  const PyGILState_STATE state = PyGILState_Ensure();
  static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "unnamed", nullptr, -1};
  PyObject* module = PyModule_Create(&definition);
  PyObject* text = Py_BuildValue("s", name.c_str());
  PyObject_SetAttrString(module, "__name__", text);
  Py_DECREF(text);
  text = PyObject_GetAttrString(module, "__name__");
  PyObject* bytes = PyUnicode_AsUTF8String(text);
  std::string found = PyBytes_AsString(bytes);
  Py_DECREF(bytes);
  Py_DECREF(text);
  Py_DECREF(module);
  PyGILState_Release(state);
  return found;
}

}  // namespace

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("scale(Tensor input, float factor) -> Tensor", &scale);
  ops.def("module_name(str name) -> str", &module_name);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
