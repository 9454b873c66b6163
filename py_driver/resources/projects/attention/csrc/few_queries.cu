[% if cuda %]
#include <algorithm>

#include "few_queries.h"
#include "splits.h"
#include "warp.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// What counts for few queries is how fast keys and values come from memory. They are split between blocks; a warp has
// kKeys of them at a time, for up to kRows rows of q that share a head of k. It copies whole rows to shared memory,
// some steps ahead, and waits for no other warp. A row's parts of 16 bytes go where the thread that hands them to the
// tensor cores finds all of its own side by side.
constexpr int kRows = 16;
constexpr int kKeys = 16;
constexpr int kMostRows = 32;

// kWarps warps of a block are kStages steps ahead; kBlocks blocks run at the same time on a multiprocessor.
template <typename Element, int kElements, int kAhead, int kOfBlock, int kResident>
struct Plan {
  using T = Element;
  static constexpr int kWidth = kElements;
  static constexpr int kStages = kAhead;
  static constexpr int kWarps = kOfBlock;
  static constexpr int kBlocks = kResident;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kChunks = kWidth / 8;                // of 16 bytes, in a row
  static constexpr int kUnit = kKeys * kChunks;             // the keys of a step, or its values
  static constexpr int kRing = kStages * 2 * kUnit;         // for a warp
  static constexpr int kQueries = 2 * (kWidth / 32) * 32;
  static constexpr int kShared = 16 * (kWarps * kRing + kQueries);
};

