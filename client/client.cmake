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

file(GLOB_RECURSE uopctl_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/client/cli/*.cc)
add_executable(uopctl ${uopctl_sources})
uopd_compile_quickly(uopctl)
target_link_libraries(uopctl PRIVATE uopd_client_cpp uopd_client_data uopd_client_s3 CLI11::CLI11 nlohmann_json::nlohmann_json)

# The programs that README.md and docs/ show.
add_executable(uopd_hello ${CMAKE_SOURCE_DIR}/client/examples/hello.cc)
target_link_libraries(uopd_hello PRIVATE uopd_client_cpp)
add_executable(uopd_rates ${CMAKE_SOURCE_DIR}/client/examples/rates.cc)
target_link_libraries(uopd_rates PRIVATE uopd_client_cpp)
