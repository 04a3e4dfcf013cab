# The client: library, parsers of data files, uopctl. Links no LLVM, SQLite or driver.
find_package(ZLIB REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CURL 7.86 REQUIRED)

uopd_layer(client/cpp uopd_proto uopd_core_rules)
target_link_libraries(uopd_client_cpp PRIVATE nlohmann_json::nlohmann_json)  # headers alone
target_include_directories(uopd_client_cpp PUBLIC ${CMAKE_SOURCE_DIR}/client/include)
uopd_layer(client/data uopd_core_ir ZLIB::ZLIB)
uopd_layer(client/s3 uopd_core_base CURL::libcurl)

# The commands are a library, so that tests have them, too.
file(GLOB_RECURSE uopctl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/cli/*.cc)
list(REMOVE_ITEM uopctl_sources ${CMAKE_SOURCE_DIR}/client/cli/main.cc)
add_library(uopd_client_cli STATIC ${uopctl_sources})
uopd_compile_quickly(uopd_client_cli)
target_compile_definitions(uopd_client_cli PUBLIC UOPD_VERSION="${PROJECT_VERSION}")
target_link_libraries(uopd_client_cli PUBLIC uopd_client_cpp uopd_client_data uopd_client_s3 CURL::libcurl CLI11::CLI11 nlohmann_json::nlohmann_json)
add_executable(uopctl ${CMAKE_SOURCE_DIR}/client/cli/main.cc)
target_link_libraries(uopctl PRIVATE uopd_client_cli)
# Manual pages and completions, which the program makes itself; deploy/install.cmake installs them.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/pages)
add_custom_command(TARGET uopctl POST_BUILD
  COMMAND uopctl man uopctl > ${CMAKE_BINARY_DIR}/pages/uopctl.1
  COMMAND uopctl man uopd > ${CMAKE_BINARY_DIR}/pages/uopd.8
  COMMAND uopctl completion bash > ${CMAKE_BINARY_DIR}/pages/uopctl.bash
  COMMAND uopctl completion zsh > ${CMAKE_BINARY_DIR}/pages/_uopctl
  VERBATIM)

# The programs that README.md and docs/ show.
add_executable(uopd_hello ${CMAKE_SOURCE_DIR}/client/examples/hello.cc)
target_link_libraries(uopd_hello PRIVATE uopd_client_cpp)
add_executable(uopd_rates ${CMAKE_SOURCE_DIR}/client/examples/rates.cc)
target_link_libraries(uopd_rates PRIVATE uopd_client_cpp)
