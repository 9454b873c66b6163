[% if cuda %]
// The products of all experts in one launch.
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <type_traits>

#include "debug.h"
#include "hopper.h"

namespace [[ module ]]_impl {
[% raw %]
namespace {

constexpr int kWide = 8;  // elements in 16 bytes

// A block makes kRows x kColumns of the output at a time, in steps of kDepth, some of which are on their way while one
// is multiplied. Large tiles are for many rows of an expert: they read both matrices rarely. Small ones are for few,
// where all time goes into reading weights: more blocks have more of them on their way, and each warp has all rows, of
// which those that the expert does not have are left out. Both fit into the 99 KiB of GPUs other than data center ones.
template <bool kLarge>
struct Tile {
  static constexpr int kRows = kLarge ? 128 : 64;
  static constexpr int kColumns = kLarge ? 256 : 64;
  static constexpr int kDepth = kLarge ? 32 : 64;
  static constexpr int kSteps = 4;                // in shared memory
  static constexpr int kBlocks = kLarge ? 1 : 3;  // on a multiprocessor
  static constexpr int kWarpsDown = kLarge ? 2 : 1;
  static constexpr int kWarpsAcross = 4;
  static constexpr int kThreads = 32 * kWarpsDown * kWarpsAcross;
  // Fragments of 16 x 8 that a warp has.
  static constexpr int kDown = kRows / 16 / kWarpsDown;
  static constexpr int kAcross = kColumns / 8 / kWarpsAcross;
  static constexpr int kLeft = kRows * kDepth;  // elements of x in a step
  static constexpr int kStep = kLeft + kColumns * kDepth;
  static constexpr int kPitch = kColumns + kWide;  // of the result in shared memory: rows begin in different banks
  static constexpr int kShared = kSteps * kStep * 2;
  static_assert(kRows * kPitch * 2 <= kShared && kShared <= 99 * 1024);
};

// Rows of tiles whose columns are made together, so that the cache has what they share.
constexpr int kBand = 16;
// Rows that experts have on average, up to which tiles are small: few experts have more than one of them then.
constexpr std::int64_t kFewRows = 32;

__device__ unsigned address_of(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// 16 bytes to shared memory, which come later: zeros unless `is_there`.
__device__ void copy_later(unsigned to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? 16 : 0)
               : "memory");
}

// The same for what is not aligned, at once: `count` elements (0 to 8, or outside of that) and zeros.
template <typename T>
__device__ void copy_now(T* to, const T* from, std::int64_t count) {
  alignas(16) T part[kWide];
#pragma unroll
  for (int i = 0; i < kWide; ++i) {
    part[i] = i < count ? from[i] : T(0.0f);
  }
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(part);
}

// Where a chunk of a line lies, in lines of kChunks of 16 bytes. Bits are exchanged such that the eight chunks that are
// read at the same time lie in different banks: those of lines beside each other.
template <int kChunks>
__device__ int place_of_chunk(int line, int chunk) {
  return (line * kChunks + (chunk ^ (kChunks == 4 ? line / 2 % 4 : line % 8))) * kWide;
}

template <bool kTransposed>
__device__ void load(unsigned (&to)[4], const void* from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address_of(from))
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address_of(from))
                 : "memory");
  }
}

template <typename T>
__device__ void multiply_fragment(float (&sums)[4], const unsigned (&left)[4], unsigned low, unsigned high) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(low), "r"(high));
  }
}

// Where a block is: `first` rows of tiles come before those of `expert`, which has the rows from `begin` to `end`.
struct Place {
  std::int64_t expert;
  std::int64_t first;
  std::int64_t begin;
  std::int64_t end;
};

// The expert of a row of tiles, which is none of an expert before that of `place`; false if there are no more.
template <int kRows>
__device__ bool find_expert(Place& place, std::int64_t row_of_tiles, const Product& tensors) {
  while (place.expert < tensors.experts) {
    const std::int64_t down = (place.end - place.begin + kRows - 1) / kRows;
    if (row_of_tiles < place.first + down) {
      return true;
    }
    place.first += down;
    place.begin = place.end;
    ++place.expert;
    place.end = place.expert < tensors.experts ? tensors.offsets[place.expert + 1] : place.end;
  }
  return false;
}

