# Golden files: printed IR or text before and after one step of the compiler.
add_executable(golden_test ${CMAKE_SOURCE_DIR}/tests/golden/golden_test.cc)
uopd_test_program(golden_test)
target_link_libraries(golden_test PRIVATE uopd_core_tools GTest::gtest_main)
target_compile_definitions(golden_test PRIVATE UOPD_GOLDEN_DIR="${CMAKE_SOURCE_DIR}/tests/golden")
uopd_register_tests(golden_test both)

# The commands of pages print what the pages show.
if(TARGET uopctl AND NOT UOPD_SANITIZE)
  add_test(NAME page_commands COMMAND /usr/bin/python3 ${CMAKE_CURRENT_LIST_DIR}/page_commands.py ${CMAKE_SOURCE_DIR}
           $<TARGET_FILE_DIR:uopctl> docs/debugging.md docs/worked_example.md)
  set_tests_properties(page_commands PROPERTIES LABELS plain)
endif()
