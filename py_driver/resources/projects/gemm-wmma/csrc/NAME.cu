[% if cuda %]
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "debug.h"
[% block headers %]
[% endblock %]

namespace [[ module ]]_impl {
namespace {

// The unit of all copies and of `ldmatrix`; what `mma` multiplies at once is two of them deep, for each type.
constexpr int kChunk = 16;
constexpr int kInstructionBytes = 2 * kChunk;
// The depth of a step: 32 numbers of 16 bits or 64 of 8. Two halves, so that one is loaded while one is multiplied.
constexpr int kStepBytes = 2 * kInstructionBytes;
// Blocks that run at the same time share rows of a and columns of b in the L2 cache: see `multiply`.
constexpr unsigned kGroup = 8;

// A block makes kRows x kColumns of the output; each of its warps a part of that, in registers. Small tiles are for
// small products, which have too few large ones. All fit into the 99 KiB that GPUs other than data center ones have.
template <int kRowsOf>
struct Tiles {
  static constexpr bool kLarge = kRowsOf == 128;
  static constexpr int kRows = kRowsOf;
  static constexpr int kColumns = kLarge ? 256 : 64;
  static constexpr int kWarpRows = kLarge ? 64 : 32;
  static constexpr int kWarpColumns = kLarge ? 64 : 32;
  static constexpr int kStages = kLarge ? 4 : 6;  // steps in shared memory: one is multiplied, the others are read
  static constexpr int kBlocks = kLarge ? 1 : 3;  // on a multiprocessor at the same time
  static constexpr int kWarpsAcross = kColumns / kWarpColumns;
  static constexpr int kThreads = 32 * (kRows / kWarpRows) * kWarpsAcross;
  static constexpr int kLeftBytes = kRows * kStepBytes;
  static constexpr int kStageBytes = kLeftBytes + kColumns * kStepBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes;
};

[% raw %]
__device__ unsigned address_of(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

// From device memory to shared memory without a register between, some time before `wait_for_groups` returns. Zeros
// are written in the place of what is not there.
__device__ void copy_later(unsigned to, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(is_there ? kChunk : 0)
               : "memory");
}

// Ends a group of copies.
__device__ void close_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all of this thread's groups are there but the last `kOthers`.
template <int kOthers>
__device__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kOthers) : "memory");
}

// Four matrices of 8 x 8 numbers of 16 bits. Each lane has the address of a row: lanes 0 to 7 of the first matrix, and
// so on. It gets numbers 2 * (lane % 4) and the next of row lane / 4: or, transposed, of that column.
template <bool kTransposed>
__device__ void load_matrices(unsigned (&to)[4], unsigned from) {
  if constexpr (kTransposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
  }
}

