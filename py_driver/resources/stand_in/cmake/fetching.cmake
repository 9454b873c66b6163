# Refuses FetchContent of what is elsewhere: with its name and address, for py_driver/recording/failures.py to report.

macro(recorded_fetching method name)
  __FetchContent_getSavedDetails(${name} recorded_details)
  cmake_parse_arguments(recorded "" "GIT_REPOSITORY;URL" "" ${recorded_details})
  string(TOUPPER ${name} recorded_upper)
  if((recorded_GIT_REPOSITORY OR recorded_URL MATCHES "^[a-z]+://")
     AND NOT FETCHCONTENT_SOURCE_DIR_${recorded_upper}
     AND NOT FETCHCONTENT_FULLY_DISCONNECTED)
    message(FATAL_ERROR "recording: FetchContent of ${name} from ${recorded_GIT_REPOSITORY}${recorded_URL}")
  endif()
endmacro()

cmake_language(SET_DEPENDENCY_PROVIDER recorded_fetching SUPPORTED_METHODS FETCHCONTENT_MAKEAVAILABLE_SERIAL)
