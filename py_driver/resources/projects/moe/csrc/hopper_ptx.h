[% extends "projects/gemm-hopper/csrc/hopper_ptx.h" %]
[% block loads %]
[% raw -%]
// TMA: one thread asks for a box of one of several matrices; what lies outside of that matrix is 0.
inline __device__ void load(void* to, const CUtensorMap& map, int x, int y, int matrix, std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(address_of(to)),
      "l"(&map), "r"(x), "r"(y), "r"(matrix), "r"(address_of(&barrier))
      : "memory");
}

// The same for both blocks of the cluster: to the same place in the shared memory of each.
inline __device__ void load_for_both(void* to, const CUtensorMap& map, int x, int y, int matrix,
                                     std::uint64_t& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(address_of(to)),
      "l"(&map), "r"(x), "r"(y), "r"(matrix), "r"(address_of(&barrier)), "h"(static_cast<unsigned short>(3))
      : "memory");
}

[% endraw %]
[% endblock %]