// Sums of 16 x 8 of the output: of row lane / 4 columns 2 * (lane % 4) and the next, then the same eight rows below.
#define MULTIPLY_ADD(types, kind)                                                                              \
  asm volatile("mma.sync.aligned." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"      \
               : kind(sums[0]), kind(sums[1]), kind(sums[2]), kind(sums[3])                                    \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))

template <typename In>
__device__ void multiply_add(float (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  if constexpr (std::is_same_v<In, __half>) {
    MULTIPLY_ADD("m16n8k16.row.col.f32.f16.f16.f32", "+f");
  } else {
    MULTIPLY_ADD("m16n8k16.row.col.f32.bf16.bf16.f32", "+f");
  }
}

template <typename In>
__device__ void multiply_add(int (&sums)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  MULTIPLY_ADD("m16n8k32.row.col.s32.s8.s8.s32", "+r");
}

// Two sums of float16 in a register.
template <typename In>
__device__ void multiply_add(__half2 (&sums)[2], const unsigned (&a)[4], const unsigned (&b)[2]) {
  auto& bits = reinterpret_cast<unsigned(&)[2]>(sums);
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
      : "+r"(bits[0]), "+r"(bits[1])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
[% endraw %]

// Writes two neighbours of a row.
__device__ void put(__half* to, const float* sums) {
  *reinterpret_cast<__half2*>(to) = __floats2half2_rn(sums[0], sums[1]);
}
__device__ void put(__nv_bfloat16* to, const float* sums) {
  *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(sums[0], sums[1]);
}
__device__ void put(__half* to, const __half2* sums) { *reinterpret_cast<__half2*>(to) = *sums; }
__device__ void put(int* to, const int* sums) { *reinterpret_cast<int2*>(to) = make_int2(sums[0], sums[1]); }

// A part of a matrix in shared memory: kLines of its lines, kBytes of each. Chunks of a line are moved so that the
// eight that `ldmatrix` or a quarter of a warp's copies touch at once are in different banks. Those are the same chunk
// of lines 0 to 7, or with kPairs of lines 0, 1, 4, 5, 8, 9, 12 and 13, or two after each.
template <int kLinesOf, int kBytesOf, bool kPairs>
struct Part {
  static constexpr int kLines = kLinesOf;
  static constexpr int kBytes = kBytesOf;
  static constexpr int kChunks = kBytes / kChunk;
  static constexpr int kSame = kPairs ? 16 : 8;  // lines after which the chunks are moved alike

  __device__ static int place(int line, int chunk) {
    const int moved = kPairs ? (line & 1) | (line >> 1 & 6) : line & 7;
    // Two lines of four chunks fill all banks: bit 0 of the line says which half.
    return line * kBytes + (chunk ^ (kChunks == 4 ? moved >> 1 : moved)) * kChunk;
  }
};

// Brings such parts of a matrix, one after the other: along its lines, or across them.
template <typename T, class Part, int kThreads, bool kAlong>
class Reader {
 public:
  __device__ Reader(const T* matrix, std::int64_t line, std::int64_t column, std::int64_t lines, std::int64_t length,
                    bool aligned)
      : from_(matrix + (line + own_line()) * length + column + own_column()),
        lines_left_(lines - line - own_line()),
        left_of_line_(length - column - own_column()),
        length_(length),
        to_(Part::place(own_line(), threadIdx.x % Part::kChunks)),
        aligned_(aligned) {}

  // What lies outside of the matrix is 0.
  __device__ void next(unsigned char* shared) {
    if (aligned_) {
      const unsigned to = address_of(shared + to_);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        copy_later(to + i * kBetween * Part::kBytes, from_ + i * kBetween * length_,
                   i * kBetween < lines_left_ && left_of_line_ > 0);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < kEach; ++i) {
        const T* const from = from_ + i * kBetween * length_;
        const std::int64_t there = i * kBetween < lines_left_ ? left_of_line_ : 0;
        alignas(kChunk) T values[kWide];
#pragma unroll
        for (int k = 0; k < kWide; ++k) {
          values[k] = k < there ? from[k] : T{};
        }
        *reinterpret_cast<uint4*>(shared + to_ + i * kBetween * Part::kBytes) = *reinterpret_cast<uint4*>(values);
      }
    }
    if constexpr (kAlong) {
      from_ += kForward;
      left_of_line_ -= kForward;
    } else {
      from_ += Part::kLines * length_;
      lines_left_ -= Part::kLines;
    }
  }

 private:
  static constexpr int kWide = kChunk / sizeof(T);
  static constexpr int kForward = Part::kBytes / sizeof(T);
  static constexpr int kEach = Part::kLines * Part::kChunks / kThreads;
  static constexpr int kBetween = kThreads / Part::kChunks;  // lines between two chunks of a thread
  static_assert(kBetween % Part::kSame == 0 && kEach * kBetween == Part::kLines);

  __device__ static int own_line() { return threadIdx.x / Part::kChunks; }
  __device__ static int own_column() { return threadIdx.x % Part::kChunks * kWide; }

  const T* from_;
  std::int64_t lines_left_;
  std::int64_t left_of_line_;
  std::int64_t length_;
  int to_;
  bool aligned_;
};

// Writes a warp's 16 rows of the output, which lie in shared memory with `kPitch` numbers to a row.
template <int kColumns, int kPitch, typename Out>
__device__ void store(Out* out, const Out* from, std::int64_t rows, std::int64_t columns, std::int64_t length,
                      bool aligned) {
  constexpr int kWide = kChunk / sizeof(Out);
  const int lane = threadIdx.x % 32;
  if (aligned) {
#pragma unroll 1
    for (int i = lane * kWide; i < 16 * kColumns; i += 32 * kWide) {
      const int row = i / kColumns;
      const int column = i % kColumns;
      if (row < rows && column < columns) {
        *reinterpret_cast<uint4*>(out + row * length + column) =
            *reinterpret_cast<const uint4*>(from + row * kPitch + column);
      }
    }
  } else {
#pragma unroll 1
    for (int i = lane; i < 16 * kColumns; i += 32) {
      const int row = i / kColumns;
      const int column = i % kColumns;
      if (row < rows && column < columns) {
        out[row * length + column] = from[row * kPitch + column];
      }
    }
  }
}

template <typename In, typename Sum, typename Out, bool kByColumns, int kRows>
__global__ void __launch_bounds__(Tiles<kRows>::kThreads, Tiles<kRows>::kBlocks)
    multiply(Out* __restrict__ out, const In* __restrict__ a, const In* __restrict__ b, Sizes sizes, bool aligned_a,
             bool aligned_b, bool aligned_out) {
  using Tile = Tiles<kRows>;
  using Bits = std::conditional_t<sizeof(In) == 1, unsigned char, unsigned short>;
  // `ldmatrix` transposes numbers of 16 bits: of 8 bits it moves pairs, see below.
  constexpr bool kPairs = sizeof(In) == 1 && !kByColumns;
  constexpr int kStep = kStepBytes / sizeof(In);
  constexpr int kDown = Tile::kWarpRows / 16;
  constexpr int kAcross = Tile::kWarpColumns / 8;
  using Left = Part<kRows, kStepBytes, false>;
  using Right = std::conditional_t<kByColumns, Part<Tile::kColumns, kStepBytes, false>,
                                   Part<kStep, Tile::kColumns * sizeof(In), kPairs>>;
  extern __shared__ __align__(128) unsigned char shared[];

  // Tiles are made in groups of kGroup rows of them, each column by column.
  const auto tiles_down = static_cast<unsigned>((sizes.rows + kRows - 1) / kRows);
  const auto tiles_across = static_cast<unsigned>((sizes.columns + Tile::kColumns - 1) / Tile::kColumns);
  const unsigned group = blockIdx.x / (kGroup * tiles_across) * kGroup;
  const unsigned in_group = blockIdx.x % (kGroup * tiles_across);
  const unsigned height = min(tiles_down - group, kGroup);
  const std::int64_t first_row = static_cast<std::int64_t>(group + in_group % height) * kRows;
  const std::int64_t first_column = static_cast<std::int64_t>(in_group / height) * Tile::kColumns;

  Reader<Bits, Left, Tile::kThreads, true> left(reinterpret_cast<const Bits*>(a), first_row, 0, sizes.rows,
                                                sizes.depth, aligned_a);
  Reader<Bits, Right, Tile::kThreads, kByColumns> right(
      reinterpret_cast<const Bits*>(b), kByColumns ? first_column : 0, kByColumns ? 0 : first_column,
      kByColumns ? sizes.columns : sizes.depth, kByColumns ? sizes.depth : sizes.columns, aligned_b);
  const std::int64_t steps = (sizes.depth + kStep - 1) / kStep;
  std::int64_t next_step = 0;
  const auto read_next = [&](int stage) {
    if (next_step < steps) {
      left.next(shared + stage * Tile::kStageBytes);
      right.next(shared + stage * Tile::kStageBytes + Tile::kLeftBytes);
    }
    ++next_step;
    close_group();
  };

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int down = warp / Tile::kWarpsAcross * Tile::kWarpRows;
  const int across = warp % Tile::kWarpsAcross * Tile::kWarpColumns;
  // What a warp multiplies next, and what it multiplies now.
  unsigned from_left[2][kDown][4];
  unsigned from_right[2][kAcross][2];
  const auto load_half = [&](int stage, int half) {
    const unsigned left_at = address_of(shared) + stage * Tile::kStageBytes;
    const unsigned right_at = left_at + Tile::kLeftBytes;
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
      load_matrices<false>(from_left[half][i],
                           left_at + Left::place(down + lane % 16, half * 2 + lane / 16) + i * 16 * kStepBytes);
    }
#pragma unroll
    for (int j = 0; j < kAcross; j += 2) {
      auto& one = from_right[half][j];
      auto& next = from_right[half][j + 1];
      unsigned four[4];
      if constexpr (kByColumns) {
        load_matrices<false>(four, right_at + j * 8 * kStepBytes +
                                       Right::place(across + lane / 16 * 8 + lane % 8, half * 2 + lane / 8 % 2));
      } else if constexpr (!kPairs) {
        load_matrices<true>(four, right_at + half * 16 * Right::kBytes +
                                      Right::place(lane % 16, across / 8 + j + lane / 16));
      } else {
        // Lane t % 4 needs lines 4t to 4t + 3: the first matrix has two of them, the second the other two, of two
        // neighbouring columns each. So the even columns of 16 go into one product, and the odd ones into the next.
        const int line = lane / 16 * 16 + lane % 8 / 2 * 4 + lane / 8 % 2 * 2 + lane % 2;
        unsigned pairs[4];
        load_matrices<true>(pairs, right_at + half * 32 * Right::kBytes + Right::place(line, across / 16 + j / 2));
        four[0] = __byte_perm(pairs[0], pairs[1], 0x6420);
        four[1] = __byte_perm(pairs[2], pairs[3], 0x6420);
        four[2] = __byte_perm(pairs[0], pairs[1], 0x7531);
        four[3] = __byte_perm(pairs[2], pairs[3], 0x7531);
      }
      one[0] = four[0];
      one[1] = four[1];
      next[0] = four[2];
      next[1] = four[3];
    }
  };

  std::conditional_t<std::is_same_v<Sum, __half>, __half2[2], Sum[4]> sums[kDown][kAcross] = {};
  const auto multiply_half = [&](int half) {
#pragma unroll
    for (int i = 0; i < kDown; ++i) {
#pragma unroll
      for (int j = 0; j < kAcross; ++j) {
        multiply_add<In>(sums[i][j], from_left[half][i], from_right[half][j]);
      }
    }
  };

#pragma unroll 1
  for (int stage = 0; stage < Tile::kStages - 1; ++stage) {
    read_next(stage);
  }
  wait_for_groups<Tile::kStages - 2>();
  __syncthreads();
  load_half(0, 0);
  int stage = 0;
  int free_stage = Tile::kStages - 1;
#pragma unroll 1
  for (std::int64_t step = 0; step < steps; ++step) {
    load_half(stage, 1);
    read_next(free_stage);
    multiply_half(0);
    // The next step is there, and all warps have loaded what they need of this one: its place is free.
    wait_for_groups<Tile::kStages - 2>();
    __syncthreads();
    free_stage = stage;
    stage = stage + 1 < Tile::kStages ? stage + 1 : 0;
    load_half(stage, 0);
    multiply_half(1);
  }
  wait_for_groups<0>();
  __syncthreads();

  // Through shared memory, so that lanes beside each other write what lies side by side.
  constexpr int kPitch = Tile::kWarpColumns + kChunk / sizeof(Out);
  static_assert(Tile::kThreads / 32 * 16 * kPitch * sizeof(Out) <= Tile::kSharedBytes);
  Out* const result = reinterpret_cast<Out*>(shared) + warp * 16 * kPitch;
#pragma unroll
  for (int i = 0; i < kDown; ++i) {
#pragma unroll
    for (int j = 0; j < kAcross; j += 2) {
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        constexpr int kEach = sizeof(sums[0][0]) / sizeof(sums[0][0][0]) / 2;
        const auto* const one = sums[i][j] + below * kEach;
        const auto* const next = sums[i][j + 1] + below * kEach;
        Out* const to = result + (lane / 4 + below * 8) * kPitch + j * 8;
        if constexpr (kPairs) {
          *reinterpret_cast<int4*>(to + lane % 4 * 4) = make_int4(one[0], next[0], one[1], next[1]);
        } else {
          put(to + lane % 4 * 2, one);
          put(to + lane % 4 * 2 + 8, next);
        }
      }
    }
    __syncwarp();
    const std::int64_t row = first_row + down + i * 16;
    const std::int64_t column = first_column + across;
    store<Tile::kWarpColumns, kPitch>(out + row * sizes.columns + column, result, sizes.rows - row,
                                      sizes.columns - column, sizes.columns, aligned_out);
    __syncwarp();
  }
}

