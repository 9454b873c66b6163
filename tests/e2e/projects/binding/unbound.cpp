// A function of a class that no py::class_ binds.
#include <torch/extension.h>

struct Camera {
  int width;
};

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("width", [](const Camera& camera) { return camera.width; });
}
