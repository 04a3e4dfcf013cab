# uopd_chaos: a daemon and everything that goes wrong around it. A minute of it is a test.
if(TARGET uopd)
  file(GLOB chaos_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/chaos/*.cc ${CMAKE_SOURCE_DIR}/tests/chaos/actors/*.cc
       ${CMAKE_SOURCE_DIR}/tests/chaos/scenarios/*.cc)
  add_executable(uopd_chaos ${chaos_sources} ${CMAKE_SOURCE_DIR}/tests/e2e/graphs.cc)
  target_link_libraries(uopd_chaos PRIVATE uopd_fuzz_graphs uopd_test_support uopd_proto SQLite::SQLite3 nlohmann_json::nlohmann_json)
  add_dependencies(uopd_chaos uopd)
  # Actors that the daemon does not withstand yet; each goes from here with what makes it harmless.
  set(chaos_without mutants hard_graphs endless_kernels endless_compiles fickle silent_connections half_requests worker_killer
      fork_killer file_shrinker odd_calls unread_pipelines)
  list(TRANSFORM chaos_without REPLACE "(.+)" "--without;\\1")
  add_test(NAME chaos COMMAND uopd_chaos chaos --seconds 60 --seed 1 ${chaos_without})
  set_tests_properties(chaos PROPERTIES LABELS chaos TIMEOUT 240)
endif()