template <typename P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks) attend_split(const __grid_constant__ Problem problem) {
  using T = typename P::T;
  // In a product, lane c of four has the elements 2 * c, 2 * c + 1, 2 * c + 8 and 2 * c + 9 of a depth of 16. Which
  // element of a row that is does not matter as long as q and k agree: of 32 elements lane c has 8 * c to 8 * c + 7,
  // the first four for one product and the others for the next.
  constexpr int kWidth = P::kWidth;
  constexpr int kParts = kWidth / 32;
  extern __shared__ uint4 shared[];
  __shared__ float largest_of[P::kWarps][kRows];
  __shared__ float sum_of[P::kWarps][kRows];
  const Sizes& sizes = problem.sizes;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int row = lane / 4;
  const int c = lane % 4;
  const int pair = static_cast<int>(blockIdx.y);
  const int kv_heads = static_cast<int>(sizes.kv_heads);
  const int kv_head = pair % kv_heads;
  const std::int64_t batch = pair / kv_heads;
  const int first = static_cast<int>(blockIdx.x) % problem.tiles * kRows;
  const int split = static_cast<int>(blockIdx.x) / problem.tiles;
  const int rows = min(kRows, problem.rows - first);
  uint4* const ring = shared + warp * P::kRing;
  uint4* const queries = shared + P::kWarps * P::kRing;
  const int keys = static_cast<int>(sizes.keys);
  const int each = ((keys + kKeys - 1) / kKeys + problem.splits - 1) / problem.splits * kKeys;
  const int begin = min(keys, split * each);
  const int end = min(keys, begin + each);
  const int steps = (end - begin - warp * kKeys + P::kWarps * kKeys - 1) / (P::kWarps * kKeys);
  const std::uint64_t policy = read_once();
  const auto place = [&](int step, int kind) { return ring + (step % P::kStages * 2 + kind) * P::kUnit; };
  const auto from_of = [&](int step) { return begin + (step * P::kWarps + warp) * kKeys; };
  // Rows of a view: a warp copies 512 bytes at a time. `to` says where a part of a key is to be.
  const auto copy_rows = [&](const View& view, int step, uint4* unit, auto to) {
    if (step < steps) {
      constexpr int kAtOnce = 32 / P::kChunks;
      const int chunk = lane % P::kChunks;
      const T* const base = static_cast<const T*>(view.at) + batch * view.batch + kv_head * view.head + chunk * 8;
      const int of_lane = from_of(step) + lane / P::kChunks;
      const T* from = base + of_lane * view.row;
#pragma unroll
      for (int i = 0; i < kKeys / kAtOnce; ++i) {
        const bool there = of_lane + i * kAtOnce < end;
        copy(unit + to(i * kAtOnce + lane / P::kChunks, chunk), there ? from : base, there, policy);
        from += kAtOnce * view.row;
      }
    }
    end_of_group();
  };
  // The parts of keys and values that a thread reads. Some bits are exchanged, so that those which are copied or read
  // at the same time lie in different banks.
  const auto place_of_key = [](int half, int part, int thread) {
    return (half * kParts + part) * 32 + (thread ^ (part % 2 * 4));
  };
  const auto place_of_value = [](int part, int i, int thread) { return (part * 4 + i) * 32 + (thread ^ (thread / 8)); };
  const auto copy_keys = [&](int step) {
    copy_rows(problem.tensors.k, step, place(step, 0),
              [&](int key, int chunk) { return place_of_key(key / 8, chunk / 4, key % 8 * 4 + chunk % 4); });
  };
  const auto copy_values = [&](int step) {
    copy_rows(problem.tensors.v, step, place(step, 1), [&](int key, int chunk) {
      return place_of_value(chunk / 8, key / 8 * 2 + key % 2, chunk % 8 * 4 + key % 8 / 2);
    });
  };
#pragma unroll
  for (int step = 0; step < P::kStages; ++step) {
    copy_keys(step);
    copy_values(step);
  }
  for (int i = threadIdx.x; i < P::kQueries; i += P::kThreads) {
    const int of = i % 32 / 4 + i / 32 / kParts * 8;
    uint4 words = make_uint4(0, 0, 0, 0);
    if (of < rows) {
      const View& q = problem.tensors.q;
      words = *reinterpret_cast<const uint4*>(
          static_cast<const T*>(q.at) + batch * q.batch + problem.head_of(first + of, kv_head) * q.head +
          problem.query_of(first + of) * q.row + i / 32 % kParts * 32 + i % 4 * 8);
    }
    queries[i] = words;
  }
  __syncthreads();
  float sums[kWidth / 8][4] = {};
  float largest[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0f, 0.0f};
  int seen[2] = {end, end};
  if (sizes.causal) {
    const int before = keys - static_cast<int>(sizes.queries) + 1;
    seen[0] = min(end, before + problem.query_of(first + row));
    seen[1] = min(end, before + problem.query_of(first + row + 8));
  }
  const float scale = sizes.scale * 1.4426950408889634f;  // log2(e)
  for (int step = 0; step < steps; ++step) {
    float weights[2][4] = {};
    wait_but<2 * P::kStages - 1>();
    __syncwarp();
    const uint4* const k_of_step = place(step, 0);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const uint4 low = queries[part * 32 + lane];
      uint4 high = make_uint4(0, 0, 0, 0);
      if (rows > 8) {
        high = queries[(kParts + part) * 32 + lane];
      }
      const unsigned first_four[4] = {low.x, high.x, low.y, high.y};
      const unsigned last_four[4] = {low.z, high.z, low.w, high.w};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 words = k_of_step[place_of_key(half, part, lane)];
        multiply<T>(weights[half], first_four, words.x, words.y);
        multiply<T>(weights[half], last_four, words.z, words.w);
      }
    }
    __syncwarp();
    copy_keys(step + P::kStages);
    float factor[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float larger = largest[half];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& score = weights[i / 2][2 * half + i % 2];
        score = from_of(step) + i / 2 * 8 + 2 * c + i % 2 < seen[half] ? score * scale : -INFINITY;
        larger = fmaxf(larger, score);
      }
      larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 1));
      larger = fmaxf(larger, __shfl_xor_sync(~0u, larger, 2));
      factor[half] = power_of_two(largest[half] - base_of(larger));
      largest[half] = larger;
      sum[half] *= factor[half];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        float& weight = weights[i / 2][2 * half + i % 2];
        weight = power_of_two(weight - base_of(larger));
        sum[half] += weight;
      }
    }
    const unsigned left[4] = {pair_of<T>(weights[0][0], weights[0][1]), pair_of<T>(weights[0][2], weights[0][3]),
                              pair_of<T>(weights[1][0], weights[1][1]), pair_of<T>(weights[1][2], weights[1][3])};
    if (__any_sync(~0u, factor[0] != 1.0f || factor[1] != 1.0f)) {
#pragma unroll
      for (int i = 0; i < kWidth / 8; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          sums[i][j] *= factor[j / 2];
        }
      }
    }
    wait_but<2 * P::kStages - 1>();
    __syncwarp();
    const uint4* const v_of_step = place(step, 1);
    // Lane row of eight has elements 8 * row to 8 * row + 7 of 64: a product for each, of those of all lanes.
