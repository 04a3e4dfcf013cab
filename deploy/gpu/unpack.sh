#!/bin/sh
# SPDX-License-Identifier: MIT
# Unpacks what follows these lines into a new folder: programs of uopd, their libraries, and gpu-check.
#
#   sh FILE [FOLDER]     [uopd-gpu]
# It needs tar and gzip. The rest is decompressed by the program xz that the file carries.
set -eu
folder=${1:-uopd-gpu}
if [ -e "$folder" ]; then
  echo "$0: $folder exists already; name another folder" >&2
  exit 1
fi
mkdir -p "$folder"
skip=$(awk '/^__CONTENTS__$/ { print NR + 1; exit }' "$0")
tail -n "+$skip" "$0" | tar -xf - -C "$folder"
cd "$folder"
gzip -dc boot.tar.gz | tar -xf -
for part in programs libraries; do
  boot/ld-linux-x86-64.so.2 --library-path boot boot/xz -dc "$part.tar.xz" | tar -xf -
  rm "$part.tar.xz"
done
rm -r boot boot.tar.gz
echo "Unpacked. Next: $folder/gpu-check"
exit 0
# shellcheck disable=SC2317
__CONTENTS__
