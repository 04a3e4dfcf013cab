# Devices: the narrow waist, one folder per driver, and the registry that names them all.
find_package(LLVM 19.1 CONFIG REQUIRED)

uopd_layer(devices/api uopd_core_base)
uopd_layer(devices/api/host uopd_devices_api)
uopd_layer(devices/dl uopd_core_base ${CMAKE_DL_LIBS})
uopd_layer(devices/null uopd_devices_api_host)
uopd_layer(devices/cpu uopd_devices_api_host)
target_include_directories(uopd_devices_cpu SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
target_link_libraries(uopd_devices_cpu PRIVATE LLVM)
uopd_layer(devices/cuda uopd_devices_api_host uopd_devices_dl)
# A program of its own, built where NVIDIA's static compiler of PTX is found.
find_library(UOPD_NVPTXCOMPILER nvptxcompiler_static PATHS /usr/local/cuda/lib64)
if(UOPD_NVPTXCOMPILER)
  add_executable(uopd-ptxc ${CMAKE_SOURCE_DIR}/devices/cuda/ptxc/ptxc_main.cc)
  target_link_libraries(uopd-ptxc PRIVATE ${UOPD_NVPTXCOMPILER} Threads::Threads ${CMAKE_DL_LIBS})
endif()
uopd_layer(devices uopd_devices_api uopd_devices_null uopd_devices_cpu uopd_devices_cuda)
