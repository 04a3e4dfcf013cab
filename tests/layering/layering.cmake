# Checks of the tree itself: includes against the layer table, the top-level names, links in the docs.
add_test(NAME layering COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_layers.py ${CMAKE_SOURCE_DIR})
add_test(NAME layering_self_test
         COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_layers_test.py)
add_test(NAME doc_links COMMAND /usr/bin/python3 ${CMAKE_SOURCE_DIR}/tests/layering/check_links.py ${CMAKE_SOURCE_DIR})
set_tests_properties(layering layering_self_test doc_links PROPERTIES LABELS unit)

if(NOT UOPD_CORE_ONLY AND NOT TARGET server_http_test)
  uopd_unit_tests(server/http)
endif()
