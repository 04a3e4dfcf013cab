# The C++ client for programs outside of this build: `cmake --install BUILD --component client --prefix PREFIX`.
#
#   lib/libuopd-client.so      everything but Abseil and gRPC, which it finds as shared libraries
#   include/uopd/              the public headers, and in detail/ what they include of core
#   lib/cmake/uopd/            find_package(uopd), target uopd::client
#   lib/pkgconfig/uopd.pc
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# Headers of core that public headers include. tests/install fails if one is missing.
set(uopd_core_headers core/base/status.h core/base/target/dtype_number.h core/base/target/dtype.def core/ir/dims.h core/ir/dtype.h)
set(uopd_public_absl status statusor strings time inlined_vector)
list(TRANSFORM uopd_public_absl PREPEND absl:: OUTPUT_VARIABLE uopd_public_targets)
list(TRANSFORM uopd_public_absl PREPEND absl_ OUTPUT_VARIABLE uopd_public_modules)
list(JOIN uopd_public_modules " " UOPD_PC_REQUIRES)

file(STRINGS ${CMAKE_SOURCE_DIR}/client/include/uopd/version.h version REGEX "define UOPD_VERSION_")
list(TRANSFORM version REPLACE ".* " "")
list(JOIN version "." version)
if(NOT version STREQUAL PROJECT_VERSION)
  message(FATAL_ERROR "client/include/uopd/version.h has version ${version}, the project ${PROJECT_VERSION}")
endif()

file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/deploy/empty.cc CONTENT "")  # CMake wants a source; the code is in the static libraries
add_library(uopd_client SHARED ${CMAKE_BINARY_DIR}/deploy/empty.cc)
set_target_properties(uopd_client PROPERTIES OUTPUT_NAME uopd-client EXPORT_NAME client VERSION ${PROJECT_VERSION}
                      SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} UNITY_BUILD OFF
                      LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/client/exports.map)
target_link_libraries(uopd_client PRIVATE $<LINK_LIBRARY:WHOLE_ARCHIVE,uopd_client_cpp> PUBLIC ${uopd_public_targets})
target_link_options(uopd_client PRIVATE -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/client/exports.map
                    -Wl,--as-needed -Wl,--gc-sections)
target_compile_features(uopd_client INTERFACE cxx_std_20)
target_include_directories(uopd_client INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/uopd/detail>)

# From the folder of uopd.pc, so that the prefix can be moved.
file(RELATIVE_PATH UOPD_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" UOPD_PC_PREFIX ${UOPD_PC_PREFIX})
configure_file(${CMAKE_CURRENT_LIST_DIR}/client/uopd.pc.in ${CMAKE_BINARY_DIR}/deploy/uopd.pc @ONLY)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/client/uopdConfig.cmake.in ${CMAKE_BINARY_DIR}/deploy/uopdConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/uopd)
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/deploy/uopdConfigVersion.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS uopd_client EXPORT uopd LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
        NAMELINK_COMPONENT client)
install(EXPORT uopd NAMESPACE uopd:: FILE uopdTargets.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/uopd COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/deploy/uopdConfig.cmake ${CMAKE_BINARY_DIR}/deploy/uopdConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/uopd COMPONENT client)
install(FILES ${CMAKE_BINARY_DIR}/deploy/uopd.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT client)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/client/include/uopd DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT client)
foreach(header ${uopd_core_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/uopd/detail/${folder} COMPONENT client)
endforeach()
