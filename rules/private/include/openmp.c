// What clang's OpenMP code calls, on gcc's runtime: host code of GPU sources has torch's threads, as C++ that gcc compiles.
//
// clang lowers OpenMP to calls of LLVM's runtime (`__kmpc_*`), and torch brings gcc's (`GOMP_*`). Two runtimes in a process
// are two sets of threads. The functions here have LLVM's interface and call gcc's runtime. The interfaces: LLVM's
// openmp/runtime/src/kmp.h and llvm/include/llvm/Frontend/OpenMP/OMPKinds.def of LLVM 19; libgomp_g.h of gcc 12. What is
// missing here (dependences of tasks, taskloop, cancellation, copyprivate, doacross loops, offloading) stays undefined, so
// that a library that calls it is not linked.
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ident ident_t;
typedef unsigned long long ull;
typedef int32_t lock_t[8];

extern void* malloc(size_t);
extern void free(void*);
extern _Noreturn void abort(void);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern void GOMP_parallel(void (*)(void*), void*, unsigned, unsigned);
extern void GOMP_parallel_start(void (*)(void*), void*, unsigned);
extern void GOMP_parallel_end(void);
extern void GOMP_barrier(void);
extern void GOMP_critical_start(void);
extern void GOMP_critical_end(void);
extern void GOMP_critical_name_start(void**);
extern void GOMP_critical_name_end(void**);
extern bool GOMP_single_start(void);
extern void GOMP_ordered_start(void);
extern void GOMP_ordered_end(void);
extern void GOMP_taskwait(void);
extern void GOMP_taskyield(void);
extern void GOMP_taskgroup_start(void);
extern void GOMP_taskgroup_end(void);
extern void GOMP_task(void (*)(void*), void*, void (*)(void*, void*), long, long, bool, unsigned, void**, int);
extern bool GOMP_loop_ull_static_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_dynamic_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_guided_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_runtime_start(bool, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_ordered_static_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_ordered_dynamic_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_ordered_guided_start(bool, ull, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_ordered_runtime_start(bool, ull, ull, ull, ull*, ull*);
extern bool GOMP_loop_ull_static_next(ull*, ull*);
extern bool GOMP_loop_ull_dynamic_next(ull*, ull*);
extern bool GOMP_loop_ull_guided_next(ull*, ull*);
extern bool GOMP_loop_ull_runtime_next(ull*, ull*);
extern bool GOMP_loop_ull_ordered_static_next(ull*, ull*);
extern bool GOMP_loop_ull_ordered_dynamic_next(ull*, ull*);
extern bool GOMP_loop_ull_ordered_guided_next(ull*, ull*);
extern bool GOMP_loop_ull_ordered_runtime_next(ull*, ull*);
extern void GOMP_loop_end_nowait(void);

// Threads and teams.

// The most variables that a parallel region may capture; a function takes more arguments than it has parameters with the
// calling conventions of x86_64 and aarch64.
#define MOST_CAPTURED 126

// A loop that hands out its iterations: they are counted from 0, so that one set of functions serves all types.
struct loop {
  bool started;
  int schedule;
  ull count, chunk;
  int64_t first, step;
};

// A region that all threads of a team run.
struct region {
  void (*code)(int32_t*, int32_t*, ...);
  void* captured[MOST_CAPTURED];
};

static _Thread_local struct loop current;
static _Thread_local unsigned wanted_threads;
static _Thread_local unsigned wanted_places;

int32_t __kmpc_global_thread_num(ident_t* where) { return omp_get_thread_num(); }

void __kmpc_push_num_threads(ident_t* where, int32_t thread, int32_t count) { wanted_threads = count > 0 ? count : 1; }

// gcc's runtime has the policies in the same numbers, but for `primary` (5), which is its `master` (2).
void __kmpc_push_proc_bind(ident_t* where, int32_t thread, int32_t policy) { wanted_places = policy == 5 ? 2 : policy; }

#define FOUR(a, i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define SIXTEEN(a, i) FOUR(a, i), FOUR(a, i + 4), FOUR(a, i + 8), FOUR(a, i + 12)

static void run(void* argument) {
  struct region* region = argument;
  struct loop outer = current;
  int32_t thread = omp_get_thread_num();
  void** captured = region->captured;
  region->code(&thread, &thread, SIXTEEN(captured, 0), SIXTEEN(captured, 16), SIXTEEN(captured, 32), SIXTEEN(captured, 48),
               SIXTEEN(captured, 64), SIXTEEN(captured, 80), SIXTEEN(captured, 96), FOUR(captured, 112), FOUR(captured, 116),
               FOUR(captured, 120), captured[124], captured[125]);
  current = outer;
}

void __kmpc_fork_call(ident_t* where, int32_t count, void (*code)(int32_t*, int32_t*, ...), ...) {
  struct region region;
  if (count > MOST_CAPTURED) abort();
  region.code = code;
  va_list values;
  va_start(values, code);
  for (int32_t i = 0; i < count; ++i) region.captured[i] = va_arg(values, void*);
  va_end(values);
  for (int32_t i = count; i < MOST_CAPTURED; ++i) region.captured[i] = 0;
  unsigned threads = wanted_threads, places = wanted_places;
  wanted_threads = wanted_places = 0;
  GOMP_parallel(run, &region, threads, places);
}

static _Thread_local struct saved {
  struct saved* before;
  struct loop loop;
} * serialized;

// A region that one thread runs: clang calls its code between these two.
void __kmpc_serialized_parallel(ident_t* where, int32_t thread) {
  struct saved* outer = malloc(sizeof *outer);
  if (!outer) abort();
  outer->before = serialized;
  outer->loop = current;
  serialized = outer;
  wanted_threads = wanted_places = 0;
  GOMP_parallel_start(run, 0, 1);
}

void __kmpc_end_serialized_parallel(ident_t* where, int32_t thread) {
  struct saved* outer = serialized;
  GOMP_parallel_end();
  current = outer->loop;
  serialized = outer->before;
  free(outer);
}

// Synchronization.

void __kmpc_barrier(ident_t* where, int32_t thread) { GOMP_barrier(); }
void __kmpc_flush(ident_t* where) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
int32_t __kmpc_master(ident_t* where, int32_t thread) { return omp_get_thread_num() == 0; }
void __kmpc_end_master(ident_t* where, int32_t thread) {}
int32_t __kmpc_masked(ident_t* where, int32_t thread, int32_t chosen) { return omp_get_thread_num() == chosen; }
void __kmpc_end_masked(ident_t* where, int32_t thread) {}
int32_t __kmpc_single(ident_t* where, int32_t thread) { return GOMP_single_start(); }
void __kmpc_end_single(ident_t* where, int32_t thread) {}
void __kmpc_ordered(ident_t* where, int32_t thread) { GOMP_ordered_start(); }
void __kmpc_end_ordered(ident_t* where, int32_t thread) { GOMP_ordered_end(); }

// clang's lock of all critical sections without a name; gcc's runtime has one of its own, which C++ files take.
extern lock_t unnamed __asm__(".gomp_critical_user_.var") __attribute__((weak, visibility("hidden")));

void __kmpc_critical(ident_t* where, int32_t thread, lock_t* lock) {
  if (lock == &unnamed) {
    GOMP_critical_start();
  } else {
    GOMP_critical_name_start((void**)lock);
  }
}

void __kmpc_end_critical(ident_t* where, int32_t thread, lock_t* lock) {
  if (lock == &unnamed) {
    GOMP_critical_end();
  } else {
    GOMP_critical_name_end((void**)lock);
  }
}

void __kmpc_critical_with_hint(ident_t* where, int32_t thread, lock_t* lock, uint32_t hint) {
  __kmpc_critical(where, thread, lock);
}

// Each thread adds its values while it has the lock, as 1 asks for.
int32_t __kmpc_reduce_nowait(ident_t* where, int32_t thread, int32_t count, size_t size, void* values,
                             void (*reduce)(void*, void*), lock_t* lock) {
  GOMP_critical_name_start((void**)lock);
  return 1;
}

void __kmpc_end_reduce_nowait(ident_t* where, int32_t thread, lock_t* lock) { GOMP_critical_name_end((void**)lock); }

int32_t __kmpc_reduce(ident_t* where, int32_t thread, int32_t count, size_t size, void* values,
                      void (*reduce)(void*, void*), lock_t* lock) {
  return __kmpc_reduce_nowait(where, thread, count, size, values, reduce, lock);
}

void __kmpc_end_reduce(ident_t* where, int32_t thread, lock_t* lock) {
  GOMP_critical_name_end((void**)lock);
  GOMP_barrier();
}

// Loops whose iterations each thread computes for itself.

// `enum sched_type` of kmp.h. Loops that are ordered have numbers that are 32 more.
enum { STATIC_CHUNKED = 33, STATIC = 34, DYNAMIC = 35, GUIDED = 36, RUNTIME = 37, AUTO = 38, STATIC_SIMD = 45 };

// Modifiers in the highest bits: monotonic and nonmonotonic. What gcc's runtime does is both.
#define KIND(schedule) ((schedule) & ~(1 << 29 | 1 << 30))

// The iterations from `first` to `last` in steps: the last one is included.
#define COUNT(unsigned_t, first, last, step)                                                                  \
  ((step) > 0 ? ((last) < (first) ? 0 : ((unsigned_t)(last) - (unsigned_t)(first)) / (unsigned_t)(step) + 1) \
              : ((first) < (last) ? 0 : ((unsigned_t)(first) - (unsigned_t)(last)) / -(unsigned_t)(step) + 1))

#define STATIC_LOOP(suffix, type, signed_t, unsigned_t)                                                                 \
  void __kmpc_for_static_init_##suffix(ident_t* where, int32_t thread, int32_t schedule, int32_t* is_last, type* lower,   \
                                       type* upper, signed_t* stride, signed_t step, signed_t chunk) {                  \
    unsigned_t threads = omp_get_num_threads(), self = omp_get_thread_num();                                            \
    type first = *lower, last = *upper;                                                                                 \
    bool is_empty = step > 0 ? last < first : first < last;                                                             \
    if (is_empty) {                                                                                                     \
      *is_last = 0;                                                                                                     \
      *stride = step;                                                                                                   \
      return;                                                                                                           \
    }                                                                                                                   \
    /* One less than the number of iterations, which may be more than the type has values. */                           \
    unsigned_t most = COUNT(unsigned_t, first, last, step) - 1;                                                         \
    if (threads == 1) {                                                                                                 \
      *is_last = 1;                                                                                                     \
      *stride = step > 0 ? last - first + 1 : -(signed_t)(first - last + 1);                                            \
      return;                                                                                                           \
    }                                                                                                                   \
    unsigned_t begin, size; /* of what the thread runs first */                                                         \
    if (KIND(schedule) == STATIC_CHUNKED) {                                                                             \
      size = chunk < 1 ? 1 : chunk;                                                                                     \
      if (size - 1 > most) size = most + 1;                                                                             \
      unsigned_t last_chunk = most / size;                                                                              \
      *is_last = last_chunk % threads == self;                                                                          \
      *stride = (signed_t)(size * threads) * step;                                                                      \
      if (self > last_chunk) {                                                                                          \
        *lower = last + (type)step;                                                                                     \
        *upper = last;                                                                                                  \
        return;                                                                                                         \
      }                                                                                                                 \
      begin = self * size;                                                                                              \
      *lower = first + (type)(begin * (unsigned_t)step);                                                                \
      *upper = most - begin < size - 1 ? last : *lower + (type)((size - 1) * (unsigned_t)step);                         \
      return;                                                                                                           \
    }                                                                                                                   \
    if (KIND(schedule) == STATIC_SIMD) {                                                                                \
      unsigned_t unit = chunk < 1 ? 1 : chunk;                                                                          \
      size = (most / threads + 1 + unit - 1) / unit * unit;                                                             \
      begin = self * size;                                                                                              \
      *is_last = begin <= most && most - begin < size;                                                                  \
    } else {                                                                                                            \
      unsigned_t each = most / threads, more = most % threads + 1; /* threads that run one more */                      \
      size = each + (self < more);                                                                                      \
      begin = self * each + (self < more ? self : more);                                                                \
      *is_last = size && begin + size - 1 == most;                                                                      \
    }                                                                                                                   \
    *stride = (signed_t)(most + 1) * step;                                                                              \
    if (!size || begin > most) {                                                                                        \
      *lower = last + (type)step;                                                                                       \
      *upper = last;                                                                                                    \
      return;                                                                                                           \
    }                                                                                                                   \
    *lower = first + (type)(begin * (unsigned_t)step);                                                                  \
    *upper = most - begin < size - 1 ? last : *lower + (type)((size - 1) * (unsigned_t)step);                           \
  }

STATIC_LOOP(4, int32_t, int32_t, uint32_t)
STATIC_LOOP(4u, uint32_t, int32_t, uint32_t)
STATIC_LOOP(8, int64_t, int64_t, uint64_t)
STATIC_LOOP(8u, uint64_t, int64_t, uint64_t)

void __kmpc_for_static_fini(ident_t* where, int32_t thread) {}

// Loops whose iterations the runtime hands out.

static void begin(int32_t schedule, ull count, int64_t first, int64_t step, int64_t chunk) {
  current = (struct loop){.schedule = KIND(schedule), .count = count, .chunk = chunk < 1 ? 1 : chunk, .first = first, .step = step};
}

#define START(name, ...) GOMP_loop_ull_##name##_start(true, 0, current.count, 1, ##__VA_ARGS__, &from, &to)
#define NEXT(name) GOMP_loop_ull_##name##_next(&from, &to)
#define HAND_OUT(name, ...) (current.started ? NEXT(name) : START(name, ##__VA_ARGS__))

// The next iterations: from the first to the last one, both included.
static int32_t next(int32_t* is_last, int64_t* lower, int64_t* upper) {
  ull from = 0, to = 0;
  bool found;
  switch (current.schedule) {
    case STATIC_CHUNKED: found = HAND_OUT(static, current.chunk); break;
    case STATIC: case AUTO: found = HAND_OUT(static, 0); break;
    case DYNAMIC: found = HAND_OUT(dynamic, current.chunk); break;
    case GUIDED: found = HAND_OUT(guided, current.chunk); break;
    case RUNTIME: found = HAND_OUT(runtime); break;
    case STATIC_CHUNKED + 32: found = HAND_OUT(ordered_static, current.chunk); break;
    case STATIC + 32: case AUTO + 32: found = HAND_OUT(ordered_static, 0); break;
    case DYNAMIC + 32: found = HAND_OUT(ordered_dynamic, current.chunk); break;
    case GUIDED + 32: found = HAND_OUT(ordered_guided, current.chunk); break;
    case RUNTIME + 32: found = HAND_OUT(ordered_runtime); break;
    default: abort();
  }
  current.started = true;
  if (!found) {
    GOMP_loop_end_nowait();
    return 0;
  }
  *is_last = to == current.count;
  *lower = (int64_t)((ull)current.first + from * (ull)current.step);
  *upper = (int64_t)((ull)current.first + (to - 1) * (ull)current.step);
  return 1;
}

#define DYNAMIC_LOOP(suffix, type, signed_t, unsigned_t)                                                                \
  void __kmpc_dispatch_init_##suffix(ident_t* where, int32_t thread, int32_t schedule, type first, type last,            \
                                     signed_t step, signed_t chunk) {                                                   \
    begin(schedule, COUNT(unsigned_t, first, last, step), (int64_t)first, step, chunk);                                 \
  }                                                                                                                     \
  int32_t __kmpc_dispatch_next_##suffix(ident_t* where, int32_t thread, int32_t* is_last, type* lower, type* upper,      \
                                        signed_t* stride) {                                                             \
    int64_t from, to;                                                                                                   \
    int32_t ends = 0;                                                                                                   \
    if (!next(&ends, &from, &to)) return 0;                                                                             \
    if (is_last) *is_last = ends;                                                                                       \
    *lower = (type)from;                                                                                                \
    *upper = (type)to;                                                                                                  \
    *stride = (signed_t)current.step;                                                                                   \
    return 1;                                                                                                           \
  }                                                                                                                     \
  void __kmpc_dispatch_fini_##suffix(ident_t* where, int32_t thread) {}

