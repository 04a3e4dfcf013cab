# The Python package: target uopd_python makes uopd/_core, an extension module over the client library, uopd_python_stub its stubs.
# Needs nanobind, which comes from PyPI: pip brings it for `pip install ./client/python`.
find_package(Python 3.11 COMPONENTS Interpreter Development.Module REQUIRED)
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
                OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind 3.1 CONFIG REQUIRED)

file(GLOB uopd_python_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/src/native/*.cc)
nanobind_add_module(uopd_python NB_STATIC NOMINSIZE ${uopd_python_sources})
target_include_directories(uopd_python PRIVATE ${CMAKE_SOURCE_DIR}/client/python/src)
target_link_libraries(uopd_python PRIVATE uopd_client_cpp uopd_client_data)
target_link_options(uopd_python PRIVATE -Wl,--exclude-libs,ALL -Wl,--as-needed -Wl,--gc-sections)
set_target_properties(uopd_python PROPERTIES OUTPUT_NAME _core
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/uopd)
# The Python sources beside it, so that the build folder can be used without installing.
add_custom_command(TARGET uopd_python POST_BUILD
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_CURRENT_LIST_DIR}/src/uopd ${CMAKE_BINARY_DIR}/python/uopd)
install(TARGETS uopd_python LIBRARY DESTINATION uopd COMPONENT python)

# Type stubs of the extension module, for editors and type checkers. Private: they leave out names that end in _ otherwise.
nanobind_add_stub(uopd_python_stub MODULE _core OUTPUT ${CMAKE_BINARY_DIR}/python/uopd/_core.pyi INCLUDE_PRIVATE
                  PYTHON_PATH ${CMAKE_BINARY_DIR}/python/uopd DEPENDS uopd_python)
install(FILES ${CMAKE_BINARY_DIR}/python/uopd/_core.pyi DESTINATION uopd COMPONENT python)
