// Each rank copies its input to memory that its peers can address, a barrier says that it is there, and then each
// rank reads what it needs. Calls use the two buffers in turn: a rank that writes a buffer again has passed the barrier
// of the call in between, so nobody reads it any more.
#include "[[ module ]].h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "debug.h"

namespace [[ module ]]_impl {
namespace {

constexpr int kThreads = 512;

template <typename T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T values[kCount];
};

__device__ float to_float(float x) { return x; }
__device__ float to_float(__half x) { return __half2float(x); }
__device__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ T from_float(float x);
template <>
__device__ float from_float<float>(float x) { return x; }
template <>
__device__ __half from_float<__half>(float x) { return __float2half_rn(x); }
template <>
__device__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }

__device__ std::uint32_t* signals_of(const Peers& peers, int rank) {
  return reinterpret_cast<std::uint32_t*>(static_cast<char*>(peers.memory[rank]) + 2 * peers.capacity);
}

// Waits until this block has come here on every rank. What any thread of theirs wrote before can be read after it.
__device__ void barrier(const Peers& peers, std::uint32_t generation) {
  __syncthreads();
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < peers.ranks) {
    const int row = static_cast<int>(blockIdx.x) * kMaxRanks;
    std::uint32_t* const theirs = signals_of(peers, peer) + row + peers.rank;
    std::uint32_t* const mine = signals_of(peers, peers.rank) + row + peer;
    __threadfence_system();
    asm volatile("st.release.sys.global.u32 [ %0], %1;" ::"l"(theirs), "r"(generation) : "memory");
    std::uint32_t seen = 0;
    do {
      asm volatile("ld.acquire.sys.global.u32 %0, [ %1];" : "=r"(seen) : "l"(mine) : "memory");
    } while (static_cast<std::int32_t>(seen - generation) < 0);  // a peer may be one barrier ahead, and counts wrap
  }
  __syncthreads();
}

// A pack of a tensor whose last one may be cut off.
template <typename T>
__device__ Pack<T> load(const T* from, std::int64_t pack, std::int64_t count) {
  constexpr int kCount = Pack<T>::kCount;
  if ((pack + 1) * kCount <= count) {
    return reinterpret_cast<const Pack<T>*>(from)[pack];
  }
  Pack<T> found = {};
  for (int i = 0; i < kCount && pack * kCount + i < count; ++i) {
    found.values[i] = from[pack * kCount + i];
  }
  return found;
}

template <typename T>
__device__ void store(T* to, std::int64_t pack, std::int64_t count, const Pack<T>& value) {
  constexpr int kCount = Pack<T>::kCount;
  if ((pack + 1) * kCount <= count) {
    reinterpret_cast<Pack<T>*>(to)[pack] = value;
    return;
  }
  for (int i = 0; i < kCount && pack * kCount + i < count; ++i) {
    to[pack * kCount + i] = value.values[i];
  }
}

template <typename T, int kRanks>
__device__ Pack<T> sum(Pack<T>* const (&buffers)[kMaxRanks], int ranks, std::int64_t pack) {
  const int all = kRanks ? kRanks : ranks;
  float total[Pack<T>::kCount] = {};
  if constexpr (kRanks != 0) {
    Pack<T> read[kRanks];  // all of them before the first addition, so that they are on their way together
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
      read[rank] = buffers[rank][pack];
    }
#pragma unroll
    for (int rank = 0; rank < kRanks; ++rank) {
#pragma unroll
      for (int i = 0; i < Pack<T>::kCount; ++i) {
        total[i] += to_float(read[rank].values[i]);
      }
    }
  } else {
    for (int rank = 0; rank < all; ++rank) {
      const Pack<T> read = buffers[rank][pack];
      for (int i = 0; i < Pack<T>::kCount; ++i) {
        total[i] += to_float(read.values[i]);
      }
    }
  }
  Pack<T> result;
#pragma unroll
  for (int i = 0; i < Pack<T>::kCount; ++i) {
    result.values[i] = from_float<T>(total[i]);
  }
  return result;
}

