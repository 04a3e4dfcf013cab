# Checks of the tree itself: includes against the layer table and in order, the first line, using-declarations, the top-level
# names, links, files that comments name, words of the glossary, sizes in core/codegen, the ends of messages,
# a source for each unit test, how many files an addition touches.
add_test(NAME layering COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_layers.py ${CMAKE_SOURCE_DIR})
add_test(NAME layering_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_layers_test.py)
add_test(NAME doc_links_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_links_test.py)
add_test(NAME doc_links COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_links.py ${CMAKE_SOURCE_DIR})
add_test(NAME codegen_sizes COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_codegen.py ${CMAKE_SOURCE_DIR})
add_test(NAME codegen_sizes_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_codegen_test.py)
add_test(NAME messages COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_messages.py ${CMAKE_SOURCE_DIR})
add_test(NAME messages_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_messages_test.py)
add_test(NAME mirror COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_mirror.py ${CMAKE_SOURCE_DIR})
add_test(NAME mirror_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_mirror_test.py)
add_test(NAME additions COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_additions.py ${CMAKE_SOURCE_DIR})
add_test(NAME additions_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_additions_test.py)
set_tests_properties(layering layering_self_test doc_links doc_links_self_test codegen_sizes codegen_sizes_self_test
                     messages messages_self_test mirror mirror_self_test additions additions_self_test PROPERTIES LABELS tree)

if(NOT UOPD_CORE_ONLY AND NOT TARGET server_http_test)
  uopd_unit_tests(server/http)
endif()
