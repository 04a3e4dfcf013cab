# The installed client library, used by a project outside of this build.
if(TARGET uopd_client AND TARGET uopd)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME install COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check_install.py ${CMAKE_SOURCE_DIR}
           ${CMAKE_BINARY_DIR} $<TARGET_FILE:uopd>)
endif()
