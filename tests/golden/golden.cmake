# Golden files: printed IR or text before and after one step of the compiler.
add_executable(golden_test ${CMAKE_SOURCE_DIR}/tests/golden/golden_test.cc)
uopd_test_program(golden_test)
target_link_libraries(golden_test PRIVATE uopd_core_tools GTest::gtest_main)
target_compile_definitions(golden_test PRIVATE UOPD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
uopd_register_tests(golden_test both)
