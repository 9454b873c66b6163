# CMake's compilers while a project is recorded: programs that note their arguments. What CMake otherwise finds out by
# compiling is stated here, for gcc and nvcc on Linux. configuration.cmake, beside this file, has what differs between
# recordings.
#
# Source of the variables: CMakeDetermine*Compiler.cmake and Compiler/*.cmake of CMake 3.26 to 4.4.

include("${CMAKE_CURRENT_LIST_DIR}/configuration.cmake")

if(NOT CMAKE_HOST_SYSTEM_PROCESSOR STREQUAL RECORDED_CPU)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${RECORDED_CPU})
endif()
set(CMAKE_LIBRARY_ARCHITECTURE ${RECORDED_CPU}-linux-gnu)

# Only the programs of a recording, whatever the project or its command line says.
set(CMAKE_C_COMPILER ${RECORDED_PROGRAMS}/cc CACHE FILEPATH "" FORCE)
set(CMAKE_CXX_COMPILER ${RECORDED_PROGRAMS}/c++ CACHE FILEPATH "" FORCE)
set(CMAKE_AR ${RECORDED_PROGRAMS}/ar CACHE FILEPATH "" FORCE)
foreach(name IN ITEMS RANLIB STRIP NM OBJCOPY OBJDUMP READELF LINKER)
  set(CMAKE_${name} /usr/bin/true CACHE FILEPATH "" FORCE)
endforeach()

# The default standard is an older one than gcc's, so that a project's own choice of C++17 is a flag.
set(RECORDED_C_STANDARD 11)
set(RECORDED_CXX_STANDARD 14)
foreach(language IN ITEMS C CXX)
  set(CMAKE_${language}_COMPILER_ID_RUN 1)
  set(CMAKE_${language}_COMPILER_ID GNU)
  set(CMAKE_${language}_COMPILER_VERSION ${RECORDED_GCC})
  set(CMAKE_${language}_ABI_COMPILED 1)
  set(CMAKE_${language}_SIZEOF_DATA_PTR 8)
  set(CMAKE_${language}_BYTE_ORDER LITTLE_ENDIAN)
  set(CMAKE_${language}_COMPILER_ABI ELF)
  set(CMAKE_${language}_STANDARD_COMPUTED_DEFAULT ${RECORDED_${language}_STANDARD})
  set(CMAKE_${language}_EXTENSIONS_COMPUTED_DEFAULT ON)
  set(CMAKE_${language}_PLATFORM_ID Linux)
  set(CMAKE_${language}_COMPILER_FRONTEND_VARIANT GNU)
endforeach()

# Objects alone: what a try_compile links would be run or read by nobody.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)

if(RECORDED_CUDA)
  set(CMAKE_CUDA_COMPILER ${RECORDED_TOOLKIT}/bin/nvcc CACHE FILEPATH "" FORCE)
  set(CMAKE_CUDA_HOST_COMPILER ${RECORDED_PROGRAMS}/c++ CACHE FILEPATH "" FORCE)
  set(CMAKE_CUDA_COMPILER_ID_RUN 1)
  set(CMAKE_CUDA_COMPILER_ID NVIDIA)
  set(CMAKE_CUDA_COMPILER_VERSION ${RECORDED_CUDA})
  set(CMAKE_CUDA_ABI_COMPILED 1)
  set(CMAKE_CUDA_HOST_COMPILER_ID GNU)
  set(CMAKE_CUDA_HOST_COMPILER_VERSION ${RECORDED_GCC})
  set(CMAKE_CUDA_COMPILER_TOOLKIT_ROOT ${RECORDED_TOOLKIT})
  set(CMAKE_CUDA_COMPILER_LIBRARY_ROOT ${RECORDED_TOOLKIT})
  set(CMAKE_CUDA_COMPILER_TOOLKIT_LIBRARY_ROOT ${RECORDED_TOOLKIT})
  set(CMAKE_CUDA_COMPILER_TOOLKIT_VERSION ${RECORDED_CUDA})
  set(CMAKE_CUDA_SIZEOF_DATA_PTR 8)
  set(CMAKE_CUDA_BYTE_ORDER LITTLE_ENDIAN)
  set(CMAKE_CUDA_STANDARD_COMPUTED_DEFAULT ${RECORDED_CXX_STANDARD})
  set(CMAKE_CUDA_EXTENSIONS_COMPUTED_DEFAULT ON)
  set(CMAKE_CUDA_COMPILER_FRONTEND_VARIANT GNU)
  # What nvcc prints of a link, as far as CMake reads it: libraries, headers, and its default architecture.
  set(CMAKE_CUDA_COMPILER_PRODUCED_OUTPUT "#$ PATH=${RECORDED_TOOLKIT}/bin
#$ LIBRARIES=\"-L${RECORDED_TOOLKIT}/lib64\"
#$ INCLUDES=\"-I${RECORDED_TOOLKIT}/include\"
#$ cicc -arch compute_${RECORDED_DEFAULT_ARCH}
#$ ${RECORDED_PROGRAMS}/c++ \"-L${RECORDED_TOOLKIT}/lib64\" -lcudadevrt -lcudart_static -lrt -lpthread -ldl
")
  set(CUDAToolkit_ROOT ${RECORDED_TOOLKIT})
  set(CUDA_TOOLKIT_ROOT_DIR ${RECORDED_TOOLKIT} CACHE PATH "")
endif()

# Paths of this run mean nothing where the libraries are installed, and there is no ELF file to change.
set(CMAKE_SKIP_RPATH ON CACHE BOOL "" FORCE)
list(APPEND CMAKE_PREFIX_PATH ${RECORDED_TORCH}/share/cmake)

# A recording has no network: what a project fetches is refused where it asks, unless the files are there already.
set(CMAKE_PROJECT_TOP_LEVEL_INCLUDES "${CMAKE_CURRENT_LIST_DIR}/fetching.cmake")
