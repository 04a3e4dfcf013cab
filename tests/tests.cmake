# Tests. tests/unit mirrors the source tree: the test NAME of its folder F tests F/NAME.{h,cc}, or the folder F/NAME
# (tests/layering/check_mirror.py). What goes across several sources lies in tests/integration/F. Both together are one
# program for each layer F, build/PRESET/tests/F_test, linked with the library of F and GoogleTest.
find_package(GTest REQUIRED)
# tests/run --all takes longer.
set(UOPD_FUZZ_SECONDS 30 CACHE STRING "How long each fuzzer of ctest runs")
set(UOPD_CHAOS_SECONDS 25 CACHE STRING "How long the test chaos runs")

# uopd_register_tests(PROGRAM LABEL [LATE] [GRPC] [SHARDS N] [COST SECONDS]) tells ctest of a program's tests. N processes share
# them, one unless told otherwise: a process takes longer to start than most tests take to run. COST: what the
# longest of these processes takes; ctest begins with the most costly. LATE: with devices that work late and in the background. GRPC: the
# program uses gRPC itself. LABEL says which stages of tests/run take it: `unit` is for builds with sanitizers, `plain`
# for those without (uopd_plain_test), `both` for both, `device_opts` for those without and for --all.
# The target registered_tests builds all these programs, unit_programs those that are `unit` alone.
add_custom_target(registered_tests)
function(uopd_register_tests program label)
  cmake_parse_arguments(arg "LATE;GRPC" "SHARDS;COST" "" ${ARGN})
  add_dependencies(registered_tests ${program})
  if(label STREQUAL unit)
    set_property(GLOBAL APPEND PROPERTY uopd_unit_programs ${program})
  endif()
  set(prefix "")
  set(environment "")
  if(label STREQUAL e2e)
    set(prefix e2e.)
  endif()
  if(arg_LATE)
    set(prefix late.)
    if(label STREQUAL e2e)
      set(prefix e2e_late.)
    endif()
    # Memory that is not cleared holds a byte that no test expects (docs/testing.md, "Memory of others").
    set(environment UOPD_DEVICE_FORCE_ASYNC_US=50 UOPD_DEVICE_MEMORY_PATTERN=202)
  endif()
  if(UOPD_SANITIZE AND (label STREQUAL e2e OR arg_GRPC))
    # Some of these tests crash compilers on purpose, and read which signal it was. ThreadSanitizer must not count what
    # gRPC's own functions touch (tests/support/tsan_grpc.cc), nor the threads that gRPC leaves, nor delay the end of a process.
    set(tsan halt_on_error=1:second_deadlock_stack=1:handle_segv=0:ignore_noninstrumented_modules=1:atexit_sleep_ms=0)
    string(APPEND tsan :report_thread_leaks=0)
    list(APPEND environment ASAN_OPTIONS=detect_stack_use_after_return=1:handle_segv=0
         TSAN_OPTIONS=${tsan}:suppressions=${CMAKE_SOURCE_DIR}/tests/support/tsan.supp)
  endif()
  if(NOT arg_SHARDS)
    set(arg_SHARDS 1)
  endif()
  if(NOT arg_COST)
    set(arg_COST 1)
  endif()
  math(EXPR last "${arg_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${prefix}${program}.${shard} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${prefix}${program}.${shard} PROPERTIES LABELS "${label}" TIMEOUT 1800 COST ${arg_COST}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=${arg_SHARDS};GTEST_SHARD_INDEX=${shard};${environment}")
  endforeach()
endfunction()

# The sources of a test program are compiled without optimisation, which takes less than half of the time:
# most of a test's time goes to what it tests. QUICK: not this one, whose own code takes long.
function(uopd_test_program program)
  cmake_parse_arguments(arg "QUICK" "" "" ${ARGN})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(NOT arg_QUICK)
    target_compile_options(${program} PRIVATE -O0)
  endif()
endfunction()

