# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# What a machine has for GPUs, and what is missing: sourced by gpu-check. It looks at files alone and starts no driver: what the
# daemon says about its devices is a step of its own.
#
# Each function is a step (steps.sh): it passes with a remark, or is skipped with the name of what is missing.
# REQUIRES: bin, launch (programs.sh).
# shellcheck disable=SC2154

# find_library NAME: the path of a shared library, from the loader's list or a known folder. Nothing if there is none.
find_library() {
  local path folder
  path=$({ ldconfig -p || /sbin/ldconfig -p; } 2>/dev/null | awk -v name="$1" '$1 == name && /x86-64/ && !n++ { print $NF }' || true)
  for folder in "${driver_folders[@]}" /opt/rocm/lib64 /usr/lib; do
    if [ -z "$path" ] && [ -e "$folder/$1" ]; then path=$folder/$1; fi
  done
  echo "$path"
}

# The number of display or compute processors of a vendor on the PCI bus.
pci_devices() {
  local device count=0
  for device in /sys/bus/pci/devices/*; do
    if [ "$(cat "$device/vendor" 2>/dev/null)" != "$1" ]; then continue; fi
    case $(cat "$device/class" 2>/dev/null) in 0x03* | 0x12*) count=$((count + 1)) ;; esac
  done
  echo $count
}

nvidia_driver() {
  local chips library version
  chips=$(pci_devices 0x10de)
  library=$(find_library libcuda.so.1)
  version=$(awk '/NVRM version/ { for (i = 1; i <= NF; ++i) if ($i ~ /^[0-9]+\.[0-9]+/) { print $i; exit } }' /proc/driver/nvidia/version 2>/dev/null || true)
  if [ -z "$library" ] && [ -z "$version" ]; then
    skip "no libcuda.so.1 and no kernel module of NVIDIA ($chips chips on the PCI bus): install NVIDIA's driver"
  fi
  if [ -z "$library" ]; then skip "the kernel module is there, libcuda.so.1 is not: in a container, ask for the driver's libraries"; fi
  if [ ! -e /dev/nvidiactl ]; then skip "$library is there, /dev/nvidiactl is not: the kernel module is not loaded, or the container has no GPU"; fi
  note "driver ${version:-of unknown version}, $library"
}

# The path of the first of these libraries that is there; empty: none is.
first_library() {
  local name path
  for name in "$@"; do
    path=$(find_library "$name")
    if [ -n "$path" ]; then echo "$path"; return; fi
  done
}

nvrtc() {
  local path=${UOPD_NVRTC:-$(first_library libnvrtc.so.13 libnvrtc.so.12 libnvrtc.so.11.2 libnvrtc.so)}
  if [ -z "$path" ]; then skip "no libnvrtc: CUDA devices take PTX. pip install nvidia-cuda-nvrtc-cu12 has it; UOPD_NVRTC names its file"; fi
  if [ ! -r "$path" ]; then skip "UOPD_NVRTC names $path, which cannot be read"; fi
  note "$path"
}

ptx_compiler() {
  if [ -x "$bin/uopd-ptxc" ]; then
    note "uopd-ptxc $("${launch[@]}" "$bin/uopd-ptxc" --version)"
    return
  fi
  if [ -n "$(find_library libcuda.so.1)" ]; then note "the driver; there is no uopd-ptxc"; return; fi
  skip "no uopd-ptxc (it was not built), and no driver"
}

amd_driver() {
  local chips library
  chips=$(pci_devices 0x1002)
  library=$(first_library libamdhip64.so.7 libamdhip64.so.6 libamdhip64.so.5 libamdhip64.so)
  if [ ! -e /dev/kfd ] && [ -z "$library" ]; then
    skip "no /dev/kfd and no libamdhip64.so ($chips chips on the PCI bus): install ROCm"
  fi
  if [ -z "$library" ]; then skip "/dev/kfd is there, libamdhip64.so is not: install ROCm's HIP runtime"; fi
  if [ ! -e /dev/kfd ]; then skip "$library is there, /dev/kfd is not: the kernel module amdgpu is not loaded"; fi
  note "$library"
}

# Where uopd's own compiler for AMD finds no linker.
hiprtc() {
  local path=${UOPD_HIPRTC:-$(first_library libhiprtc.so.7 libhiprtc.so.6 libhiprtc.so.5 libhiprtc.so)}
  if [ -z "$path" ]; then skip "no libhiprtc: AMD devices need ld.lld"; fi
  if [ ! -r "$path" ]; then skip "UOPD_HIPRTC names $path, which cannot be read"; fi
  note "$path"
}

opencl_drivers() {
  local library file names=()
  library=$(find_library libOpenCL.so.1)
  if [ -z "$library" ]; then skip "no libOpenCL.so.1: install an ICD loader, such as ocl-icd-libopencl1"; fi
  for file in /etc/OpenCL/vendors/*.icd; do
    if [ -r "$file" ]; then names+=("$(head -n 1 "$file")"); fi
  done
  if [ ${#names[@]} -eq 0 ]; then skip "$library is there, but /etc/OpenCL/vendors names no driver"; fi
  note "$library with ${names[*]}"
}
