# The daemon as a process, seen from outside: one program, every test with a daemon and a folder of its own.
if(TARGET uopd)
  file(GLOB e2e_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/e2e/*.cc)
  add_executable(uopd_e2e_test ${e2e_sources})
  set_target_properties(uopd_e2e_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(uopd_e2e_test PRIVATE uopd_test_models uopd_client_data GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(uopd_e2e_test PRIVATE UOPD_BINARY="$<TARGET_FILE:uopd>" UOPCTL_BINARY="$<TARGET_FILE:uopctl>"
                             UOPD_SOURCE_DIR="${CMAKE_SOURCE_DIR}" HELLO_BINARY="$<TARGET_FILE:uopd_hello>")
  add_dependencies(uopd_e2e_test uopd uopctl uopd_hello)
  gtest_discover_tests(uopd_e2e_test TEST_PREFIX e2e. PROPERTIES LABELS e2e TIMEOUT 120 DISCOVERY_TIMEOUT 60)
endif()
