// The lock that functions of the binding run under, as a Python extension's do under the GIL: an author who has not
// written `py::gil_scoped_release` may rely on one call at a time.
#pragma once
#pragma GCC system_header

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>

namespace rules_torch_kernels {
namespace binding {

class Lock {
 public:
  static void acquire() {
    std::recursive_timed_mutex* held = mutex().load();
    // A process that was forked while another thread had the lock would wait for ever: that thread is not in it. The clock is
    // one that a C library of 2018 can wait for.
    while (!held->try_lock_until(std::chrono::system_clock::now() + std::chrono::seconds(1))) {
      if (owner().load() != getpid()) {
        owner() = getpid();
        mutex() = new std::recursive_timed_mutex;
      }
      held = mutex().load();
    }
    if (depth()++ == 0 && owner().load() != getpid()) {
      owner() = getpid();
    }
  }

  static void release() {
    --depth();
    mutex().load()->unlock();
  }

  // How often this thread has the lock.
  static int& depth() {
    static thread_local int count = 0;
    return count;
  }

 private:
  static std::atomic<std::recursive_timed_mutex*>& mutex() {
    static std::atomic<std::recursive_timed_mutex*> shared{new std::recursive_timed_mutex};
    return shared;
  }

  static std::atomic<pid_t>& owner() {
    static std::atomic<pid_t> process{getpid()};
    return process;
  }
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
