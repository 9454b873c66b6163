[% include "projects/parts/barriers.cpp" %]
[% raw %]
// After `init`: the other blocks and TMA are to see the barriers too.
inline __device__ void publish() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Fetches what TMA needs to know of a matrix.
inline __device__ void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// TMA: one thread asks for a box of a matrix; what lies outside of the matrix is 0.
inline __device__ void load(void* to, const CUtensorMap& map, int x, int y, std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
          address_of(to)),
      "l"(&map), "r"(x), "r"(y), "r"(address_of(&barrier))
      : "memory");
}

// A box of shared memory into a matrix, but for what lies outside of it.
inline __device__ void store(const CUtensorMap& map, int x, int y, const void* from) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;" ::"l"(&map),
      "r"(x), "r"(y), "r"(address_of(from))
      : "memory");
}

// Until all but the last `kOthers` stores of this thread have read their shared memory.
template <int kOthers>
__device__ void wait_for_stores() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kOthers) : "memory");
}
[% endraw %]
