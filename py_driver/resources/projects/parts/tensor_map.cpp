[% include "projects/parts/find_encode.cpp" %]
[% raw %]
template <typename T>
constexpr CUtensorMapDataType kMap = CU_TENSOR_MAP_DATA_TYPE_UINT8;
template <>
constexpr CUtensorMapDataType kMap<__half> = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
template <>
constexpr CUtensorMapDataType kMap<__nv_bfloat16> = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
template <>
constexpr CUtensorMapDataType kMap<float> = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
template <>
constexpr CUtensorMapDataType kMap<int> = CU_TENSOR_MAP_DATA_TYPE_INT32;

// What TMA needs to know of a matrix that it moves in boxes of kBytes by `height` rows.
template <typename T>
bool encode(CUtensorMap& map, const Matrix& matrix, int height) {
  static const Encode function = find_encode();
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(matrix.columns), static_cast<cuuint64_t>(matrix.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(matrix.pitch) * sizeof(T)};
  const cuuint32_t box[] = {kBytes / sizeof(T), static_cast<cuuint32_t>(height)};
  const cuuint32_t steps[] = {1, 1};
  // Where rows begin within a line of 128 bytes, twice as much would be fetched that no box has.
  const CUtensorMapL2promotion fetched =
      strides[0] % 128 == 0 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
  return function != nullptr &&
         function(&map, kMap<T>, 2, const_cast<void*>(matrix.first), sizes, strides, box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, fetched,
                  CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}
[% endraw %]