DYNAMIC_LOOP(4, int32_t, int32_t, uint32_t)
DYNAMIC_LOOP(4u, uint32_t, int32_t, uint32_t)
DYNAMIC_LOOP(8, int64_t, int64_t, uint64_t)
DYNAMIC_LOOP(8u, uint64_t, int64_t, uint64_t)

void __kmpc_dispatch_deinit(ident_t* where, int32_t thread) {}

// Tasks.

// `kmp_task_t` of kmp.h; clang puts what a task owns behind it.
struct task {
  void* shared;
  int32_t (*code)(int32_t, struct task*);
  int32_t part;
  union { int32_t priority; int32_t (*code)(int32_t, struct task*); } destructors, priority;
};

// What stands before each task, in 16 bytes, so that the task is aligned as malloc's memory is. The code of an untied task
// has parts; it asks for the next one by starting the task again.
struct header { int32_t flags; bool runs, again; int32_t unused[2]; };

enum { TIED = 1, FINAL = 2, MERGED = 4, DESTRUCTORS = 8, PRIORITY = 32, DETACHABLE = 64 };

struct task* __kmpc_omp_task_alloc(ident_t* where, int32_t thread, int32_t flags, size_t size, size_t shared_size,
                                   int32_t (*code)(int32_t, struct task*)) {
  size_t own = (size + 15) & ~(size_t)15;
  struct header* header = malloc(sizeof *header + own + shared_size);
  if (!header || flags & DETACHABLE) abort();
  *header = (struct header){.flags = flags};
  struct task* task = (struct task*)(header + 1);
  *task = (struct task){.shared = shared_size ? (char*)task + own : 0, .code = code};
  return task;
}