// Whether chunks can be read and written anywhere in a matrix.
bool is_aligned(const void* matrix, std::int64_t columns, std::size_t size) {
  return reinterpret_cast<std::uintptr_t>(matrix) % kChunk == 0 && columns * size % kChunk == 0;
}

template <int kRows>
std::int64_t count(const Sizes& sizes) {
  constexpr int kColumns = Tiles<kRows>::kColumns;
  return (sizes.rows + kRows - 1) / kRows * ((sizes.columns + kColumns - 1) / kColumns);
}

template <int kRows, typename In, typename Sum, typename Out>
int run_with(void* out, const void* a, const void* b, const Sizes& sizes, cudaStream_t stream) {
  using Tile = Tiles<kRows>;
  const auto function =
      sizes.by_columns ? multiply<In, Sum, Out, true, kRows> : multiply<In, Sum, Out, false, kRows>;
  // More than 48 KiB must be asked for.
  const cudaError_t result =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (result != cudaSuccess) {
    return result;
  }
  function<<<static_cast<unsigned>(count<kRows>(sizes)), Tile::kThreads, Tile::kSharedBytes, stream>>>(
      static_cast<Out*>(out), static_cast<const In*>(a), static_cast<const In*>(b), sizes,
      is_aligned(a, sizes.depth, sizeof(In)),
      is_aligned(b, sizes.by_columns ? sizes.depth : sizes.columns, sizeof(In)),
      is_aligned(out, sizes.columns, sizeof(Out)));
  return cudaGetLastError();
}

