# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The steps of gpu-check that run on a device: sourced by it. Each function is a step (steps.sh) and takes the device's name.
#
# REQUIRES: bin, launch (programs.sh), data, work, short.
# shellcheck disable=SC2154

# A name as the daemon shows it: "cuda" is CUDA:0.
full_name() {
  local name=${1^^}
  case $name in *:*) echo "$name" ;; *) echo "$name:0" ;; esac
}

# start_daemon DEVICES FLAG...: sets address. The daemon ends with the step.
start_daemon() {
  local list=$1 folder pid flags=()
  shift
  # Where the driver compiles PTX, a worker's address space has no room for it under the usual limit.
  case $list in *CUDA*) flags+=(--compile-worker-bytes=0) ;; esac
  folder=$(mktemp -d "$work/daemon.XXXXXX")
  "${launch[@]}" "$bin/uopd" "--listen=unix:$folder/socket" --http-listen= "--data-dir=$folder/data" "--ready-file=$folder/ready" \
    "--device-list=$list" "${flags[@]}" "$@" >"$folder/log" 2>&1 &
  pid=$!
  # shellcheck disable=SC2064  # the values of now
  trap "kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true" EXIT
  address=unix:$folder/socket
  for _ in $(seq 600); do
    if [ -s "$folder/ready" ]; then return 0; fi
    if ! kill -0 $pid 2>/dev/null; then break; fi
    sleep 0.1
  done
  tail -20 "$folder/log"
  echo "the daemon does not start"
  return 1
}

# The lines of `uopctl devices`.
daemon_devices() { within 60 "${launch[@]}" "$bin/uopctl" --address "$address" devices; }

# Writes the names of the chips to $work/devices. Processors of the host are no chips, PoCL's devices among them.
list_devices() {
  local lines kind name
  : >"$work/devices"
  start_daemon CPU,all
  lines=$(daemon_devices)
  echo "$lines"
  for kind in CUDA AMD CL; do
    if [ $kind = CL ] && [ -s "$work/devices" ]; then continue; fi
    name=$(awk -v kind="$kind:" 'index($1, kind) == 1 && !/unavailable/ && !/pthread|[Cc][Pp][Uu]-|basic-/ { print $1; exit }' <<<"$lines")
    if [ -n "$name" ]; then echo "$name" >>"$work/devices"; fi
  done
  if [ ! -s "$work/devices" ]; then skip "no chip: the steps above say which driver is missing"; fi
  note "$(tr '\n' ' ' <"$work/devices")"
}

open_device() {
  local name line
  name=$(full_name "$1")
  start_daemon "CPU,$name"
  line=$(daemon_devices | grep "^$name ")
  echo "$line"
  case $line in
    *unavailable*) note "$line"; return 1 ;;
  esac
  note "$line"
}

# as_sm_90a STEP DEVICE ARGUMENT...: the step with code for sm_90a, which uses wgmma (device.cuda_specific).
as_sm_90a() {
  local step=$1 device=$2
  (
    start_daemon "CPU,$(full_name "$device")" --device-cuda-specific=true
    daemon_devices | grep "^$(full_name "$device") .*sm_90a" >/dev/null
  ) || skip "the chip is not of capability 9.0"
  shift 2
  UOPD_CUDA_SPECIFIC=1 "$step" "$device" "$@"
}

# How many tests of a program passed, by its output in $1.
count_passed() { awk '/^\[  PASSED  \]/ { print $4 }' "$1"; }

# run_tests SECONDS PROGRAM FLAG...: fails with the tests, and is skipped if none of them ran.
run_tests() {
  local most=$1 program=$2 status=0
  shift 2
  within "$most" "${launch[@]}" "$bin/$program" "$@" >"$work/tests.log" 2>&1 || status=$?
  cat "$work/tests.log"
  if [ $status -ne 0 ]; then
    note "exit status $status; $(grep -c '^\[  FAILED  \].*(.* ms)' "$work/tests.log" || true) tests failed"
    return 1
  fi
  local count
  count=$(count_passed "$work/tests.log")
  if [ "${count:-0}" -eq 0 ]; then
    skip "no test of $program ran: $(grep -m 1 -A 1 'Skipped' "$work/tests.log" | tail -1 || echo "it has none for this device")"
  fi
  note "$count tests"
}

conformance() {
  local filter
  case ${1^^} in
    CUDA*) filter='CudaChip*/*' ;;
    AMD*) filter="HipChip*/*" ;;
    CL*) filter='OpenCl/*' ;;
    *) skip "conformance_test has no cases for $1" ;;
  esac
  TMPDIR=$work run_tests 200 conformance_test "--gtest_filter=$filter"
}

# In parts with seeds of their own, as many as fit into the time: compilers differ in speed by far.
random_opts() {
  local lists=200 part=50 most_s=200 done_lists=0 from=$SECONDS name
  name=$(full_name "$1")
  if [ -n "$short" ]; then lists=4 part=4; fi
  while [ $done_lists -lt $lists ] && { [ $done_lists -eq 0 ] || [ $((SECONDS - from)) -lt $most_s ]; }; do
    UOPD_FUZZ_DEVICE=$name UOPD_FUZZ_DEVICE_OPTS=$part UOPD_FUZZ_SEED=$((11 + done_lists)) UOPD_REQUIRE_OPENCL=1 \
      run_tests 300 device_opts_test || return 1
    done_lists=$((done_lists + part))
  done
  note "$done_lists lists of opts for each kernel, in $((SECONDS - from)) s"
}

# The loss of a training job on a device, with $2.. as flags of uopctl.
loss() {
  local device=$1 out
  shift
  out=$(within 120 "${launch[@]}" "$bin/uopctl" --address "$address" --json train-mnist --data "$data" --seed 3 --device "$device" "$@")
  echo "$device: $out" >&2
  sed -n 's/.*"loss":\([-+0-9.eE]*\).*/\1/p' <<<"$out"
}

# The same job on the device and on the CPU: the losses differ by less than a thousandth.
training() {
  local name there here_loss steps=200
  name=$(full_name "$1")
  shift
  if [ -n "$short" ]; then steps=30; fi
  start_daemon "CPU,$name" "$@"
  local flags=(--steps "$steps" --batch 64 --hidden 128)
  here_loss=$(loss CPU:0 "${flags[@]}")
  if ! there=$(loss "$name" "${flags[@]}" 2>"$work/training.log"); then
    cat "$work/training.log"
    if grep -q UNIMPLEMENTED "$work/training.log"; then skip "no code for this device: $(grep -m 1 UNIMPLEMENTED "$work/training.log")"; fi
    return 1
  fi
  cat "$work/training.log"
  note "loss $there, on the CPU $here_loss"
  awk -v a="$there" -v b="$here_loss" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(a != "" && b > 0 && d <= 1e-3 * b) }'
}

benches() {
  local scale=1
  if [ ! -x "$bin/uopd-gpu-perf" ]; then skip "there is no uopd-gpu-perf"; fi
  if [ -n "$short" ]; then scale=0.05; fi
  within 200 "${launch[@]}" "$bin/uopd-gpu-perf" gpu --device "$(full_name "$1")" --scale $scale | tee "$work/benches"
  local part
  part=$(awk '/gpu\.overlap\.copy_in/ { for (i = 1; i < NF; ++i) if ($i == "ratio") { print $(i + 1); exit } }' "$work/benches")
  note "$(grep -c . "$work/benches") figures; uploads while computing: ${part:-?} of their own rate (target 0.8)"
}

driver_tests() { run_tests 60 devices_cuda_test; }
