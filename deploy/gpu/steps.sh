# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# The steps of gpu-check and their table: sourced by it.
#
# A step is a function. It passes if it returns 0. It is skipped if it calls skip, which ends it. Otherwise it fails. What it prints
# goes to a file of its own; the end of that file is shown if the step fails.
#
# REQUIRES: work (temporary folder), logs (folder of the steps' output), limit_s (seconds for all steps together).
# shellcheck disable=SC2154

readonly skip_status=77
table=()
passed=0 failed=0 skipped=0

# skip REASON: for a step.
skip() {
  echo "$*" >"$work/reason"
  exit $skip_status
}

left_s() { echo $((limit_s - SECONDS > 1 ? limit_s - SECONDS : 1)); }

# within SECONDS COMMAND...: COMMAND, ended after that time or when the time of all steps is over.
within() {
  local most=$1
  shift
  if [ "$most" -gt "$(left_s)" ]; then most=$(left_s); fi
  local status=0
  timeout -k 10 "$most" "$@" || status=$?
  if [ $status -eq 124 ] || [ $status -eq 137 ]; then echo "ended after $most s: it took too long"; fi
  return $status
}

# step NAME FUNCTION ARGUMENT...
step() {
  local name=$1 status=0 from=$SECONDS log
  shift
  log=$logs/$(tr -c 'a-zA-Z0-9\n' _ <<<"$name").log
  : >"$work/reason"
  echo "== $name"
  set +e
  (set -e; "$@") >"$log" 2>&1
  status=$?
  set -e
  local took=$((SECONDS - from)) word reason
  case $status in
    0) word=pass passed=$((passed + 1)) ;;
    "$skip_status") word=skipped skipped=$((skipped + 1)) ;;
    *)
      word=FAIL failed=$((failed + 1))
      tail -15 "$log" | sed 's/^/   /'
      if [ ! -s "$work/reason" ]; then echo "exit status $status, see $log" >"$work/reason"; fi
      ;;
  esac
  reason=$(head -n 1 "$work/reason")
  table+=("$(printf '%-40s %-8s %5d s  %s' "$name" "$word" "$took" "$reason")")
  echo "   $word in $took s ${reason:+($reason)}"
  return 0
}

# note TEXT: a step's remark that the table shows.
note() { echo "$*" >"$work/reason"; }

show_table() {
  echo
  printf '%-40s %-8s %7s  %s\n' step result time remark
  printf '%s\n' "${table[@]}"
  echo "$passed passed, $failed failed, $skipped skipped; ${SECONDS} s; output of the steps: $logs"
}
