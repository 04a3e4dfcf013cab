# The installed client library, used by a project outside of this build.
if(TARGET uopd_client AND TARGET uopd)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME install COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check_install.py ${CMAKE_SOURCE_DIR}
           ${CMAKE_BINARY_DIR} $<TARGET_FILE:uopd>)
endif()

# What is installed for operators.
if(TARGET uopctl AND TARGET uopd AND NOT UOPD_SANITIZE)
  find_package(Python3 COMPONENTS Interpreter REQUIRED)
  add_test(NAME install_daemon COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check_daemon.py ${CMAKE_BINARY_DIR})
  add_test(NAME upgrading COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/check_upgrading.py ${CMAKE_SOURCE_DIR} $<TARGET_FILE:uopd> $<TARGET_FILE:uopctl>)
endif()

# The bundle for machines with GPUs, as one unpacks and runs it there.
if(TARGET uopd AND TARGET uopd-gpu-perf AND NOT UOPD_SANITIZE AND CMAKE_BINARY_DIR STREQUAL "${CMAKE_SOURCE_DIR}/build/release")
  add_test(NAME gpu_bundle COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_gpu_bundle ${CMAKE_SOURCE_DIR})
  set_tests_properties(gpu_bundle PROPERTIES TIMEOUT 900 SKIP_RETURN_CODE 77 LABELS install)
endif()
