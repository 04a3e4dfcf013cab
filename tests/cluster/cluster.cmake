# uopd_cluster_show: daemons that share a server, and faults between them. Its short form is a test.
if(TARGET uopd)
  # A fleet and its callers, for other tools as well.
  set(fleet_sources ${CMAKE_CURRENT_LIST_DIR}/caller.cc ${CMAKE_CURRENT_LIST_DIR}/fault_proxy.cc ${CMAKE_CURRENT_LIST_DIR}/fleet.cc)
  add_library(uopd_test_fleet STATIC ${fleet_sources})
  target_link_libraries(uopd_test_fleet PUBLIC uopd_test_support uopd_test_redis uopd_proto)
  uopd_compile_quickly(uopd_test_fleet)
  file(GLOB cluster_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/cluster/*.cc)
  list(REMOVE_ITEM cluster_sources ${fleet_sources})
  add_executable(uopd_cluster_show ${cluster_sources} ${CMAKE_SOURCE_DIR}/tests/e2e/graphs.cc)
  target_link_libraries(uopd_cluster_show PRIVATE uopd_test_models uopd_test_fleet)
  add_dependencies(uopd_cluster_show uopd)
  add_test(NAME cluster_show COMMAND uopd_cluster_show --clients 16 --kernels 6 --faults kill --rounds 1 --no-resnet --no-times)
  # Beside nothing else: it measures what a client feels.
  set_tests_properties(cluster_show PROPERTIES LABELS chaos TIMEOUT 240 RUN_SERIAL ON)
endif()
