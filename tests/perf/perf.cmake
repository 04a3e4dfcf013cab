# uopd-perf: benchmarks, run by hand and nightly; a short run of each is a test that it works. With core alone: the core ones.
set(perf_sources ${CMAKE_SOURCE_DIR}/tests/perf/perf.cc ${CMAKE_SOURCE_DIR}/tests/perf/targets.cc
    ${CMAKE_SOURCE_DIR}/tests/perf/ir_perf.cc
    ${CMAKE_SOURCE_DIR}/tests/perf/rewrite_perf.cc)
if(TARGET uopd)
  file(GLOB perf_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/perf/*.cc ${CMAKE_SOURCE_DIR}/tests/perf/models/*.cc
       ${CMAKE_SOURCE_DIR}/tests/perf/peers/*.cc ${CMAKE_SOURCE_DIR}/tests/perf/search/*.cc)
endif()
add_executable(uopd-perf ${perf_sources})
target_link_libraries(uopd-perf PRIVATE uopd_test_support)
add_test(NAME perf_ir_runs COMMAND uopd-perf ir --json --scale 0.02)
add_test(NAME perf_rewrite_runs COMMAND uopd-perf rewrite --json --scale 0.02)
if(TARGET uopd)
  target_link_libraries(uopd-perf PRIVATE uopd_test_models uopd_test_redis uopd_cache uopd_server_engine uopd_devices_cpu
                        nlohmann_json::nlohmann_json LLVM)
  target_include_directories(uopd-perf SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_compile_definitions(uopd-perf PRIVATE UOPD_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_dependencies(uopd-perf uopd)
  # The libraries that kernels are compared with (tests/perf/peers/peers.h): those that are installed.
  find_path(UOPD_ONEDNN_INCLUDE dnnl.hpp)
  find_library(UOPD_ONEDNN dnnl)
  find_package(OpenMP COMPONENTS CXX QUIET)
  if(UOPD_ONEDNN_INCLUDE AND UOPD_ONEDNN AND OpenMP_CXX_FOUND)
    target_compile_definitions(uopd-perf PRIVATE UOPD_HAS_ONEDNN)
    target_link_libraries(uopd-perf PRIVATE ${UOPD_ONEDNN} OpenMP::OpenMP_CXX)
  endif()
  find_path(UOPD_OPENBLAS_INCLUDE cblas.h)
  find_library(UOPD_OPENBLAS openblas)
  if(UOPD_OPENBLAS_INCLUDE AND UOPD_OPENBLAS)
    target_compile_definitions(uopd-perf PRIVATE UOPD_HAS_OPENBLAS)
    target_link_libraries(uopd-perf PRIVATE ${UOPD_OPENBLAS})
  endif()
  add_test(NAME perf_client_memory_runs COMMAND uopd-perf client-memory --json --scale 0.01)
  add_test(NAME perf_cache_runs COMMAND uopd-perf cache --json --scale 0.001)
  add_test(NAME perf_staging_runs COMMAND uopd-perf staging --model prefill_16 --json --scale 0.02)
  add_test(NAME perf_schedule_runs COMMAND uopd-perf schedule --model mlp-sgd --json --scale 0.1)
  add_test(NAME perf_rewrite_models_runs COMMAND uopd-perf rewrite-models --model mlp-sgd --json --scale 0.1)
  add_test(NAME perf_attention_runs COMMAND uopd-perf attention --model small --json --scale 0.02)
  add_test(NAME perf_rtt_runs COMMAND uopd-perf rtt --json --scale 0.02)
  add_test(NAME perf_transfer_runs COMMAND uopd-perf transfer --json --scale 0.02)
  add_test(NAME perf_kernels_runs COMMAND uopd-perf kernels --model matmul.f32.256 --json --scale 0.02)
  add_test(NAME perf_overhead_runs COMMAND uopd-perf overhead --json --scale 0.02)
  add_test(NAME perf_search_rate_runs COMMAND uopd-perf search-rate --model scan_products --json --scale 0.1)
  add_test(NAME perf_search_quality_runs COMMAND uopd-perf search-quality --model scan_products --json --scale 0.01)
  add_test(NAME perf_scrape_runs COMMAND uopd-perf scrape --json --scale 0.02)
  add_test(NAME perf_polls_runs COMMAND uopd-perf polls --model matmul_1024 --json --scale 0.02)
endif()

# uopd-gpu-perf: the benchmarks of tests/perf/gpu and `request`, small enough for deploy/gpu-bundle. It opens devices by name.
if(TARGET uopd)
  file(GLOB gpu_perf_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/perf/gpu/*.cc)
  add_executable(uopd-gpu-perf ${gpu_perf_sources} ${CMAKE_SOURCE_DIR}/tests/perf/perf.cc ${CMAKE_SOURCE_DIR}/tests/perf/program.cc
                 ${CMAKE_SOURCE_DIR}/tests/perf/targets.cc ${CMAKE_SOURCE_DIR}/tests/perf/models/subjects.cc
                 ${CMAKE_SOURCE_DIR}/tests/perf/models/networks.cc ${CMAKE_SOURCE_DIR}/tests/perf/models/weights.cc
                 ${CMAKE_SOURCE_DIR}/tests/perf/models/decode_session.cc ${CMAKE_SOURCE_DIR}/tests/perf/models/request_perf.cc
                 ${CMAKE_SOURCE_DIR}/tests/support/models/resnet.cc ${CMAKE_SOURCE_DIR}/tests/support/models/transformer.cc)
  target_link_libraries(uopd-gpu-perf PRIVATE uopd_test_support uopd_client_cpp uopd_devices)
  add_test(NAME perf_gpu_runs COMMAND uopd-gpu-perf gpu --device CPU --json --scale 0.02)
endif()
