# SPDX-License-Identifier: Apache-2.0
#
# What is installed, and where. Components, which are the Debian packages too: runtime (the shared library),
# development (headers, static library, what other builds read to find them), tool (the command), and one for each GPU
# backend that is a library of its own (gpu/CMakeLists.txt) and each plug-in (plugins/CMakeLists.txt). An installed tree may be moved as a whole.
set(kvc_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/kvcache")

# ---- the library ------------------------------------------------------------------------------

install(TARGETS ${kvc_library_targets} EXPORT kvcacheTargets
  LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
  ARCHIVE COMPONENT development
  FILE_SET HEADERS COMPONENT development)
install(EXPORT kvcacheTargets NAMESPACE kvcache:: DESTINATION "${kvc_cmake_dir}" COMPONENT development)

configure_package_config_file(pkgconfig/kvcacheConfig.cmake.in "${PROJECT_BINARY_DIR}/kvcacheConfig.cmake"
  INSTALL_DESTINATION "${kvc_cmake_dir}" NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may break; from 1.0 on this becomes SameMajorVersion.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kvcacheConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/kvcacheConfig.cmake" "${PROJECT_BINARY_DIR}/kvcacheConfigVersion.cmake"
  DESTINATION "${kvc_cmake_dir}" COMPONENT development)

# Every path in kvcache.pc is relative to the file itself.
set(kvc_pc_dir "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH kvc_pc_prefix "${kvc_pc_dir}" "${CMAKE_INSTALL_PREFIX}")
file(RELATIVE_PATH kvc_pc_libdir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_LIBDIR}")
set(kvc_pc_needs ${CMAKE_DL_LIBS} ${kvc_static_needs})
list(TRANSFORM kvc_pc_needs PREPEND "-l" REGEX "^[^/]")
string(REPLACE ";" " " kvc_pc_needs "${kvc_pc_needs}")
file(RELATIVE_PATH kvc_pc_includedir "${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
configure_file(pkgconfig/kvcache.pc.in "${PROJECT_BINARY_DIR}/kvcache.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/kvcache.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig" COMPONENT development)

# ---- the command ------------------------------------------------------------------------------

if(TARGET kvcache_cli)
  # Below /usr the loader knows the folder; elsewhere the command finds the library beside itself.
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    file(RELATIVE_PATH kvc_bin_to_lib "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    set_target_properties(kvcache_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${kvc_bin_to_lib}")
  endif()
  install(TARGETS kvcache_cli RUNTIME COMPONENT tool)

  # Below /usr as Debian has it: compressed pages, and a folder of packages' completions for zsh.
  set(kvc_manual_page "${PROJECT_SOURCE_DIR}/docs/kvcache.1")
  set(zsh_folder zsh/site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set(kvc_manual_page "${PROJECT_BINARY_DIR}/kvcache.1.gz")
    execute_process(COMMAND gzip -9nc "${PROJECT_SOURCE_DIR}/docs/kvcache.1" OUTPUT_FILE "${kvc_manual_page}"
      COMMAND_ERROR_IS_FATAL ANY) # without a time, so that the same sources make the same package
    set(zsh_folder zsh/vendor-completions)
  endif()
  install(FILES "${kvc_manual_page}" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1" COMPONENT tool)
  install(FILES completions/kvcache.bash DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions" RENAME kvcache
    COMPONENT tool)
  install(FILES completions/kvcache.zsh DESTINATION "${CMAKE_INSTALL_DATADIR}/${zsh_folder}" RENAME _kvcache COMPONENT tool)
  install(FILES completions/kvcache.fish DESTINATION "${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d" COMPONENT tool)
endif()

# ---- uninstall --------------------------------------------------------------------------------

if(PROJECT_IS_TOP_LEVEL)
  add_custom_target(uninstall COMMAND "${CMAKE_COMMAND}" "-Dbuild=${PROJECT_BINARY_DIR}" -P
    "${PROJECT_SOURCE_DIR}/cmake/uninstall.cmake" VERBATIM)
endif()
