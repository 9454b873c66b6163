[% raw %]
// Which stage is next, and how often all were: the producer and the consumers count alike.
template <int kStages>
struct Turn {
  int stage = 0;
  unsigned phase = 0;

  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      phase ^= 1;
    }
  }
};
[% endraw %]
