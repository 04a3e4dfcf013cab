# Hostile graphs: fixed ones in every build, and UOPD_FUZZ_SECONDS of each fuzzer: libFuzzer where its instrumentation is on. Their seeds are
# fixed, so what one build finds can be repeated.
add_library(uopd_fuzz_support STATIC ${CMAKE_SOURCE_DIR}/tests/fuzz/compile_check.cc)
target_link_libraries(uopd_fuzz_support PUBLIC uopd_test_support)
add_executable(graph_fuzz_test ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_fuzz_test.cc
    ${CMAKE_SOURCE_DIR}/tests/fuzz/admit_test.cc)
uopd_test_program(graph_fuzz_test)
target_link_libraries(graph_fuzz_test PRIVATE uopd_fuzz_support GTest::gmock GTest::gtest GTest::gtest_main)
uopd_register_tests(graph_fuzz_test unit)
# uopd_file_fuzzer(NAME SOURCE...): the libFuzzer target NAME_fuzz of a reader of files, and its seeds. The sources of the reader are compiled
# once more, to count their branches. They use nothing else of the client.
function(uopd_file_fuzzer name)
  set(fuzz ${name}_fuzz)
  add_executable(${fuzz} ${CMAKE_SOURCE_DIR}/tests/fuzz/${fuzz}.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/${name}_check.cc ${ARGN})
  target_include_directories(${fuzz} PRIVATE ${CMAKE_SOURCE_DIR}/client/include)
  target_compile_options(${fuzz} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${fuzz} PRIVATE -fsanitize=fuzzer)
  target_link_libraries(${fuzz} PRIVATE uopd_core_ir)
  add_executable(${fuzz}_corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/${fuzz}_corpus.cc ${${fuzz}_sources})
  target_link_libraries(${fuzz}_corpus PRIVATE uopd_client_cpp)
  add_test(NAME ${fuzz}_seeds COMMAND ${fuzz}_corpus ${CMAKE_BINARY_DIR}/${fuzz}_corpus)
  add_test(NAME ${fuzz} COMMAND ${fuzz} -seed=1 -max_total_time=${UOPD_FUZZ_SECONDS} -max_len=4096 -timeout=10 -rss_limit_mb=2048
           -print_final_stats=1 ${CMAKE_BINARY_DIR}/${fuzz}_corpus)
  set_tests_properties(${fuzz}_seeds PROPERTIES FIXTURES_SETUP ${fuzz}_corpus LABELS fuzz)
  set_tests_properties(${fuzz} PROPERTIES FIXTURES_REQUIRED ${fuzz}_corpus LABELS fuzz TIMEOUT 240)
endfunction()

set(gguf_fuzz_sources ${CMAKE_SOURCE_DIR}/tests/fuzz/gguf_check.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/gguf_seeds.cc)
if(TARGET uopd_client_cpp)
  # A program of its own, since it counts allocations.
  add_executable(gguf_fuzz_test ${CMAKE_SOURCE_DIR}/tests/fuzz/gguf_fuzz_test.cc ${gguf_fuzz_sources}
      ${CMAKE_SOURCE_DIR}/tests/fuzz/memory_meter.cc)
  set_target_properties(gguf_fuzz_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(gguf_fuzz_test PRIVATE uopd_client_cpp GTest::gtest GTest::gtest_main)
  uopd_register_tests(gguf_fuzz_test both)
endif()
set(onnx_fuzz_sources ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_check.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_seeds.cc)
if(TARGET uopd_client_cpp)
  # A program of its own, since it counts allocations.
  add_executable(onnx_fuzz_test ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_fuzz_test.cc ${onnx_fuzz_sources}
      ${CMAKE_SOURCE_DIR}/tests/fuzz/memory_meter.cc)
  set_target_properties(onnx_fuzz_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(onnx_fuzz_test PRIVATE uopd_client_cpp GTest::gtest GTest::gtest_main)
  uopd_register_tests(onnx_fuzz_test both)
  add_executable(onnx_run_fuzz_test ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_run_fuzz_test.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_run_check.cc
      ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_run_seeds.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_bombs.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/onnx_seeds.cc
      ${CMAKE_SOURCE_DIR}/tests/fuzz/memory_meter.cc)
  set_target_properties(onnx_run_fuzz_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(onnx_run_fuzz_test PRIVATE uopd_client_cpp GTest::gtest GTest::gtest_main)
  uopd_register_tests(onnx_run_fuzz_test both COST 20)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND UOPD_SANITIZE MATCHES "address")
  add_executable(graph_fuzz_corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_fuzz_corpus.cc)
  target_link_libraries(graph_fuzz_corpus PRIVATE uopd_core_ir)
  # The layers under test count their branches in this build (uopd_layer), which guides the fuzzer through them.
  add_executable(graph_fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_fuzz.cc)
  target_link_options(graph_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_libraries(graph_fuzz PRIVATE uopd_core_schedule)
  add_test(NAME graph_fuzz_seeds COMMAND graph_fuzz_corpus ${CMAKE_BINARY_DIR}/graph_fuzz_corpus)
  add_test(NAME graph_fuzz COMMAND graph_fuzz -seed=1 -max_total_time=${UOPD_FUZZ_SECONDS} -max_len=4096 -timeout=10
           -rss_limit_mb=2048 -print_final_stats=1 ${CMAKE_BINARY_DIR}/graph_fuzz_corpus)
  set_tests_properties(graph_fuzz_seeds PROPERTIES FIXTURES_SETUP graph_fuzz_corpus LABELS fuzz)
  set_tests_properties(graph_fuzz PROPERTIES FIXTURES_REQUIRED graph_fuzz_corpus LABELS fuzz TIMEOUT 240)
  # The readers of files.
  if(TARGET uopd_client_cpp)
    set(state ${CMAKE_SOURCE_DIR}/client/cpp/state)
    uopd_file_fuzzer(gguf ${state}/ggml_types.cc ${state}/gguf_cursor.cc ${state}/gguf_header.cc ${state}/shown_name.cc)
    file(GLOB onnx_reader CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/cpp/onnx/*.cc)
    uopd_file_fuzzer(onnx ${onnx_reader} ${state}/model_folder.cc ${state}/regular_file.cc ${state}/shown_name.cc)
  endif()
endif()

# Mutated graphs, shared by the programs that send them through one process and to a daemon.
if(TARGET uopd_server_engine)
  add_library(uopd_fuzz_graphs STATIC ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_corpus.cc ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_mutator.cc)
  target_link_libraries(uopd_fuzz_graphs PUBLIC uopd_proto uopd_test_support)
  add_executable(uopd_compile_fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz/compile_fuzz.cc)
  target_link_libraries(uopd_compile_fuzz PRIVATE uopd_fuzz_graphs uopd_server_engine)
  add_test(NAME compile_fuzz COMMAND uopd_compile_fuzz --seconds ${UOPD_FUZZ_SECONDS} --seed 1)
  set_tests_properties(compile_fuzz PROPERTIES LABELS fuzz TIMEOUT 240)

  # Time and memory by byte; a program of its own, since it counts allocations.
  add_executable(graph_cost_test ${CMAKE_SOURCE_DIR}/tests/fuzz/graph_cost_test.cc
      ${CMAKE_SOURCE_DIR}/tests/fuzz/memory_meter.cc)
  set_target_properties(graph_cost_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(graph_cost_test PRIVATE uopd_fuzz_graphs GTest::gtest GTest::gtest_main)
  uopd_register_tests(graph_cost_test both)
endif()
