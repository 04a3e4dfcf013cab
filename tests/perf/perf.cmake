# uopd-perf: benchmarks, run by hand and nightly; a short run of each is a test that it works.
file(GLOB perf_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/perf/*.cc)
add_executable(uopd-perf ${perf_sources})
target_link_libraries(uopd-perf PRIVATE uopd_core_schedule)
if(TARGET uopd_client_cpp)
  target_link_libraries(uopd-perf PRIVATE uopd_client_cpp)
endif()
add_test(NAME perf_ir_runs COMMAND uopd-perf ir --json --scale 0.02)
