[% if cuda %]
// Written by `driver tune --apply` from tuning/softmax.toml and its records; do not edit.
#pragma once

namespace softmax_tuned {

template <int kValue0, int kValue1, int kValue2>
struct Config {
  static constexpr int VARIANT = kValue0;
  static constexpr int THREADS = kValue1;
  static constexpr int WORDS = kValue2;
};

// As Python divides: rounded down.
constexpr long long floor_div(long long a, long long b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
constexpr long long floor_mod(long long a, long long b) { return a - floor_div(a, b) * b; }

// Calls `call` with the configuration for a problem, `call(Config<...>())`, which returns a Result. To deduce its type
// would make clang instantiate kernels too early.
template <class Result, class Call>
Result choose(int capability, long long rows, long long columns, Call call) {
  (void)capability;
  (void)rows;
  (void)columns;
#if defined(TUNE_VARIANT) && defined(TUNE_THREADS) && defined(TUNE_WORDS)
  return call(Config<TUNE_VARIANT, TUNE_THREADS, TUNE_WORDS>());
#else
  return call(Config<3, 256, 4>());  // default
#endif
}

}  // namespace softmax_tuned
[% endif %]
