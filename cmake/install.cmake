# Installs headers, libraries, the command and a CMake package: find_package(kvase) gives kvase::kvase.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY KVASE_COMPONENTS)
install(TARGETS kvase ${components} EXPORT kvase-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS kvase_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/kvase DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT kvase-targets NAMESPACE kvase:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvase)
configure_package_config_file(cmake/kvase-config.cmake.in ${CMAKE_BINARY_DIR}/kvase-config.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvase)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/kvase-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/kvase-config.cmake ${CMAKE_BINARY_DIR}/kvase-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvase)
