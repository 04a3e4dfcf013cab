# Tests. tests/unit mirrors the source tree: every folder F with tests/unit/F/*_test.cc becomes one program,
# tests/bin/F_test, linked with the library of F and GoogleTest.
find_package(GTest REQUIRED)
include(GoogleTest)

function(uopd_unit_tests folder)
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*_test.cc)
  if(NOT sources OR NOT TARGET uopd_${name})
    return()
  endif()
  add_executable(${name}_test ${sources})
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name}_test PRIVATE uopd_${name} GTest::gmock GTest::gtest GTest::gtest_main ${ARGN})
  gtest_discover_tests(${name}_test PROPERTIES LABELS unit DISCOVERY_TIMEOUT 60)
endfunction()

file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cc)
add_library(uopd_test_support STATIC ${support})
target_link_libraries(uopd_test_support PUBLIC uopd_core_schedule)

uopd_unit_tests(core/base)
uopd_unit_tests(core/ir)
uopd_unit_tests(core/rewrite)
uopd_unit_tests(core/rules)
uopd_unit_tests(core/schedule uopd_test_support)
# Kernels evaluated and compiled for the tests of codegen.
add_library(uopd_tests_kernels STATIC ${CMAKE_SOURCE_DIR}/tests/support/kernel_interpreter.cc
            ${CMAKE_SOURCE_DIR}/tests/support/compiled_kernel.cc
            ${CMAKE_SOURCE_DIR}/tests/support/kernel_check.cc)
target_link_libraries(uopd_tests_kernels PUBLIC uopd_core_codegen uopd_core_render ${CMAKE_DL_LIBS})
uopd_unit_tests(core/codegen uopd_tests_kernels)
uopd_unit_tests(core/render uopd_tests_kernels)
uopd_unit_tests(core/search)
if(NOT UOPD_CORE_ONLY)
  uopd_unit_tests(devices/cpu)
  uopd_unit_tests(cache)
  uopd_unit_tests(server/engine)
  uopd_unit_tests(server/worker)
  uopd_unit_tests(client/cpp)
endif()
foreach(part golden conformance e2e fuzz perf layering)
  include(tests/${part}/${part}.cmake OPTIONAL)
endforeach()