#pragma unroll
    for (int part = 0; part < kWidth / 64; ++part) {
      uint4 words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] = v_of_step[place_of_value(part, i, lane)];
      }
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const auto word = [&](const uint4& of) {
          return i / 2 == 0 ? of.x : i / 2 == 1 ? of.y : i / 2 == 2 ? of.z : of.w;
        };
        const auto both = [&](const uint4& a, const uint4& b) {
          return __byte_perm(word(a), word(b), i % 2 == 0 ? 0x5410 : 0x7632);
        };
        multiply<T>(sums[part * 8 + i], left, both(words[0], words[1]), both(words[2], words[3]));
      }
    }
    __syncwarp();
    copy_values(step + P::kStages);
  }
  // Each warp has its sums where its keys and values were. Eight elements lie side by side, and the places of a row's
  // float4 are exchanged such that lanes meet few banks twice.
  float4* const own = reinterpret_cast<float4*>(ring);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int of = row + 8 * half;
    sum[half] += __shfl_xor_sync(~0u, sum[half], 1);
    sum[half] += __shfl_xor_sync(~0u, sum[half], 2);
    if (c == 0) {
      largest_of[warp][of] = largest[half];
      sum_of[warp][of] = sum[half];
    }
    if (of < rows) {
#pragma unroll
      for (int i = 0; i < kWidth / 16; ++i) {
        const int part = i / 4;
        const int j = 2 * half + i / 2 % 2;
        const int from = part * 8 + i % 2 * 4;
        const int at = part * 16 + (2 * c + i / 2 % 2) * 2 + i % 2;
        own[of * (kWidth / 4) + (at ^ row)] =
            make_float4(sums[from][j], sums[from + 1][j], sums[from + 2][j], sums[from + 3][j]);
      }
    }
  }
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  for (int i = threadIdx.x; i < rows * (kWidth / 4); i += P::kThreads) {
    const int of = i / (kWidth / 4);
    const int at = i % (kWidth / 4);
    float larger = largest_of[0][of];
#pragma unroll
    for (int other = 1; other < P::kWarps; ++other) {
      larger = fmaxf(larger, largest_of[other][of]);
    }
    float total = 0.0f;
    float4 all = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int other = 0; other < P::kWarps; ++other) {
      const float factor = power_of_two(largest_of[other][of] - base_of(larger));
      const float4 part =
          reinterpret_cast<const float4*>(shared + other * P::kRing)[of * (kWidth / 4) + (at ^ (of % 8))];
      total += sum_of[other][of] * factor;
      all.x += part.x * factor;
      all.y += part.y * factor;
      all.z += part.z * factor;
      all.w += part.w * factor;
    }
    problem.sums_of(pair, first + of)[split * (kWidth / 4) + at] = all;
    if (at == 0) {
      problem.statistics_of(pair, first + of)[split] = make_float2(larger, total);
    }
  }
}

std::int64_t rows_of(const Sizes& sizes) { return sizes.heads / sizes.kv_heads * sizes.queries; }

std::int64_t tiles_of(const Sizes& sizes) { return (rows_of(sizes) + kRows - 1) / kRows; }

// The number of splits with which the last block is likely to end soonest, if `slots` blocks run at the same time. Not
// all multiprocessors get as much from memory, so many small blocks, which the faster ones take, end before few large
// ones; but a block costs as much as kOverhead steps beside its own.
int splits_of(const Sizes& sizes, std::int64_t slots, int warps) {
  constexpr std::int64_t kOverhead = 10;
  const std::int64_t others = sizes.batch * sizes.kv_heads * tiles_of(sizes);
  const std::int64_t steps = (sizes.keys + kKeys - 1) / kKeys;
  const std::int64_t most = std::clamp<std::int64_t>(steps / warps, 1, kMostSplits);
  std::int64_t best = 1;
  std::int64_t least = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) {
    const std::int64_t waves = (others * splits + slots - 1) / slots;
    const std::int64_t each = (steps + splits - 1) / splits;
    const std::int64_t cost = 2 * waves * (each + kOverhead) + each;
    if (splits == 1 || cost < least) {
      best = splits;
      least = cost;
    }
  }
  return static_cast<int>(best);
}

