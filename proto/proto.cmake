# Messages and stubs of uopd.v1: target uopd_proto. Includes read "uopd/v1/uopd.pb.h".
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC 1.51 CONFIG REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

add_library(uopd_proto STATIC
  ${CMAKE_SOURCE_DIR}/proto/google/rpc/status.proto
  ${CMAKE_SOURCE_DIR}/proto/uopd/recording/v1/recording.proto
  ${CMAKE_SOURCE_DIR}/proto/uopd/v1/graph.proto
  ${CMAKE_SOURCE_DIR}/proto/uopd/v1/uopd.proto)
set(UOPD_PROTO_OUT ${CMAKE_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${UOPD_PROTO_OUT})
protobuf_generate(TARGET uopd_proto LANGUAGE cpp IMPORT_DIRS ${CMAKE_SOURCE_DIR}/proto PROTOC_OUT_DIR ${UOPD_PROTO_OUT})
protobuf_generate(TARGET uopd_proto LANGUAGE grpc GENERATE_EXTENSIONS .grpc.pb.h .grpc.pb.cc
  PLUGIN "protoc-gen-grpc=${GRPC_CPP_PLUGIN}" IMPORT_DIRS ${CMAKE_SOURCE_DIR}/proto PROTOC_OUT_DIR ${UOPD_PROTO_OUT})
target_include_directories(uopd_proto SYSTEM PUBLIC ${UOPD_PROTO_OUT} ${UOPD_PROTO_OUT}/proto)
target_link_libraries(uopd_proto PUBLIC protobuf::libprotobuf gRPC::grpc++)
target_compile_options(uopd_proto PRIVATE -w)
uopd_compile_quickly(uopd_proto)
# Generated files define the same static names.
set_target_properties(uopd_proto PROPERTIES UNITY_BUILD OFF)

# What a cache of the Remote Execution API speaks: target uopd_reapi_proto.
add_library(uopd_reapi_proto STATIC
  ${CMAKE_SOURCE_DIR}/proto/build/bazel/remote/execution/v2/remote_execution.proto
  ${CMAKE_SOURCE_DIR}/proto/google/bytestream/bytestream.proto)
protobuf_generate(TARGET uopd_reapi_proto LANGUAGE cpp IMPORT_DIRS ${CMAKE_SOURCE_DIR}/proto PROTOC_OUT_DIR ${UOPD_PROTO_OUT})
protobuf_generate(TARGET uopd_reapi_proto LANGUAGE grpc GENERATE_EXTENSIONS .grpc.pb.h .grpc.pb.cc
  PLUGIN "protoc-gen-grpc=${GRPC_CPP_PLUGIN}" IMPORT_DIRS ${CMAKE_SOURCE_DIR}/proto PROTOC_OUT_DIR ${UOPD_PROTO_OUT})
target_link_libraries(uopd_reapi_proto PUBLIC uopd_proto)
target_compile_options(uopd_reapi_proto PRIVATE -w)
uopd_compile_quickly(uopd_reapi_proto)
set_target_properties(uopd_reapi_proto PROPERTIES UNITY_BUILD OFF)

# What uses gRPC under ThreadSanitizer takes this along, so that the order that gRPC gives to threads is seen.
if(UOPD_SANITIZE MATCHES thread)
  target_sources(uopd_proto INTERFACE
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${CMAKE_SOURCE_DIR}/tests/support/tsan_grpc.cc>)
endif()
