# The daemon: a layer per folder that has sources, each with what it may use (docs/architecture.md, "Layers").
find_package(prometheus-cpp CONFIG REQUIRED)  # without a version: the package's own is "unknown" and matches none

# uopd_server_layer(FOLDER DEPS...) is uopd_layer for a folder that exists.
macro(uopd_server_layer folder)
  if(EXISTS ${CMAKE_SOURCE_DIR}/${folder})
    uopd_layer(${folder} ${ARGN})
  endif()
endmacro()

uopd_server_layer(server/net uopd_core_base)
uopd_server_layer(server/http uopd_server_net prometheus-cpp::core)
uopd_server_layer(server/worker uopd_devices uopd_core_search)
uopd_server_layer(server/engine/base uopd_core_codegen uopd_core_render uopd_devices uopd_cache)
uopd_server_layer(server/engine/session uopd_server_engine_base)
uopd_server_layer(server/engine/tune uopd_server_engine_base uopd_server_worker)
uopd_server_layer(server/engine/compile uopd_server_engine_tune uopd_core_schedule)
uopd_server_layer(server/engine/report uopd_server_engine_compile)
uopd_server_layer(server/engine/run uopd_server_engine_report uopd_server_engine_session)
uopd_server_layer(server/engine/kept uopd_server_engine_run)
uopd_server_layer(server/engine/operate uopd_server_engine_compile)
uopd_server_layer(server/engine uopd_server_engine_kept uopd_server_engine_operate)
if(TARGET uopd_server_engine)
  uopd_server_layer(server/rpc uopd_server_engine uopd_server_net uopd_proto gRPC::grpc++ gRPC::grpc++_reflection)
  target_compile_definitions(uopd_server_rpc PUBLIC UOPD_VERSION="${PROJECT_VERSION}")
  file(GLOB uopd_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/server/*.cc)
  add_executable(uopd ${uopd_sources})
  target_link_libraries(uopd PRIVATE uopd_server_rpc uopd_server_http uopd_cache_reapi)
endif()
