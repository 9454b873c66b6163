# Refuses FetchContent for what is not there: with its name and address, for py_driver/recording/failures.py to report.

macro(recorded_fetching method name)
  FetchContent_GetProperties(${name})
  __FetchContent_getSavedDetails(${name} recorded_details)
  cmake_parse_arguments(recorded "" "SOURCE_DIR;GIT_REPOSITORY;URL" "" ${recorded_details})
  if(NOT (DEFINED recorded_SOURCE_DIR AND IS_DIRECTORY "${recorded_SOURCE_DIR}")
     AND NOT FETCHCONTENT_SOURCE_DIR_${name})
    message(FATAL_ERROR "recording: FetchContent of ${name} from ${recorded_GIT_REPOSITORY}${recorded_URL}")
  endif()
endmacro()

cmake_language(SET_DEPENDENCY_PROVIDER recorded_fetching SUPPORTED_METHODS FETCHCONTENT_MAKEAVAILABLE_SERIAL)