template <typename T, int kRanks, bool kTwoShot>
__global__ void __launch_bounds__(kThreads) reduce(const Peers peers, T* out, const T* in, std::int64_t count) {
  constexpr int kCount = Pack<T>::kCount;
  std::uint32_t* const own = signals_of(peers, peers.rank);
  std::uint32_t* const generations = own + kMaxBlocks * kMaxRanks;
  std::uint32_t* const calls = generations + kMaxBlocks;
  std::uint32_t* const done = calls + 1;
  const std::uint32_t generation = generations[blockIdx.x];
  const std::int64_t offset = (*calls & 1u) * peers.capacity;
  Pack<T>* buffers[kMaxRanks] = {};
  for (int rank = 0; rank < peers.ranks; ++rank) {
    buffers[rank] = reinterpret_cast<Pack<T>*>(static_cast<char*>(peers.memory[rank]) + offset);
  }
  const std::int64_t packs = (count + kCount - 1) / kCount;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  Pack<T>* const mine = buffers[peers.rank];
  if constexpr (!kTwoShot) {
    for (std::int64_t pack = first; pack < packs; pack += step) {
      mine[pack] = load(in, pack, count);
    }
    barrier(peers, generation + 1);
    for (std::int64_t pack = first; pack < packs; pack += step) {
      store(out, pack, count, sum<T, kRanks>(buffers, peers.ranks, pack));
    }
  } else {
    // A block has the same packs of each share on every rank, so it only waits for its like.
    const std::int64_t share = (packs + peers.ranks - 1) / peers.ranks;
    const auto end = [&](int rank) { return min(packs - rank * share, share); };
    for (int rank = 0; rank < peers.ranks; ++rank) {
      for (std::int64_t pack = first; pack < end(rank); pack += step) {
        mine[rank * share + pack] = load(in, rank * share + pack, count);
      }
    }
    barrier(peers, generation + 1);
    const std::int64_t start = peers.rank * share;
    for (std::int64_t pack = first; pack < end(peers.rank); pack += step) {
      mine[start + pack] = sum<T, kRanks>(buffers, peers.ranks, start + pack);
    }
    barrier(peers, generation + 2);
    for (int next = 0; next < peers.ranks; ++next) {
      const int rank = (peers.rank + next) % peers.ranks;  // not all from the same one at once
      for (std::int64_t pack = first; pack < end(rank); pack += step) {
        store(out, rank * share + pack, count, buffers[rank][rank * share + pack]);
      }
    }
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    generations[blockIdx.x] = generation + (kTwoShot ? 2 : 1);
    // The last block to end counts the call: all others have read the count by then.
    if (atomicAdd(done, 1u) == gridDim.x - 1) {
      *done = 0;
      *calls += 1;
    }
  }
}

template <typename T, int kRanks>
int launch(const Peers& peers, void* out, const void* in, std::int64_t count, bool two_shot, cudaStream_t stream) {
  const std::int64_t packs = (count + Pack<T>::kCount - 1) / Pack<T>::kCount;
  const std::int64_t share = two_shot ? (packs + peers.ranks - 1) / peers.ranks : packs;
  // All blocks of all ranks run at once, as they wait for each other: no more than any GPU with NVLink has SMs.
  const std::int64_t wanted = (share + kThreads - 1) / kThreads;
  const int blocks = static_cast<int>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  const auto kernel = two_shot ? reduce<T, kRanks, true> : reduce<T, kRanks, false>;
  kernel<<<blocks, kThreads, 0, stream>>>(peers, static_cast<T*>(out), static_cast<const T*>(in), count);
  return cudaGetLastError();
}

template <typename T>
int run_as(const Peers& peers, void* out, const void* in, std::int64_t count, bool two_shot, cudaStream_t stream) {
  switch (peers.ranks) {
    case 2:
      return launch<T, 2>(peers, out, in, count, two_shot, stream);
    case 4:
      return launch<T, 4>(peers, out, in, count, two_shot, stream);
    case 8:
      return launch<T, 8>(peers, out, in, count, two_shot, stream);
    default:
      return launch<T, 0>(peers, out, in, count, two_shot, stream);
  }
}

}  // namespace

int run(Type type, const Peers& peers, void* out, const void* in, std::int64_t count, bool two_shot, void* stream) {
  const auto on = static_cast<cudaStream_t>(stream);
  if (count == 0) {
    return cudaSuccess;
  }
  switch (type) {
    case Type::float32:
      return run_as<float>(peers, out, in, count, two_shot, on);
    case Type::float16:
      return run_as<__half>(peers, out, in, count, two_shot, on);
    case Type::bfloat16:
      return run_as<__nv_bfloat16>(peers, out, in, count, two_shot, on);
  }
  return cudaErrorInvalidValue;
}

}  // namespace [[ module ]]_impl