template <typename In, typename Sum, typename Out>
int run_as(void* out, const void* a, const void* b, const Sizes& sizes, cudaStream_t stream) {
  int device = 0;
  int multiprocessors = 0;
  cudaError_t result = cudaGetDevice(&device);
  if (result == cudaSuccess) {
    result = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  }
  if (result != cudaSuccess) {
    return result;
  }
  const bool large = sizes.rows > 64 && sizes.columns > 64 && 2 * count<128>(sizes) >= multiprocessors;
  return large ? run_with<128, In, Sum, Out>(out, a, b, sizes, stream)
               : run_with<64, In, Sum, Out>(out, a, b, sizes, stream);
}

}  // namespace

[% block scratch %]
[% endblock %]
int run(Type type, void* out, const void* a, const void* b, const Sizes& sizes[% block argument %][% endblock %], void* stream) {
  if (sizes.rows == 0 || sizes.columns == 0) {
    return cudaSuccess;
  }
[% block faster %]
[% endblock %]
  const auto on = static_cast<cudaStream_t>(stream);
  switch (type) {
    case Type::float16:
      return run_as<__half, float, __half>(out, a, b, sizes, on);
    case Type::narrow_float16:
      return run_as<__half, __half, __half>(out, a, b, sizes, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16, float, __nv_bfloat16>(out, a, b, sizes, on);
    case Type::int8:
      return run_as<signed char, int, int>(out, a, b, sizes, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
[% endif %]
