[% raw %]
inline __device__ unsigned address_of(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// Barriers in shared memory: a phase of one ends when all threads arrived and all bytes that they expect are there.
inline __device__ void init(std::uint64_t& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address_of(&barrier)), "r"(arrivals));
}

inline __device__ void arrive_and_expect(std::uint64_t& barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address_of(&barrier)), "r"(bytes)
               : "memory");
}

inline __device__ void wait(std::uint64_t& barrier, unsigned phase) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(address_of(&barrier)),
      "r"(phase)
      : "memory");
}
[% endraw %]
