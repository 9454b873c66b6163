[% if cuda %]
// Which keys and queries the kernels for gradients on Hopper GPUs have: of tensors of four dimensions, or of sequences.
#pragma once

#include "maps.h"
#include "sequences.h"
#include "warpgroup.h"

namespace [[ module ]]_impl {
namespace {
[% raw %]

// A block has kKeys keys, 64 for each of two warpgroups, and a step kQueries queries.
constexpr int kKeys = 128;
constexpr int kQueries = 64;
constexpr int kWidth = 128;

struct Problem {
  Backward tensors;
  float* of_queries;
  float* lse;    // in powers of two, and rows of no query: infinite, so that all their weights are 0
  float* delta;  // the sum of grad_out * out
  int batch;
  int heads;
  int kv_heads;
  int queries;
  int keys;
  int side_by_side;
  int steps;  // of a head
  float scale;
  Sequences sequences;  // if there are any, queries and keys are those of all
};

// What a block computes.
template <bool causal>
struct Place {
  static constexpr bool kCausal = causal;

  int first;  // key
  int kv_head;
  int batch;
  int step;  // the first one whose queries see a key

  __device__ explicit Place(const Problem& problem) {
    const int down = (problem.keys + kKeys - 1) / kKeys;
    const Spot spot(blockIdx.x, down, problem.batch * problem.kv_heads, problem.side_by_side);
    first = spot.tile * kKeys;
    batch = spot.pair / problem.kv_heads;
    kv_head = spot.pair % problem.kv_heads;
    step = kCausal ? max(0, first - (problem.keys - problem.queries)) / kQueries : 0;
  }

  __device__ int queries(const Problem& problem) const { return problem.queries; }

  __device__ int keys(const Problem& problem) const { return problem.keys; }

  __device__ int key_row(int key) const { return key; }

  __device__ int steps(const Problem& problem) const { return problem.steps; }

  // Where the steps of a head of q begin.
  __device__ std::int64_t first_step(const Problem& problem, int head) const {
    return (static_cast<std::int64_t>(batch) * problem.heads + head) * problem.steps;
  }

  __device__ void load_keys(void* to, const CUtensorMap& map, std::uint64_t& barrier) const {
    load(to, map, first, kv_head, batch, barrier);
  }

  __device__ void load_queries(void* to, const CUtensorMap& map, int own, int head, std::uint64_t& barrier) const {
    load(to, map, own * kQueries, head, batch, barrier);
  }
};

// Which queries a step has.
struct Step {
  int first;
  int head;
  int batch;

  __device__ Step(const Problem& problem, std::int64_t number) {
    const int pair = static_cast<int>(number / problem.steps);
    first = static_cast<int>(number % problem.steps) * kQueries;
    head = pair % problem.heads;
    batch = pair / problem.heads;
  }

  __device__ int queries(const Problem& problem) const { return problem.queries; }

  __device__ int row(int query) const { return query; }
};

// The same for sequences, one after another.
template <bool causal>
struct PackedPlace {
  static constexpr bool kCausal = causal;
  static constexpr int batch = 0;

  Sequence sequence;
  int first;
  int kv_head;
  int step;
  int begin;  // where the steps of the sequence begin in those of a head

  __device__ explicit PackedPlace(const Problem& problem) {
    const Packed packed(problem.sequences, problem.queries, problem.keys);
    const int found = packed.keys.find<kKeys>(blockIdx.x / problem.kv_heads);
    const int first_tile = packed.keys.tile<kKeys>(found);
    const int down = packed.keys.tile<kKeys>(found + 1) - first_tile;
    sequence = packed.sequence_of_keys(found);
    const Spot spot(blockIdx.x - first_tile * problem.kv_heads, down, problem.kv_heads, heads_side_by_side(problem));
    first = spot.tile * kKeys;
    kv_head = spot.pair;
    begin = packed.queries.tile<kQueries>(found);
    step = kCausal ? max(0, first - (sequence.keys - sequence.queries)) / kQueries : 0;
    if (first < 0 || first >= sequence.keys) {
      // Nothing to compute or to store.
      sequence.queries = 0;
      sequence.keys = 0;
    }
  }

  __device__ int queries(const Problem&) const { return sequence.queries; }

  __device__ int keys(const Problem&) const { return sequence.keys; }

  __device__ int key_row(int key) const { return sequence.key + key; }

  __device__ int steps(const Problem&) const { return (sequence.queries + kQueries - 1) / kQueries; }

  __device__ std::int64_t first_step(const Problem& problem, int head) const {
    return static_cast<std::int64_t>(head) * problem.steps + begin;
  }

  __device__ void load_keys(void* to, const CUtensorMap& map, std::uint64_t& barrier) const {
    load_within<kKeys>(to, map, sequence.key, sequence.keys, first, kv_head, barrier);
  }

  __device__ void load_queries(void* to, const CUtensorMap& map, int own, int head, std::uint64_t& barrier) const {
    load_within<kQueries>(to, map, sequence.query, sequence.queries, own * kQueries, head, barrier);
  }

 private:
  // So many that what they read stays in the L2 cache. If all blocks take as long, a head comes after the other.
  __device__ int heads_side_by_side(const Problem& problem) const {
    const std::int64_t group = problem.heads / problem.kv_heads;
    return kCausal ? side_by_side(problem.kv_heads, 4 * group * sequence.queries * kWidth) : 1;
  }
};

struct PackedStep {
  static constexpr int batch = 0;

  Sequence sequence;
  int first;
  int head;

  __device__ PackedStep(const Problem& problem, std::int64_t number) {
    const Packed packed(problem.sequences, problem.queries, problem.keys);
    const int tile = static_cast<int>(number % problem.steps);
    const int found = packed.queries.find<kQueries>(tile);
    sequence = packed.sequence_of_queries(found);
    first = (tile - packed.queries.tile<kQueries>(found)) * kQueries;
    head = static_cast<int>(number / problem.steps);
    if (first < 0) {
      sequence.queries = 0;
    }
  }

  __device__ int queries(const Problem&) const { return sequence.queries; }

  __device__ int row(int query) const { return sequence.query + query; }
};
[% endraw %]

}  // namespace
}  // namespace [[ module ]]_impl
[% endif %]
