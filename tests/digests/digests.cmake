# kernel_digests: every kernel is what it was (tests/digests/kernels.txt). The short form is a test.
if(TARGET uopd)
  file(GLOB digest_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cc ${CMAKE_SOURCE_DIR}/tests/perf/peers/*.cc)
  set(perf_models ${CMAKE_SOURCE_DIR}/tests/perf/models)
  add_executable(kernel_digests ${digest_sources} ${CMAKE_SOURCE_DIR}/tests/perf/models.cc ${CMAKE_SOURCE_DIR}/tests/perf/works.cc
                 ${perf_models}/decode_session.cc ${perf_models}/networks.cc ${perf_models}/subjects.cc ${perf_models}/weights.cc)
  set_target_properties(kernel_digests PROPERTIES UNITY_BUILD OFF)
  target_compile_definitions(kernel_digests PRIVATE UOPD_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_link_libraries(kernel_digests PRIVATE uopd_test_models uopd_devices_cpu GTest::gtest)
  add_test(NAME kernel_digests COMMAND kernel_digests ${CMAKE_CURRENT_LIST_DIR}/kernels.txt)
endif()
