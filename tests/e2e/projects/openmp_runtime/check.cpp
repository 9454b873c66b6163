// What OpenMP promises of each construct that rules/private/include/openmp.c serves, compared with the same without threads.
#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

extern "C" {
int omp_get_thread_num();
int omp_get_num_threads();
int omp_in_parallel();
void omp_set_max_active_levels(int);
void omp_set_schedule(int, int);
}

static int failures = 0;

static void expect(bool holds, const char *what, int threads = 0) {
  if (holds) return;
  ++failures;
  std::printf("not with %d threads: %s\n", threads, what);
}

#define PRAGMA(clauses) _Pragma(#clauses)
#define LOOP(schedule, from, condition, change) \
  { \
    long long count = 0, sum = 0, expected = 0, expected_sum = 0; \
    T value = 0, expected_value = 0; \
    for (T i = from; condition; change) { \
      ++expected; \
      expected_sum += static_cast<long long>(i); \
      expected_value = i; \
    } \
    PRAGMA(omp parallel for num_threads(threads) reduction(+ : count, sum) lastprivate(value) schedule) \
    for (T i = from; condition; change) { \
      ++count; \
      sum += static_cast<long long>(i); \
      value = i; \
    } \
    expect(count == expected && sum == expected_sum, name, threads); \
    expect(!expected || value == expected_value, name, threads); \
  }
#define SCHEDULES(...) \
  LOOP(, __VA_ARGS__) \
  LOOP(schedule(static), __VA_ARGS__) \
  LOOP(schedule(static, 3), __VA_ARGS__) \
  LOOP(schedule(static, 100000000), __VA_ARGS__) \
  LOOP(schedule(simd : static, 4), __VA_ARGS__) \
  LOOP(schedule(dynamic), __VA_ARGS__) \
  LOOP(schedule(dynamic, 5), __VA_ARGS__) \
  LOOP(schedule(monotonic : dynamic, 2), __VA_ARGS__) \
  LOOP(schedule(guided, 2), __VA_ARGS__) \
  LOOP(schedule(runtime), __VA_ARGS__) \
  LOOP(schedule(auto), __VA_ARGS__)

template <class T>
static void loops(const char *name, T first, T last, T step) {
  for (int threads : {1, 2, 3, 7}) {
    SCHEDULES(first, i < last, i += step)
    SCHEDULES(last, i > first, i -= step)
  }
}

static void all_loops() {
  loops<int>("int", -17, 100, 1);
  loops<int>("int, steps of 7", -17, 100, 7);
  loops<int>("int, empty", 5, 5, 1);
  loops<int>("int, large", 2147483000, 2147483400, 3);
  loops<int>("int, far", -2000000000, 2000000000, 100000003);
  loops<unsigned>("unsigned", 3, 90, 5);
  loops<unsigned>("unsigned, large", 4294960000u, 4294960500u, 4);
  loops<long>("long", -1000, 1000, 13);
  loops<long>("long, large", 9223372036854770000, 9223372036854770100, 3);
  loops<unsigned long>("unsigned long", 18446744073709540000ul, 18446744073709540100ul, 3);
  loops<unsigned char>("unsigned char", 1, 200, 1);
}

static int fibonacci(int n) {
  if (n < 2) return n;
  int a, b;
#pragma omp task shared(a) if (n > 5)
  a = fibonacci(n - 1);
#pragma omp task shared(b) final(n < 4)
  b = fibonacci(n - 2);
#pragma omp taskwait
  return a + b;
}

struct Counted {
  static std::atomic<int> alive;
  int value;
  explicit Counted(int v) : value(v) { ++alive; }
  Counted(const Counted &other) : value(other.value) { ++alive; }
  ~Counted() { --alive; }
};
std::atomic<int> Counted::alive{0};

static void tasks() {
  int result = 0;
#pragma omp parallel num_threads(4)
#pragma omp single
  result = fibonacci(16);
  expect(result == 987, "tasks of tasks");
  {
    Counted value(3);
    std::atomic<int> sum{0};
    bool waited = false;
#pragma omp parallel num_threads(4)
#pragma omp single
    {
      for (int i = 0; i < 50; ++i) {
#pragma omp task firstprivate(value) priority(2)
        sum += value.value;
      }
#pragma omp taskgroup
      {
#pragma omp task untied
        {
          sum += 400;
#pragma omp taskyield
          sum += 600;
        }
      }
      waited = sum >= 1000;
    }
    expect(sum == 1150 && waited, "a task group");
    expect(Counted::alive == 1, "what tasks own is destroyed");
  }
}

#pragma omp declare reduction(join : std::vector<int> : omp_out.insert(omp_out.end(), omp_in.begin(), omp_in.end()))

