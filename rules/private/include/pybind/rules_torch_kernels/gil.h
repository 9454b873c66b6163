// The lock that functions of the binding run under, as a Python extension's do under the GIL: an author who has not
// written `py::gil_scoped_release` may rely on one call at a time.
#pragma once
#pragma GCC system_header

namespace rules_torch_kernels {
namespace binding {

class Lock {
 public:
  static void acquire();
  static void release();
  // How often this thread has the lock.
  static int& depth();
};

struct Locked {
  Locked() {
    Lock::acquire();
  }
  ~Locked() {
    Lock::release();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

}  // namespace binding
}  // namespace rules_torch_kernels

namespace pybind11 {

class gil_scoped_acquire {
 public:
  gil_scoped_acquire() {
    rules_torch_kernels::binding::Lock::acquire();
  }
  ~gil_scoped_acquire() {
    rules_torch_kernels::binding::Lock::release();
  }
  gil_scoped_acquire(const gil_scoped_acquire&) = delete;
  gil_scoped_acquire& operator=(const gil_scoped_acquire&) = delete;
  void disarm() {}
};

class gil_scoped_release {
 public:
  explicit gil_scoped_release(bool = false) : times_(rules_torch_kernels::binding::Lock::depth()) {
    for (int i = 0; i < times_; ++i) {
      rules_torch_kernels::binding::Lock::release();
    }
  }
  ~gil_scoped_release() {
    for (int i = 0; i < times_; ++i) {
      rules_torch_kernels::binding::Lock::acquire();
    }
  }
  gil_scoped_release(const gil_scoped_release&) = delete;
  gil_scoped_release& operator=(const gil_scoped_release&) = delete;
  void disarm() {}

 private:
  int times_;
};

using gil_scoped_acquire_simple = gil_scoped_acquire;
using gil_scoped_release_simple = gil_scoped_release;

}  // namespace pybind11
