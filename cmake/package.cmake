# SPDX-License-Identifier: Apache-2.0
#
# What cpack makes: one archive of everything (TGZ), and Debian packages (DEB): three, and one for each GPU backend and plug-in. `scripts/package` makes both with the
# folders that each should have.
set(CPACK_PACKAGE_NAME kvcache)
set(CPACK_PACKAGE_VENDOR "libkvcache")
set(CPACK_PACKAGE_CONTACT "libkvcache" CACHE STRING "Who answers for a package: a name and <address>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_FILE_NAME "kvcache-${PROJECT_VERSION}-${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_COMPONENTS_ALL runtime development)
set(kvc_deb_runtime "libkvcache0")
set(kvc_deb_development "libkvcache-dev")
set(kvc_deb_tool "kvcache")
set(kvc_deb_cuda "libkvcache-cuda")
set(kvc_deb_hip "libkvcache-hip")

set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_HIP_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
set(CPACK_COMPONENT_TOOL_DEPENDS runtime)
set(CPACK_COMPONENT_CUDA_DEPENDS runtime)  # of the same version: a backend of another is refused
set(CPACK_COMPONENT_HIP_DEPENDS runtime)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "KV cache of LLM inference engines (shared library)
Splits the key-value cache of a large language model into blocks, shares
equal prefixes between requests, evicts what was used least recently, and
can keep keys and values itself and compute paged attention over them.")
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "KV cache of LLM inference engines (development files)
Headers for C and C++, the static library, and what pkg-config and CMake
read to find libkvcache.")
set(CPACK_COMPONENT_TOOL_DESCRIPTION "KV cache of LLM inference engines (command)
Says how much memory the cache of a model takes, replays traces of
requests and reports hit rates, and measures the library on this machine.")
set(CPACK_COMPONENT_CUDA_DESCRIPTION "KV cache of LLM inference engines (GPUs of NVIDIA)
Lets libkvcache keep keys and values on GPUs of NVIDIA and compute paged
attention there. Works once NVIDIA's driver is installed.")
set(CPACK_COMPONENT_HIP_DESCRIPTION "KV cache of LLM inference engines (GPUs of AMD)
Lets libkvcache keep keys and values on GPUs of AMD and compute paged
attention there, by the HIP runtime of ROCm.")

if(TARGET kvcache_cli)
  list(APPEND CPACK_COMPONENTS_ALL tool)
endif()
foreach(backend IN LISTS kvc_plugins)
  list(APPEND CPACK_COMPONENTS_ALL ${backend})
  list(APPEND kvc_deb_backends ${kvc_deb_${backend}})
endforeach()
get_property(kvc_plugins_built GLOBAL PROPERTY kvc_plugins_built)
foreach(plugin IN LISTS kvc_plugins_built)  # plugins/CMakeLists.txt
  string(TOUPPER "${plugin}" upper)
  list(APPEND CPACK_COMPONENTS_ALL ${plugin})
  set(kvc_deb_${plugin} "libkvcache-${plugin}")
  list(APPEND kvc_deb_backends ${kvc_deb_${plugin}})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION libs)
  set(CPACK_COMPONENT_${upper}_DEPENDS runtime)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "KV cache of LLM inference engines (plug-in ${plugin})
A plug-in that libkvcache opens by its name, ${plugin}, when it is asked for.
The documentation of tiers and events says what it does.")
endforeach()
list(JOIN kvc_deb_backends ", " CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS)
set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS libcuda1)  # the driver, which is not needed to install
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER "${component}" upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME "${kvc_deb_${component}}")
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")  # as Debian lays things out
    set(copyright "${PROJECT_SOURCE_DIR}/cmake/copyright")
    if(EXISTS "${copyright}.${component}")
      string(APPEND copyright ".${component}")
    endif()
    install(FILES "${copyright}" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${kvc_deb_${component}}" RENAME copyright
      COMPONENT ${component})
  endif()
endforeach()
set(kvc_docs "${CMAKE_INSTALL_DATADIR}/doc/${kvc_deb_development}")
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(kvc_docs "${CMAKE_INSTALL_DOCDIR}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${kvc_docs}" COMPONENT development)
endif()
# What the header points to, laid out as in the sources, so that links lead somewhere.
foreach(file README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md)
  install(FILES "${PROJECT_SOURCE_DIR}/${file}" DESTINATION "${kvc_docs}" COMPONENT development)
endforeach()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${kvc_docs}/docs" COMPONENT development FILES_MATCHING PATTERN "*.md")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION "${kvc_docs}/examples" COMPONENT development
  FILES_MATCHING PATTERN "*.c" PATTERN "*.cc" PATTERN "*.h" PATTERN "*.py" PATTERN "*.mlir")

# What dpkg has to know of a shared library: which package gives it to others, and that the loader's cache changes.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/debian/shlibs"
  CONTENT "libkvcache 0 ${kvc_deb_runtime} (>= ${PROJECT_VERSION})\n")
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/debian/triggers" CONTENT "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA "${PROJECT_BINARY_DIR}/debian/shlibs" "${PROJECT_BINARY_DIR}/debian/triggers")

include(CPack)