static struct header* header_of(struct task* task) { return (struct header*)task - 1; }

static void finish(struct task* task) {
  if (header_of(task)->flags & DESTRUCTORS) task->destructors.code(omp_get_thread_num(), task);
  free(header_of(task));
}

// Runs the parts that a task has asked for.
static void run_parts(struct task* task) {
  struct header* header = header_of(task);
  header->runs = true;
  while (header->again) {
    header->again = false;
    task->code(omp_get_thread_num(), task);
  }
}

static void run_task(void* argument) {
  struct task* task = *(struct task**)argument;
  struct loop outer = current;
  header_of(task)->again = true;
  run_parts(task);
  finish(task);
  current = outer;
}

int32_t __kmpc_omp_task(ident_t* where, int32_t thread, struct task* task) {
  struct header* header = header_of(task);
  if (header->runs) {
    header->again = true;
    return 0;
  }
  unsigned flags = (header->flags & TIED ? 0 : 1) | (header->flags & FINAL ? 2 : 0) | (header->flags & PRIORITY ? 16 : 0);
  int32_t priority = header->flags & PRIORITY ? task->priority.priority : 0;
  GOMP_task(run_task, &task, 0, sizeof task, _Alignof(struct task*), true, flags, 0, priority);
  return 0;
}

// A task that runs at once: clang calls its code between these two.
void __kmpc_omp_task_begin_if0(ident_t* where, int32_t thread, struct task* task) { header_of(task)->runs = true; }

void __kmpc_omp_task_complete_if0(ident_t* where, int32_t thread, struct task* task) {
  run_parts(task);
  finish(task);
}

int32_t __kmpc_omp_taskwait(ident_t* where, int32_t thread) {
  GOMP_taskwait();
  return 0;
}

int32_t __kmpc_omp_taskyield(ident_t* where, int32_t thread, int32_t part) {
  GOMP_taskyield();
  return 0;
}

void __kmpc_taskgroup(ident_t* where, int32_t thread) { GOMP_taskgroup_start(); }
void __kmpc_end_taskgroup(ident_t* where, int32_t thread) { GOMP_taskgroup_end(); }