static void reductions() {
  std::vector<int> all;
#pragma omp parallel for num_threads(4) reduction(join : all)
  for (int i = 0; i < 40; ++i) all.push_back(i);
  long sum = 0;
  for (int value : all) sum += value;
  expect(all.size() == 40 && sum == 780, "a reduction of its own");
  float largest = -1;
  double smallest = 1e9;
  unsigned bits = 0;
  bool any = false;
  short count = 0;
  int seen = 0;
#pragma omp parallel num_threads(4)
  {
#pragma omp for reduction(max : largest) reduction(min : smallest) reduction(| : bits) reduction(|| : any) reduction(+ : count)
    for (int i = 0; i < 1000; ++i) {
      const float value = static_cast<float>(i * 37 % 1001);
      largest = value > largest ? value : largest;
      smallest = value < smallest ? value : smallest;
      bits |= 1u << i % 20;
      any = any || i == 77;
      ++count;
    }
#pragma omp atomic
    seen += count;
  }
  expect(largest == 1000 && smallest == 0 && bits == 0xfffff && any && count == 1000, "reductions");
  expect(seen == 4000, "all threads see the result of a reduction");
}

static int of_thread = 0;
#pragma omp threadprivate(of_thread)

static void regions() {
  long total = 0;
  int nested = 0, singles = 0, masters = 0;
  std::string order;
#pragma omp parallel num_threads(5)
  {
    for (int i = 0; i < 200; ++i) {
#pragma omp critical
      total += 1;
#pragma omp critical(outer)
      {
#pragma omp critical(inner)
        nested += 2;
      }
#pragma omp atomic
      total += 3;
#pragma omp single
      ++singles;
#pragma omp master
      ++masters;
    }
#pragma omp barrier
#pragma omp for ordered schedule(dynamic, 2)
    for (int i = 0; i < 26; ++i) {
#pragma omp ordered
      order += static_cast<char>('a' + i);
    }
#pragma omp for ordered schedule(static)
    for (int i = 0; i < 10; ++i) {
#pragma omp ordered
      order += static_cast<char>('0' + i);
    }
  }
  expect(total == 4000 && nested == 2000, "critical sections");
  expect(singles == 200 && masters == 200, "one thread's blocks");
  expect(order == "abcdefghijklmnopqrstuvwxyz0123456789", "an ordered loop");
  int sections[3] = {};
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    sections[0] = 1;
#pragma omp section
    sections[1] = 2;
#pragma omp section
    sections[2] = 3;
  }
  expect(sections[0] == 1 && sections[1] == 2 && sections[2] == 3, "sections");
  of_thread = 41;
  int copies = 0;
#pragma omp parallel num_threads(3) copyin(of_thread) reduction(+ : copies)
  copies += of_thread == 41;
  expect(copies == 3, "copyin");
  int collapsed = 0, expected = 0;
#pragma omp parallel for collapse(2) num_threads(4) reduction(+ : collapsed)
  for (int i = 0; i < 13; ++i)
    for (int j = 0; j < 9; ++j) collapsed += i * j;
  for (int i = 0; i < 13; ++i)
    for (int j = 0; j < 9; ++j) expected += i * j;
  expect(collapsed == expected && !omp_in_parallel(), "collapsed loops");
}

static void nesting() {
  int hits[6][20] = {};
#pragma omp parallel num_threads(6)
  {
    const int self = omp_get_thread_num();
#pragma omp parallel if (self < 0)
    {
#pragma omp for schedule(dynamic)
      for (int i = 0; i < 20; ++i) hits[self][i] += 1 + 100 * omp_get_thread_num() + 1000 * (omp_get_num_threads() - 1);
    }
  }
  bool once = true;
  for (auto &row : hits)
    for (int value : row) once = once && value == 1;
  expect(once, "a region of one thread in a team");
  omp_set_max_active_levels(3);
  long sum = 0;
#pragma omp parallel num_threads(3)
#pragma omp for schedule(dynamic)
  for (int i = 0; i < 12; ++i) {
    long inner = 0;
#pragma omp parallel for num_threads(2) reduction(+ : inner) schedule(dynamic)
    for (int j = 0; j < 50; ++j) inner += i * j;
#pragma omp atomic
    sum += inner;
  }
  expect(sum == 80850, "a team in a loop of a team");
  int team = 7;
#pragma omp parallel if (team > 9) num_threads(4)
  team = omp_get_num_threads();
  expect(team == 1, "if");
#pragma omp parallel num_threads(3) proc_bind(close)
#pragma omp master
  team = omp_get_num_threads();
  expect(team == 3, "num_threads");
}

static void captures() {
  double d = 2.5;
  float f = 1.25f;
  char c = 'x';
  bool t = true;
  long a = 1, b = 2, e = 3, g = 4, h = 5, i = 6, j = 7, k = 8, l = 9, m = 10, n = 11, o = 12, p = 13, q = 14, r = 15, s = 16;
  double sum = 0;
#pragma omp parallel num_threads(3) firstprivate(d, f, c, t) reduction(+ : sum)
  sum += d + f + c + t + a + b + e + g + h + i + j + k + l + m + n + o + p + q + r + s;
  expect(sum == 3 * (2.5 + 1.25 + 'x' + 1 + 136), "captured variables");
}

int main() {
  omp_set_schedule(2, 3);  // dynamic, for schedule(runtime)
  all_loops();
  tasks();
  reductions();
  regions();
  nesting();
  captures();
  std::printf("%d failures\n", failures);
  return failures != 0;
}
