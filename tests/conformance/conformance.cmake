# Conformance: one suite that every device must pass, and the unit tests of what lies under devices/.
if(NOT TARGET uopd_devices)
  return()
endif()
# A CUDA driver over host memory.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/cuda/*.cc)
add_library(uopd_fake_cuda STATIC ${sources})
target_link_libraries(uopd_fake_cuda PUBLIC uopd_devices_cuda)
uopd_compile_quickly(uopd_fake_cuda)

# The same as a library of the driver's name, for daemons of tests.
add_library(uopd_fake_libcuda SHARED ${CMAKE_SOURCE_DIR}/tests/support/cuda/library/fake_libcuda.cc)
target_link_libraries(uopd_fake_libcuda PRIVATE uopd_fake_cuda -Wl,--exclude-libs,ALL -Wl,-Bsymbolic)
set_target_properties(uopd_fake_libcuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 UNITY_BUILD OFF
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/fake_libcuda)

# HIP over that.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/hip/*.cc)
add_library(uopd_fake_hip STATIC ${sources})
target_link_libraries(uopd_fake_hip PUBLIC uopd_devices_hip uopd_devices_interp uopd_fake_cuda)
uopd_compile_quickly(uopd_fake_hip)

file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/conformance/*_test.cc)
add_executable(conformance_test ${sources})
uopd_test_program(conformance_test)
target_link_libraries(conformance_test PRIVATE uopd_devices uopd_fake_cuda uopd_fake_hip GTest::gmock GTest::gtest GTest::gtest_main)
uopd_register_tests(conformance_test conformance SHARDS 4 COST 10)

uopd_unit_tests(devices/api)
uopd_unit_tests(devices/api/host)
uopd_unit_tests(devices/dl)
uopd_unit_tests(devices/null)
uopd_unit_tests(devices/interp)
uopd_unit_tests(devices/opencl uopd_devices)
target_sources(devices_opencl_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/devices/opencl/fake_opencl.cc)
uopd_unit_tests(devices/gpu)
uopd_unit_tests(devices/cuda uopd_fake_cuda uopd_devices)
uopd_unit_tests(devices/hip uopd_test_support uopd_fake_hip uopd_devices)
uopd_unit_tests(devices)

# Random opts on a device with blocks. Most of the time goes to the device's own compiler.
file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/conformance/opts/*_test.cc ${CMAKE_SOURCE_DIR}/tests/support/device/*.cc)
add_executable(device_opts_test ${sources})
uopd_test_program(device_opts_test QUICK)
target_link_libraries(device_opts_test PRIVATE uopd_devices uopd_test_support GTest::gtest GTest::gtest_main)
uopd_register_tests(device_opts_test device_opts SHARDS 2 COST 10)

# The wire, spoken by code that protoc generates for another language.
add_executable(wire_check ${CMAKE_SOURCE_DIR}/tests/conformance/wire/wire_check.cc)
set_target_properties(wire_check PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(wire_check PRIVATE uopd_core_ir)
add_test(NAME wire_conformance
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/conformance/wire/wire_conformance.py ${CMAKE_SOURCE_DIR}
                 ${CMAKE_BINARY_DIR}/wire_conformance $<TARGET_FILE:wire_check>)
set_tests_properties(wire_conformance PROPERTIES LABELS wire)