template <typename T, bool kByColumns, bool kLarge>
__global__ void __launch_bounds__(Tile<kLarge>::kThreads, Tile<kLarge>::kBlocks)
    multiply_experts(Product tensors, bool aligned) {
  using Own = Tile<kLarge>;
  constexpr int kDepth = Own::kDepth;
  constexpr int kDown = Own::kDown;
  constexpr int kAcross = Own::kAcross;
  constexpr int kParts = kDepth / 16;
  // 16 bytes of a line: of x, and of the weight, whose lines are columns or rows.
  constexpr int kLeftChunks = kDepth / kWide;
  constexpr int kRightChunks = (kByColumns ? kDepth : Own::kColumns) / kWide;
  // What a thread copies in each step, and how many lines lie between.
  constexpr int kLeftEach = Own::kLeft / kWide / Own::kThreads;
  constexpr int kRightEach = Own::kColumns * kDepth / kWide / Own::kThreads;
  constexpr int kLeftBetween = Own::kThreads / kLeftChunks;
  constexpr int kRightBetween = Own::kThreads / kRightChunks;
  static_assert(kLeftBetween % 8 == 0 && kRightBetween % 8 == 0 && kParts % 2 == 0);
  extern __shared__ uint4 shared[];
  T* const steps_of = reinterpret_cast<T*>(shared);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int down = warp / Own::kWarpsAcross * kDown * 16;
  const int across = warp % Own::kWarpsAcross * kAcross * 8;
  const int left_line = threadIdx.x / kLeftChunks;
  const int left_element = threadIdx.x % kLeftChunks * kWide;
  const int left_to = place_of_chunk<kLeftChunks>(left_line, threadIdx.x % kLeftChunks);
  const int right_line = threadIdx.x / kRightChunks;
  const int right_element = threadIdx.x % kRightChunks * kWide;
  const int right_to = Own::kLeft + place_of_chunk<kRightChunks>(right_line, threadIdx.x % kRightChunks);
  const std::int64_t tiles_across = (tensors.columns + Own::kColumns - 1) / Own::kColumns;
  const std::int64_t steps = (tensors.depth + kDepth - 1) / kDepth;
  const bool aligned_out = tensors.columns % kWide == 0;
  Place place = {0, 0, tensors.offsets[0], tensors.offsets[1]};
  for (std::int64_t tile = blockIdx.x; find_expert<Own::kRows>(place, tile / tiles_across, tensors);
       tile += gridDim.x) {
    const std::int64_t tiles_down = (place.end - place.begin + Own::kRows - 1) / Own::kRows;
    const std::int64_t own = tile - place.first * tiles_across;
    const std::int64_t band = own / (kBand * tiles_across) * kBand;
    const std::int64_t height = min(static_cast<std::int64_t>(kBand), tiles_down - band);
    const std::int64_t in_band = own - band * tiles_across;
    const std::int64_t first_row = place.begin + (band + in_band % height) * Own::kRows;
    const std::int64_t first_column = in_band / height * Own::kColumns;
    const int rows = static_cast<int>(min(static_cast<std::int64_t>(Own::kRows), place.end - first_row));

    const T* from_x[kLeftEach];
#pragma unroll
    for (int i = 0; i < kLeftEach; ++i) {
      const std::int64_t row = first_row + min(left_line + i * kLeftBetween, rows - 1);
      const std::int64_t source = tensors.sources ? tensors.sources[row] : row;
      from_x[i] = static_cast<const T*>(tensors.x) + source * tensors.x_stride + left_element;
    }
    const std::int64_t line = right_line + (kByColumns ? first_column : 0);
    const std::int64_t element = right_element + (kByColumns ? 0 : first_column);
    const T* from_w = static_cast<const T*>(tensors.weights) + place.expert * tensors.expert_stride +
                      line * tensors.weight_stride + element;
    std::int64_t x_left = tensors.depth - left_element;
    std::int64_t lines_left = (kByColumns ? tensors.columns : tensors.depth) - line;
    std::int64_t w_left = (kByColumns ? tensors.depth : tensors.columns) - element;
    std::int64_t next_step = 0;
    const auto copy_next = [&](int stage) {
      T* const to = steps_of + stage * Own::kStep;
      if (next_step < steps) {
// One branch for all copies: each more would keep the compiler from placing them among the products.
        if (aligned) {
          const unsigned left = address_of(to + left_to);
          const unsigned right = address_of(to + right_to);
#pragma unroll
          for (int i = 0; i < kLeftEach; ++i) {
            copy_later(left + i * kLeftBetween * kDepth * 2, from_x[i],
                       left_line + i * kLeftBetween < rows && x_left > 0);
          }
#pragma unroll
          for (int i = 0; i < kRightEach; ++i) {
            copy_later(right + i * kRightBetween * kRightChunks * 16,
                       from_w + i * kRightBetween * tensors.weight_stride,
                       i * kRightBetween < lines_left && w_left > 0);
          }
        } else {
#pragma unroll
          for (int i = 0; i < kLeftEach; ++i) {
            copy_now(to + left_to + i * kLeftBetween * kDepth, from_x[i],
                     left_line + i * kLeftBetween < rows ? x_left : 0);
          }
#pragma unroll 1
          for (int i = 0; i < kRightEach; ++i) {
            copy_now(to + right_to + i * kRightBetween * kRightChunks * kWide,
                     from_w + i * kRightBetween * tensors.weight_stride, i * kRightBetween < lines_left ? w_left : 0);
          }
        }
#pragma unroll
        for (int i = 0; i < kLeftEach; ++i) {
          from_x[i] += kDepth;
        }
        x_left -= kDepth;
        if constexpr (kByColumns) {
          from_w += kDepth;
          w_left -= kDepth;
        } else {
          from_w += kDepth * tensors.weight_stride;
          lines_left -= kDepth;
        }
      }
      ++next_step;
      asm volatile("cp.async.commit_group;" ::: "memory");
    };

    // Fragments of rows that the expert does not have are left out.
    const int live = (rows - down + 15) / 16;
    // What a warp multiplies next, and what it multiplies now.
    unsigned from_left[2][kDown][4];
    unsigned from_right[2][kAcross / 2][4];
    const auto load_part = [&](int stage, int part) {
      const T* const left = steps_of + stage * Own::kStep;
      const T* const right = left + Own::kLeft;
#pragma unroll
      for (int i = 0; i < kDown; ++i) {
        if (kLarge || i < live) {
          load<false>(from_left[part % 2][i],
                      left + place_of_chunk<kLeftChunks>(down + i * 16 + lane % 16, part * 2 + lane / 16));
        }
      }
#pragma unroll
      for (int j = 0; j < kAcross / 2; ++j) {
        const int column = across + j * 16;
        if constexpr (kByColumns) {
          load<false>(from_right[part % 2][j], right + place_of_chunk<kRightChunks>(column + lane % 8 + lane / 16 * 8,
                                                                                    part * 2 + lane / 8 % 2));
        } else {
          load<true>(from_right[part % 2][j],
                     right + place_of_chunk<kRightChunks>(part * 16 + lane % 16, column / 8 + lane / 16));
        }
      }
    };
    float sums[kDown][kAcross][4] = {};
    const auto multiply_row = [&](int part, int i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        const unsigned* const both = from_right[part % 2][j / 2] + j % 2 * 2;
        multiply_fragment<T>(sums[i][j], from_left[part % 2][i], both[0], both[1]);
      }
    };
#pragma unroll 1
    for (int stage = 0; stage < Own::kSteps - 1; ++stage) {
      copy_next(stage);
    }
    asm volatile("cp.async.wait_group %0;" ::"n"(Own::kSteps - 2) : "memory");
    __syncthreads();
    load_part(0, 0);
    const auto multiply_steps = [&](auto whole) {
      int stage = 0;
      int free_stage = Own::kSteps - 1;
#pragma unroll 1
      for (std::int64_t step = 0; step < steps; ++step) {
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          if (part == kParts - 1) {
            // The next step is there, and all warps have loaded what they need of this one: its place is free.
            asm volatile("cp.async.wait_group %0;" ::"n"(Own::kSteps - 2) : "memory");
            __syncthreads();
            free_stage = stage;
            stage = stage + 1 < Own::kSteps ? stage + 1 : 0;
          }
          load_part(stage, (part + 1) % kParts);
          if (part == 0) {
            copy_next(free_stage);
          }
#pragma unroll
          for (int i = 0; i < kDown; ++i) {
            if (decltype(whole)::value || i < live) {
              multiply_row(part, i);
            }
          }
        }
      }
    };
    // A loop without branches for tiles that are full: that is the same for all warps, which wait for each other.
    if (kLarge && rows == Own::kRows) {
      multiply_steps(std::true_type());
    } else {
      multiply_steps(std::false_type());
    }
    // The result goes through shared memory, so that rows are stored 16 bytes at a time.
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          T* const to =
              steps_of + (down + i * 16 + half * 8 + lane / 4) * Own::kPitch + across + j * 8 + lane % 4 * 2;
          to[0] = T(sums[i][j][half * 2]);
          to[1] = T(sums[i][j][half * 2 + 1]);
        }
      }
    }
    __syncthreads();
    constexpr int kChunks = Own::kColumns / kWide;
    for (int i = threadIdx.x; i < rows * kChunks; i += Own::kThreads) {
      const T* const from = steps_of + i / kChunks * Own::kPitch + i % kChunks * kWide;
      const std::int64_t column = first_column + i % kChunks * kWide;
      T* const to = static_cast<T*>(tensors.out) + (first_row + i / kChunks) * tensors.columns + column;
      if (aligned_out && column < tensors.columns) {
        *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
      } else {
        for (int k = 0; k < kWide && column + k < tensors.columns; ++k) {
          to[k] = from[k];
        }
      }
    }
    __syncthreads();
  }
}

