# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# How gpu-check starts programs: sourced by it.
#
# In a source tree the programs start as they are. A bundle carries their libraries, and the programs start in the first of
# these ways in which they do:
#   machine      the machine's loader, C library and C++ library
#   machine-cxx  the same with the bundle's C++ library, for machines that have none or an older one
#   carried      the bundle's loader and all of its libraries, for machines whose C library is older
# The libraries of drivers are the machine's in every case. Programs are started as "${launch[@]}" "$bin/NAME".
#
# REQUIRES: here (folder of gpu-check), work (temporary folder). Sets bin, launch, loader.
# shellcheck disable=SC2154,SC2034

readonly machine_loader=/lib64/ld-linux-x86-64.so.2
# Where drivers put their libraries on machines whose loader does not look there.
readonly driver_folders=(/usr/local/nvidia/lib64 /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu /usr/lib64 /opt/rocm/lib)

library_path() {
  local path="" folder
  for folder in "$@"; do
    if [ -d "$folder" ]; then path+=${path:+:}$folder; fi
  done
  echo "$path"
}

# Copies of the programs that name the bundle's loader. The name in a program has a fixed length: a link stands for the loader.
carry_programs() {
  link_folder=$(mktemp -d /tmp/uopd.XXXXXX)
  local link=$link_folder/ld-linux.x program
  if [ ${#link} -ne ${#machine_loader} ]; then return 1; fi
  ln -s "$here/lib/glibc/ld-linux-x86-64.so.2" "$link"
  mkdir "$work/bin"
  for program in "$here"/bin/*; do
    LC_ALL=C sed "s#${machine_loader//./\\.}#$link#g" "$program" >"$work/bin/${program##*/}"
    chmod +x "$work/bin/${program##*/}"
  done
}

start_as() {
  loader=$1
  bin=$here/bin
  # The machine's own folders are in its loader's list; naming them first would hide other libraries.
  case $1 in
    machine) launch=(env "LD_LIBRARY_PATH=$(library_path "$here/lib" "${driver_folders[@]:0:2}")") ;;
    machine-cxx) launch=(env "LD_LIBRARY_PATH=$(library_path "$here/lib" "$here/lib/cxx" "${driver_folders[@]:0:2}")") ;;
    carried)
      carry_programs || return 1
      bin=$work/bin
      launch=(env "LD_LIBRARY_PATH=$(library_path "$here/lib" "$here/lib/cxx" "$here/lib/glibc" "${driver_folders[@]}")")
      ;;
    *) echo "gpu-check: no loader is called $1: auto, machine, machine-cxx or carried" >&2; return 1 ;;
  esac
}

programs_start() {
  local program
  for program in "$bin"/*; do
    case $program in */uopd-ptxc) continue ;; esac
    timeout 20 "${launch[@]}" "$program" --help >"$work/start.log" 2>&1 || return 1
  done
}

# choose_programs LOADER
choose_programs() {
  local try tries=(machine machine-cxx carried)
  if [ "$1" != auto ]; then tries=("$1"); fi
  if [ ! -d "$here/lib" ]; then  # a source tree
    launch=(env)
    loader="of the source tree"
    bin=$work/bin
    mkdir "$bin"
    local program build=$here/../build/release
    for program in bin/uopd bin/uopctl bin/uopd-ptxc bin/uopd-gpu-perf tests/conformance_test tests/device_opts_test tests/devices_cuda_test; do
      if [ -x "$build/$program" ]; then ln -s "$(cd "$build" && pwd)/$program" "$bin/"; fi
    done
    tries=()
    if programs_start && [ -e "$bin/uopd" ]; then return 0; fi
  fi
  for try in "${tries[@]}"; do
    if start_as "$try" && programs_start; then return 0; fi
  done
  echo "gpu-check: the programs do not start:" >&2
  tail -5 "$work/start.log" >&2
  return 1
}
