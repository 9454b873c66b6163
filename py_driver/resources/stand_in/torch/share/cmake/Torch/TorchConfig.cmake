# find_package(Torch) while a project is recorded: the names and flags that torch's own package adds, without libraries.
#
# Source: TorchConfig.cmake, Caffe2Targets.cmake and public/cuda.cmake of torch 2.13.

include("${CMAKE_CURRENT_LIST_DIR}/../../../../cmake/configuration.cmake")

set(TORCH_INSTALL_PREFIX "${RECORDED_TORCH}")
set(TORCH_INCLUDE_DIRS "${RECORDED_TORCH}/include" "${RECORDED_TORCH}/include/torch/csrc/api/include")
set(TORCH_CXX_FLAGS "-D_GLIBCXX_USE_CXX11_ABI=${RECORDED_CXX11}")
set(TORCH_LIBRARY "${RECORDED_TORCH}/lib/libtorch.so")
set(TORCH_LIBRARIES torch torch_library "${RECORDED_TORCH}/lib/libc10.so")
set(torch_names torch torch_cpu c10)

if(RECORDED_CUDA)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  list(APPEND torch_names torch_cuda c10_cuda)
  set(TORCH_CUDA_LIBRARIES "${RECORDED_TORCH}/lib/libc10_cuda.so")
  list(APPEND TORCH_LIBRARIES ${TORCH_CUDA_LIBRARIES})
  set(CUDA_VERSION "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
  set(CUDA_FOUND TRUE)
  # torch chooses the architectures itself, by TORCH_CUDA_ARCH_LIST, and so CMake does not.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  if(NOT DEFINED TORCH_CUDA_ARCH_LIST AND DEFINED ENV{TORCH_CUDA_ARCH_LIST})
    set(TORCH_CUDA_ARCH_LIST "$ENV{TORCH_CUDA_ARCH_LIST}")
  endif()
  set(CUDA_NVCC_FLAGS -DONNX_NAMESPACE=onnx_c2)
  string(REPLACE " " ";" torch_archs "${TORCH_CUDA_ARCH_LIST}")
  foreach(torch_arch IN LISTS torch_archs)
    if(NOT torch_arch MATCHES "^([0-9]+)\\.([0-9][af]?)(\\+PTX)?$")
      message(FATAL_ERROR "recording: `${torch_arch}` of TORCH_CUDA_ARCH_LIST is no architecture such as 9.0")
    endif()
    set(torch_number "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    list(APPEND CUDA_NVCC_FLAGS -gencode "arch=compute_${torch_number},code=sm_${torch_number}")
    if(CMAKE_MATCH_3)
      list(APPEND CUDA_NVCC_FLAGS -gencode "arch=compute_${torch_number},code=compute_${torch_number}")
    endif()
  endforeach()
  list(APPEND CUDA_NVCC_FLAGS --expt-relaxed-constexpr --expt-extended-lambda)
  list(JOIN CUDA_NVCC_FLAGS " " torch_flags)
  string(APPEND CMAKE_CUDA_FLAGS " ${torch_flags}")
endif()

if(NOT TARGET torch)
  foreach(torch_name IN LISTS torch_names)
    add_library(${torch_name} SHARED IMPORTED)
    set_target_properties(${torch_name} PROPERTIES
      IMPORTED_LOCATION "${RECORDED_TORCH}/lib/lib${torch_name}.so"
      INTERFACE_INCLUDE_DIRECTORIES "${TORCH_INCLUDE_DIRS}")
  endforeach()
  set_target_properties(torch_cpu PROPERTIES
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO;USE_RPC;USE_TENSORPIPE"
    INTERFACE_LINK_LIBRARIES c10)
  set_target_properties(torch PROPERTIES
    INTERFACE_LINK_LIBRARIES torch_cpu
    INTERFACE_COMPILE_OPTIONS "${TORCH_CXX_FLAGS}")
  add_library(torch_library INTERFACE IMPORTED)
  set_target_properties(torch_library PROPERTIES INTERFACE_LINK_LIBRARIES torch)
endif()

set(TORCH_FOUND TRUE)
set(Torch_FOUND TRUE)
