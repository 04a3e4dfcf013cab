# Golden files: printed IR or text before and after one step of the pipeline.
add_executable(golden_test ${CMAKE_SOURCE_DIR}/tests/golden/golden_test.cc)
set_target_properties(golden_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
target_link_libraries(golden_test PRIVATE uopd_core_tools GTest::gtest_main)
target_compile_definitions(golden_test PRIVATE UOPD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
gtest_discover_tests(golden_test PROPERTIES LABELS unit)
