# SPDX-License-Identifier: Apache-2.0
#
# cmake -Dbuild=<folder> -Dprefix=<folder> -Dconfig=<name> -P uninstall.cmake: installs beside a stranger's file, and uninstalls:
# all that is left must be the stranger's.
include("${CMAKE_CURRENT_LIST_DIR}/install.cmake")
file(WRITE "${prefix}/include/stranger.h" "")
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target uninstall COMMAND_ERROR_IS_FATAL ANY)
file(GLOB_RECURSE left LIST_DIRECTORIES false RELATIVE "${prefix}" "${prefix}/*")
if(NOT left STREQUAL "include/stranger.h")
  message(FATAL_ERROR "After uninstall there is: ${left}")
endif()
file(GLOB_RECURSE folders LIST_DIRECTORIES true RELATIVE "${prefix}" "${prefix}/*")
list(FILTER folders INCLUDE REGEX kvcache)
if(folders)
  message(FATAL_ERROR "After uninstall there are folders of the library: ${folders}")
endif()
# Nothing is installed now, and a second call says so.
execute_process(COMMAND "${CMAKE_COMMAND}" --build "${build}" --target uninstall RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
if(code EQUAL 0)
  message(FATAL_ERROR "Uninstalling twice was said to have worked")
endif()
