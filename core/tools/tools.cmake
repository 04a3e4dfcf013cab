# uopd-opt and the library under it.
add_library(uopd_core_tools STATIC ${CMAKE_SOURCE_DIR}/core/tools/run_text.cc ${CMAKE_SOURCE_DIR}/core/tools/passes.cc)
target_link_libraries(uopd_core_tools PUBLIC uopd_core_schedule uopd_core_codegen uopd_core_render)
add_executable(uopd-opt ${CMAKE_SOURCE_DIR}/core/tools/uopd_opt.cc)
target_link_libraries(uopd-opt PRIVATE uopd_core_tools)
