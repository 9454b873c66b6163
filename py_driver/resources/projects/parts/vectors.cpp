// Loops are compiled for AVX2 as well; the loader takes what the machine has.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define VECTORS __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define VECTORS
#endif
#define INLINE inline __attribute__((always_inline))