template <bool kLarge>
std::int64_t most_tiles(const Product& tensors) {
  // Each expert may have one that is not full.
  return (tensors.rows / Tile<kLarge>::kRows + std::min(tensors.rows, tensors.experts)) *
         ((tensors.columns + Tile<kLarge>::kColumns - 1) / Tile<kLarge>::kColumns);
}

template <typename T, bool kByColumns, bool kLarge>
int launch(const Product& tensors, int processors, cudaStream_t stream) {
  using Own = Tile<kLarge>;
  const auto are_wide = [](auto... counts) { return ((counts | ...) % kWide) == 0; };
  const auto is_aligned = [](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; };
  const bool aligned_x = is_aligned(tensors.x) && are_wide(tensors.x_stride, tensors.depth);
  const bool aligned_w = is_aligned(tensors.weights) && are_wide(tensors.weight_stride, tensors.expert_stride,
                                                                 kByColumns ? tensors.depth : tensors.columns);
  const auto kernel = multiply_experts<T, kByColumns, kLarge>;
  if (const cudaError_t error =
          cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Own::kShared)) {
    return error;
  }
  const std::int64_t blocks = std::min<std::int64_t>(most_tiles<kLarge>(tensors), processors * Own::kBlocks);
  kernel<<<static_cast<unsigned>(blocks), Own::kThreads, Own::kShared, stream>>>(tensors, aligned_x && aligned_w);
  return cudaGetLastError();
}