struct Device {
  int major = 0;
  int processors = 0;

  // That which is current.
  Device() {
    int device = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  }
};

template <typename P>
int splits_of(const Sizes& sizes, const Device& device) {
  return splits_of(sizes, static_cast<std::int64_t>(device.processors) * P::kBlocks, P::kWarps);
}

template <typename P>
int run(const Forward& tensors, const Sizes& sizes, cudaStream_t stream) {
  const Device device;
  const Problem problem = {tensors,
                           sizes,
                           static_cast<int>(sizes.heads / sizes.kv_heads),
                           static_cast<int>(rows_of(sizes)),
                           static_cast<int>(tiles_of(sizes)),
                           splits_of<P>(sizes, device)};
  const auto pairs = static_cast<unsigned>(sizes.batch * sizes.kv_heads);
  const auto kind = cudaFuncAttributeMaxDynamicSharedMemorySize;
  if (const cudaError_t error = cudaFuncSetAttribute(attend_split<P>, kind, P::kShared)) {
    return error;
  }
  const dim3 blocks(static_cast<unsigned>(problem.splits * problem.tiles), pairs);
  attend_split<P><<<blocks, P::kThreads, P::kShared, stream>>>(problem);
  if (const cudaError_t error = cudaGetLastError()) {
    return error;
  }
  // From Hopper on its blocks start before the others have ended, and wait for them.
  cudaLaunchAttribute early;
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(problem.rows), pairs);
  config.blockDim = dim3(kMostSplits);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = device.major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, join<typename P::T, P::kWidth>, problem);
}

template <typename T, typename Function>
auto with_plan(std::int64_t width, Function function) {
  switch (width) {
    case 64:
      return function(Plan<T, 64, 2, 8, 2>());
    case 128:
      return function(Plan<T, 128, 2, 4, 3>());
    default:
      return function(Plan<T, 256, 1, 4, 2>());
  }
}

template <typename Function>
auto with_plan(Type type, std::int64_t width, Function function) {
  return type == Type::float16 ? with_plan<__half>(width, function) : with_plan<__nv_bfloat16>(width, function);
}

bool has_sixteens(const View& view) {
  return reinterpret_cast<std::uintptr_t>(view.at) % 16 == 0 && view.batch % 8 == 0 && view.head % 8 == 0 &&
         view.row % 8 == 0;
}

bool is_for_few(Type type, const Sizes& sizes) {
  constexpr std::int64_t kMostPairs = 65535;  // blocks in the second dimension of a grid
  constexpr std::int64_t kMostKeys = 1 << 30;
  return type != Type::float32 && sizes.keys > 0 && sizes.keys <= kMostKeys && rows_of(sizes) <= kMostRows &&
         (sizes.width == 64 || sizes.width == 128 || sizes.width == 256) && sizes.batch * sizes.kv_heads <= kMostPairs;
}

}  // namespace

int forward_of_few(Type type, const Forward& tensors, const Sizes& sizes, void* stream) {
  if (!is_for_few(type, sizes) || !has_sixteens(tensors.q) || !has_sixteens(tensors.k) || !has_sixteens(tensors.v)) {
    return kManyQueries;
  }
  return with_plan(type, sizes.width, [&](auto plan) {
    return run<decltype(plan)>(tensors, sizes, static_cast<cudaStream_t>(stream));
  });
}

std::int64_t forward_scratch_of_few(Type type, const Sizes& sizes) {
  if (!is_for_few(type, sizes)) {
    return 0;
  }
  return with_plan(type, sizes.width, [&](auto plan) -> std::int64_t {
    return sizes.batch * sizes.heads * sizes.queries * splits_of<decltype(plan)>(sizes, Device()) * (sizes.width + 2);
  });
}
[% endraw %]

}  // namespace [[ module ]]_impl
[% endif %]