function(uopd_unit_tests folder)
  string(REPLACE "/" "_" name ${folder})
  set(patterns ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*_test.cc ${CMAKE_SOURCE_DIR}/tests/integration/${folder}/*_test.cc)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(folder MATCHES "^(server/(engine|worker)|cache|client/(cli|cpp)|core/(base|codegen|ir|render|schedule))$")  # one program for all rooms
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${patterns})
    # Those of cache_reapi_test, client_net_test and core_render_run_test.
    list(FILTER sources EXCLUDE REGEX "/cache/reapi/|/client/cpp/net/(connection|connection_contents|shared_area)_test|/core/render/run/")
  endif()
  if(NOT sources OR NOT TARGET uopd_${name})
    return()
  endif()
  add_executable(${name}_test ${sources})
  if(folder MATCHES "^core/(rules|codegen)$")  # random expressions are evaluated, random kernels interpreted
    uopd_test_program(${name}_test QUICK)
  else()
    uopd_test_program(${name}_test)
  endif()
  if(folder MATCHES "^core/")
    uopd_check_no_accesses(${name}_test)
  endif()
  target_link_libraries(${name}_test PRIVATE uopd_${name} GTest::gmock GTest::gtest GTest::gtest_main ${ARGN})
  list(LENGTH sources shards)
  math(EXPR shards "(${shards} + 3) / 4")
  if(shards GREATER 4)
    set(shards 4)
  endif()
  uopd_register_tests(${name}_test unit SHARDS ${shards} COST ${shards})
endfunction()

# Reference interpreters, generators and checks that tests share.
file(GLOB support CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/*.cc ${CMAKE_SOURCE_DIR}/tests/support/opts/*.cc)
# tsan_grpc.cc belongs to uopd_proto.
list(FILTER support EXCLUDE REGEX "/tsan_grpc.cc$")
add_library(uopd_test_support STATIC ${support})
uopd_check_no_accesses(uopd_test_support)
target_link_libraries(uopd_test_support PUBLIC uopd_core_schedule uopd_core_codegen uopd_core_render uopd_core_interp ${CMAKE_DL_LIBS})

# Whole models built with the client's Tensor.
if(TARGET uopd_client_cpp)
  file(GLOB models CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/models/*.cc)
  add_library(uopd_test_models STATIC ${models})
  target_link_libraries(uopd_test_models PUBLIC uopd_client_cpp uopd_test_support)
  uopd_compile_quickly(uopd_test_models)
endif()

uopd_unit_tests(core/base)
uopd_unit_tests(core/ir)
uopd_unit_tests(core/rewrite)
uopd_unit_tests(core/rules uopd_test_support)
uopd_unit_tests(core/schedule uopd_test_support)
uopd_unit_tests(core/codegen uopd_test_support)
uopd_unit_tests(core/interp uopd_core_interp)
set_target_properties(core_codegen_test PROPERTIES ENABLE_EXPORTS ON)  # tests/support/amx_emulator.h
uopd_unit_tests(core/render uopd_test_support)
uopd_unit_tests(core/search)
if(NOT UOPD_CORE_ONLY)
  # Rendered text on the device that it is for.
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/integration/core/render/run/*_test.cc
      ${CMAKE_SOURCE_DIR}/tests/support/amdgpu/*.cc ${CMAKE_SOURCE_DIR}/tests/support/gpu/*.cc)
  add_executable(core_render_run_test ${sources})
  uopd_test_program(core_render_run_test)
  target_link_libraries(core_render_run_test PRIVATE uopd_test_support uopd_devices_cpu uopd_devices_cuda GTest::gtest GTest::gtest_main)
  target_compile_definitions(core_render_run_test PRIVATE UOPD_BUILT_PTXC="$<TARGET_FILE_DIR:uopd>/uopd-ptxc")
  uopd_register_tests(core_render_run_test unit SHARDS 4 COST 4)
  uopd_unit_tests(devices/cpu)
  # Real servers of Redis, and from PyPI.
  add_library(uopd_test_redis STATIC ${CMAKE_SOURCE_DIR}/tests/support/redis/redis_process.cc
      ${CMAKE_SOURCE_DIR}/tests/support/services/certificates.cc ${CMAKE_SOURCE_DIR}/tests/support/services/child_program.cc
      ${CMAKE_SOURCE_DIR}/tests/support/services/s3_service.cc ${CMAKE_SOURCE_DIR}/tests/support/services/service_process.cc)
  target_link_libraries(uopd_test_redis PUBLIC uopd_cache_redis)
  uopd_compile_quickly(uopd_test_redis)
  uopd_unit_tests(cache uopd_test_redis)
  # A cache that speaks gRPC, whose threads ThreadSanitizer watches in a program of its own.
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/cache/reapi/*_test.cc
      ${CMAKE_SOURCE_DIR}/tests/integration/cache/reapi/*_test.cc)
  add_executable(cache_reapi_test ${sources} ${CMAKE_SOURCE_DIR}/tests/support/services/fake_reapi.cc)
  uopd_test_program(cache_reapi_test)
  target_link_libraries(cache_reapi_test PRIVATE uopd_cache_reapi uopd_cache uopd_test_redis GTest::gtest GTest::gtest_main)
  uopd_register_tests(cache_reapi_test unit GRPC)
  # Frames of HTTP/2, and floods of them.
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/http2/*.cc)
  add_library(uopd_test_http2 STATIC ${sources})
  target_link_libraries(uopd_test_http2 PUBLIC uopd_core_base)
  uopd_unit_tests(server/net uopd_test_http2)
  uopd_unit_tests(server/engine uopd_test_support uopd_fake_hip)
  uopd_register_tests(server_engine_test unit LATE SHARDS 4 COST 4)
  uopd_unit_tests(server/worker uopd_test_support uopd_fake_cuda)
  uopd_unit_tests(client/cpp uopd_test_models)
  # Connections, whose threads ThreadSanitizer watches (tests/run).
  add_executable(client_net_test ${CMAKE_SOURCE_DIR}/tests/unit/client/cpp/net/connection_test.cc
      ${CMAKE_SOURCE_DIR}/tests/unit/client/cpp/net/connection_contents_test.cc
      ${CMAKE_SOURCE_DIR}/tests/unit/client/cpp/net/shared_area_test.cc)
  uopd_test_program(client_net_test)
  target_link_libraries(client_net_test PRIVATE uopd_client_cpp GTest::gmock GTest::gtest GTest::gtest_main)
  uopd_register_tests(client_net_test unit GRPC)
  uopd_unit_tests(client/data)
  uopd_unit_tests(client/s3 uopd_test_redis)
  uopd_unit_tests(client/cli)
endif()

# Programs whose graphs are right, with every node verified as it is made (docs/debugging.md, SPEC).
function(uopd_spec2_test program label filter)
  if(TARGET ${program} AND NOT UOPD_SANITIZE MATCHES thread)
    add_test(NAME spec2_${program} COMMAND ${program} --gtest_brief=1 --gtest_filter=${filter})
    set_tests_properties(spec2_${program} PROPERTIES LABELS ${label} TIMEOUT 1800 COST 20 ENVIRONMENT SPEC=2)
  endif()
endfunction()
uopd_spec2_test(core_rules_test unit ExpressionFuzz.*)
uopd_spec2_test(core_schedule_test unit ScheduleFuzz.*)
if(NOT UOPD_SANITIZE)  # with AddressSanitizer the same checks take 17 times as long
  uopd_spec2_test(client_cpp_test plain -KernelCountTest.*)
elseif(UOPD_SANITIZE_WHOLE)
  uopd_spec2_test(client_cpp_test unit -KernelCountTest.*:ConvolutionTilesTest.*:TableKey.*)
endif()

foreach(part golden conformance e2e fuzz chaos cluster simulation plants perf digests layering install dashboards)
  include(tests/${part}/${part}.cmake OPTIONAL)
endforeach()

# Tests that say less under sanitizers, or other things where asserts are on: a program of them alone, so that the stage `release` of tests/run
# needs to build no other unit test.
if(NOT UOPD_CORE_ONLY AND NOT UOPD_SANITIZE)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/*_test.cc
      ${CMAKE_SOURCE_DIR}/tests/integration/*_test.cc)
  foreach(source ${sources})
    file(STRINGS ${source} conditions REGEX "^#.*(UOPD_SANITIZED|__SANITIZE_|NDEBUG)")
    if(NOT conditions)
      list(REMOVE_ITEM sources ${source})
    endif()
  endforeach()
  file(GLOB amdgpu CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/support/amdgpu/*.cc)
  # A job that the fork server of the tests of workers has.
  list(APPEND sources ${CMAKE_SOURCE_DIR}/tests/integration/server/worker/measure_gpu_test.cc)
  add_executable(uopd_plain_test ${sources} ${amdgpu})
  uopd_test_program(uopd_plain_test QUICK)
  target_link_libraries(uopd_plain_test PRIVATE uopd_test_models uopd_test_support uopd_server_worker uopd_server_net uopd_fake_cuda uopd_devices
                        GTest::gmock GTest::gtest GTest::gtest_main)
  uopd_register_tests(uopd_plain_test plain SHARDS 4 COST 4)
endif()

# What the stage `release` of tests/run builds: all programs but those of unit tests. The bundle for machines with GPUs
# (tests/install) has one of them, and one runs with every node verified.
get_property(programs DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY BUILDSYSTEM_TARGETS)
get_property(units GLOBAL PROPERTY uopd_unit_programs)
list(REMOVE_ITEM units devices_cuda_test client_cpp_test)
add_custom_target(all_but_units)
foreach(program ${programs})
  get_target_property(type ${program} TYPE)
  if(type MATCHES "^(EXECUTABLE|SHARED_LIBRARY)$" AND NOT program IN_LIST units)
    add_dependencies(all_but_units ${program})
  endif()
endforeach()
