# uopd_chaos: a daemon and everything that goes wrong around it. Some seconds of it are a test.
if(TARGET uopd)
  file(GLOB chaos_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/chaos/*.cc ${CMAKE_SOURCE_DIR}/tests/chaos/actors/*.cc
       ${CMAKE_SOURCE_DIR}/tests/chaos/scenarios/*.cc)
  add_executable(uopd_chaos ${chaos_sources} ${CMAKE_SOURCE_DIR}/tests/e2e/graphs.cc)
  target_link_libraries(uopd_chaos PRIVATE uopd_test_fleet uopd_fuzz_graphs uopd_test_support uopd_test_http2 uopd_proto SQLite::SQLite3 nlohmann_json::nlohmann_json)
  add_dependencies(uopd_chaos uopd)
  uopd_compile_quickly(uopd_chaos)
  add_test(NAME chaos COMMAND uopd_chaos chaos --seconds ${UOPD_CHAOS_SECONDS} --seed 1)
  # Beside nothing else: it measures what a client feels.
  set_tests_properties(chaos PROPERTIES LABELS chaos TIMEOUT 240 RUN_SERIAL ON)
  add_test(NAME chaos_keeps COMMAND uopd_chaos keeps --times 8 --seconds 0.8 --seed 1)
  set_tests_properties(chaos_keeps PROPERTIES LABELS chaos TIMEOUT 120 RUN_SERIAL ON)
  # With sanitizers the daemon takes several times the memory.
  if(NOT UOPD_SANITIZE)
    add_test(NAME chaos_confined COMMAND uopd_chaos confined --seconds 60 --seed 1)
    set_tests_properties(chaos_confined PROPERTIES LABELS chaos TIMEOUT 240 RUN_SERIAL ON SKIP_RETURN_CODE 77)
  endif()
  add_test(NAME chaos_fuzz COMMAND uopd_chaos fuzz --seconds ${UOPD_FUZZ_SECONDS} --seed 1)
  set_tests_properties(chaos_fuzz PROPERTIES LABELS fuzz TIMEOUT 240)
endif()
