[% if cuda %]
// Which queries and keys a tile of the kernel for Hopper GPUs has: of tensors of four dimensions, or of sequences.
#pragma once

#include "maps.h"
#include "sequences.h"
#include "warpgroup.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

struct Problem {
  View out;
  float* lse;
  int* next_tile;
  int heads;
  int group;  // heads of q for each of k
  int queries;
  int keys;
  int pairs;         // of batch and head
  int side_by_side;  // of them, so many at a time
  int tiles;
  float scale;
  Sequences sequences;  // if there are any, queries and keys are those of all
};

// How many steps of kKeys keys the queries of a tile see.
template <typename P, bool kCausal>
__device__ int steps_of(int first, int queries, int keys) {
  const int seen = kCausal ? max(0, min(keys, min(first + P::kQueries, queries) + keys - queries)) : keys;
  return (seen + P::kKeys - 1) / P::kKeys;
}

// Where a tile lies, and how many steps of kKeys keys it takes. The tiles of a head that take most come first.
template <typename P, bool causal>
struct Place {
  static constexpr bool kCausal = causal;
  // What the thread that loads tells the others, and how they keep it.
  using Tile = int;
  using Kept = int;
  static constexpr int kSlots = 1;

  int first;
  int head;
  int batch;
  int steps;

  __device__ Place(const Problem& problem, Tile tile) {
    const int down = (problem.queries + P::kQueries - 1) / P::kQueries;
    const Spot spot(tile, down, problem.pairs, problem.side_by_side);
    first = (down - 1 - spot.tile) * P::kQueries;
    batch = spot.pair / problem.heads;
    head = spot.pair % problem.heads;
    steps = steps_of<P, kCausal>(first, problem.queries, problem.keys);
  }

  static __device__ Place of(const Problem& problem, Tile tile) { return Place(problem, tile); }

  static __device__ Tile find(const Problem&, int number) { return number; }

  static __device__ bool is_end(const Problem& problem, Tile tile) { return tile >= problem.tiles; }

  __device__ int queries(const Problem& problem) const { return problem.queries; }

  __device__ int keys(const Problem& problem) const { return problem.keys; }

  // A query's row in the output, and in that of a head in the log-sum-exps.
  __device__ int row(int query) const { return query; }

  __device__ void load_queries(void* to, const CUtensorMap& map, std::uint64_t& barrier) const {
    load(to, map, first, head, batch, barrier);
  }

  __device__ void load_keys(void* to, const CUtensorMap& map, int step, int kv_head, std::uint64_t& barrier) const {
    load(to, map, step * P::kKeys, kv_head, batch, barrier);
  }
};

// The same for sequences, one after another. The thread that loads finds a tile's sequence; the others get all of this.
template <typename P, bool causal>
struct PackedPlace {
  static constexpr bool kCausal = causal;
  static constexpr int batch = 0;
  // It stays in shared memory while the next one is written beside it: the registers are full.
  using Tile = PackedPlace;
  using Kept = const PackedPlace&;
  static constexpr int kSlots = 2;

  Sequence sequence;
  int first;
  int head;
  int steps;  // less than 0: there are no more tiles

  static __device__ Kept of(const Problem&, Kept tile) { return tile; }

  // Goes on to the next number as long as a tile is empty.
  static __device__ Tile find(const Problem& problem, int& number) {
    const Packed packed(problem.sequences, problem.queries, problem.keys);
    Tile tile;
    for (; number < problem.tiles; number = gridDim.x + atomicAdd(problem.next_tile, 1)) {
      const int found = packed.queries.find<P::kQueries>(number / problem.heads);
      const int begin = packed.queries.tile<P::kQueries>(found);
      const int down = packed.queries.tile<P::kQueries>(found + 1) - begin;
      tile.sequence = packed.sequence_of_queries(found);
      const Spot spot(number - begin * problem.heads, down, problem.heads, tile.heads_side_by_side(problem));
      tile.head = spot.pair;
      tile.first = (down - 1 - spot.tile) * P::kQueries;
      if (tile.first >= 0 && tile.first < tile.sequence.queries) {
        tile.steps = steps_of<P, kCausal>(tile.first, tile.sequence.queries, tile.sequence.keys);
        return tile;
      }
    }
    tile.steps = -1;
    return tile;
  }

  static __device__ bool is_end(const Problem&, const Tile& tile) { return tile.steps < 0; }

  __device__ int queries(const Problem&) const { return sequence.queries; }

  __device__ int keys(const Problem&) const { return sequence.keys; }

  __device__ int row(int query) const { return sequence.query + query; }

  __device__ void load_queries(void* to, const CUtensorMap& map, std::uint64_t& barrier) const {
    load_within<P::kQueries>(to, map, sequence.query, sequence.queries, first, head, barrier);
  }

  __device__ void load_keys(void* to, const CUtensorMap& map, int step, int kv_head, std::uint64_t& barrier) const {
    load_within<P::kKeys>(to, map, sequence.key, sequence.keys, step * P::kKeys, kv_head, barrier);
  }

 private:
  // So many that what they read stays in the L2 cache. If all tiles take as long, a head comes after the other.
  __device__ int heads_side_by_side(const Problem& problem) const {
    return kCausal ? side_by_side(problem.heads, std::int64_t{4} * sequence.keys * P::kWidth / problem.group) : 1;
  }
};
[% endraw %]

}  // namespace
}  // namespace [[ module ]]_impl
[% endif %]
