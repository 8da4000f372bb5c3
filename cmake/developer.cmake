# SPDX-License-Identifier: Apache-2.0
#
# What makes building again fast, when it is there: ccache and mold. A build without them is the same, only slower.
# Two clones share what is cached: paths below the project are relative to it, and precompiled headers count by their content,
# which is read once (INODECACHE): they have 100 MB, and hundreds of files include them.
option(KVC_FAST_TOOLS "Use ccache and mold if they are installed" ${PROJECT_IS_TOP_LEVEL})
if(NOT KVC_FAST_TOOLS)
  return()
endif()

find_program(KVC_CCACHE ccache DOC "ccache, which remembers what was compiled")
if(KVC_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(launcher "${PROJECT_BINARY_DIR}/ccache")
  file(CONFIGURE OUTPUT "${launcher}" CONTENT "#!/bin/sh
export CCACHE_BASEDIR='${PROJECT_SOURCE_DIR}' CCACHE_NOHASHDIR=1 CCACHE_INODECACHE=1 CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
exec '${KVC_CCACHE}' \"$@\"
" @ONLY)
  file(CHMOD "${launcher}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  set(CMAKE_C_COMPILER_LAUNCHER "${launcher}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${launcher}")
endif()

# For the programs that tests and developers link; what is shipped is linked as users link it.
set(kvc_fast_link "")
find_program(KVC_MOLD mold DOC "mold, a linker")
if(KVC_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 12.1)
  set(kvc_fast_link -fuse-ld=mold)
endif()
