#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "threads.h"

static thread_local std::string text = "begun";  // made and destroyed in each thread

int64_t step() {
  text += '.';
  return ++seen + (text.size() - 5) * 100;
}

int64_t once() {
  static std::once_flag flag;
  static int64_t count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([] { std::call_once(flag, [] { ++count; }); });
  for (auto &thread : threads) thread.join();
  return count;
}
