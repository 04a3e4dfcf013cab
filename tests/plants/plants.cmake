# uopd_bad_kernels: daemons of a cluster whose compilers plant bad kernels. Its short form is a test.
if(TARGET uopd)
  # The daemon with other jobs in its workers. No other program has what plants.
  set(planted_sources ${uopd_sources})
  list(FILTER planted_sources EXCLUDE REGEX "/server/main.cc$")
  add_executable(uopd_planted ${planted_sources} ${CMAKE_CURRENT_LIST_DIR}/planted_daemon.cc ${CMAKE_CURRENT_LIST_DIR}/plant.cc)
  target_link_libraries(uopd_planted PRIVATE uopd_server_rpc uopd_server_http uopd_cache_reapi)
  add_executable(uopd_bad_kernels ${CMAKE_CURRENT_LIST_DIR}/bad_kernels.cc ${CMAKE_CURRENT_LIST_DIR}/plant.cc
                 ${CMAKE_SOURCE_DIR}/tests/cluster/table.cc)
  target_link_libraries(uopd_bad_kernels PRIVATE uopd_test_fleet uopd_core_search)
  add_dependencies(uopd_bad_kernels uopd_planted)
  add_test(NAME bad_kernels COMMAND uopd_bad_kernels --kernels 12 --daemons 2 --run-ms 1000)
  # Beside nothing else: on a loaded machine good kernels are late, too.
  set_tests_properties(bad_kernels PROPERTIES LABELS chaos TIMEOUT 120 RUN_SERIAL ON)
endif()
