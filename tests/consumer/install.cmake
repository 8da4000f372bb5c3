# SPDX-License-Identifier: Apache-2.0
#
# cmake -Dbuild=<folder> -Dprefix=<folder> -Dconfig=<name> -P install.cmake: installs into an empty prefix.
file(REMOVE_RECURSE "${prefix}")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${build}" --prefix "${prefix}" --config "${config}"
  COMMAND_ERROR_IS_FATAL ANY)
