// Four numbers of a row beside each other. Without `aligned` they are stored one by one, as far as the row goes.
constexpr int kFour = 4;

template <typename Out, typename Sum>
__device__ void store_four(Out* out, const Sum (&sums)[kFour], std::int64_t left, bool aligned) {
  struct alignas(kFour * sizeof(Out)) Four {
    Out of[kFour];
  };
  Four four;
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    four.of[i] = static_cast<Out>(sums[i]);
  }
  if (aligned && left >= kFour) {
    *reinterpret_cast<Four*>(out) = four;
    return;
  }
#pragma unroll
  for (int i = 0; i < kFour; ++i) {
    if (i < left) {
      out[i] = four.of[i];
    }
  }
}