template <typename T>
int multiply_as(const Product& tensors, cudaStream_t stream) {
  int device = 0;
  int processors = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
  const bool large = tensors.rows > kFewRows * tensors.experts && 2 * most_tiles<true>(tensors) >= processors;
  if (tensors.by_columns) {
    return large ? launch<T, true, true>(tensors, processors, stream)
                 : launch<T, true, false>(tensors, processors, stream);
  }
  return large ? launch<T, false, true>(tensors, processors, stream)
               : launch<T, false, false>(tensors, processors, stream);
}

}  // namespace

std::int64_t scratch_bytes(const Product& tensors) {
#if __CUDACC_VER_MAJOR__ >= 12
  return scratch_on_hopper(tensors);
#else
  return 0;
#endif
}

int multiply(Type type, const Product& tensors, void* scratch, void* stream) {
#if __CUDACC_VER_MAJOR__ >= 12
  const int result = multiply_on_hopper(type, tensors, scratch, stream);
  if (result != kNotForHopper) {
    return result;
  }
#endif
  const auto on = static_cast<cudaStream_t>(stream);
  return type == Type::float16 ? multiply_as<__half>(tensors, on) : multiply_as<__nv_bfloat16>(tensors, on);
}

[% endraw %]
}  // namespace [[ module ]]_impl
[% endif %]
