# The daemon as a process, seen from outside: one program, every test with a daemon and a folder of its own.
if(TARGET uopd)
  file(GLOB e2e_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/e2e/*.cc)
  add_executable(uopd_e2e_test ${e2e_sources})
  uopd_test_program(uopd_e2e_test)
  target_link_libraries(uopd_e2e_test PRIVATE uopd_test_models uopd_test_redis uopd_test_http2 uopd_cache_bundle uopd_client_data uopd_client_s3 GTest::gmock GTest::gtest GTest::gtest_main)
  target_compile_definitions(uopd_e2e_test PRIVATE UOPD_BINARY="$<TARGET_FILE:uopd>" UOPCTL_BINARY="$<TARGET_FILE:uopctl>"
                             UOPD_SOURCE_DIR="${CMAKE_SOURCE_DIR}" HELLO_BINARY="$<TARGET_FILE:uopd_hello>"
                             RATES_BINARY="$<TARGET_FILE:uopd_rates>")
  add_dependencies(uopd_e2e_test uopd uopctl uopd_hello uopd_rates)
  # Devices work at once in the release build; late and in the background in the slower, sanitized one.
  if(UOPD_SANITIZE)
    uopd_register_tests(uopd_e2e_test e2e LATE SHARDS 12 COST 60)
  else()
    uopd_register_tests(uopd_e2e_test e2e SHARDS 12 COST 60)
  endif()
endif()
