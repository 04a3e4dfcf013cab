# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# A small set of images and labels in the IDX format, for training jobs: sourced by gpu-bundle and gpu-check.
#
# The images are the first ones of Fashion-MNIST where it is installed. Otherwise they are bytes of a given file: nothing can be
# learned from them, but two devices still compute the same.

readonly fashion_mnist=/usr/share/datasets/fashion-mnist
readonly train_count=2000 test_count=500 image_bytes=784

# The first $1 bytes of what standard input has. What follows is read too, so that no writer before it fails.
first_bytes() { head -c "$1"; cat >/dev/null; }

# A number as four bytes, the highest first.
# shellcheck disable=SC2059  # the format is the number
big_endian() { printf "$(printf '\\%03o' $(($1 >> 24 & 255)) $(($1 >> 16 & 255)) $(($1 >> 8 & 255)) $(($1 & 255)))"; }

images_header() { big_endian 2051; big_endian "$1"; big_endian 28; big_endian 28; }
labels_header() { big_endian 2049; big_endian "$1"; }

# Bytes of numbers below ten.
made_labels() {
  local octal
  octal=$(first_bytes "$2" <"$1" | od -An -v -tu1 | awk '{ for (i = 1; i <= NF; ++i) printf "\\%03o", $i % 10 }')
  printf '%b' "${octal//\\/\\0}"
}

# make_data FOLDER FILE: the four files in FOLDER. FILE has the bytes that stand for images where there are none.
make_data() {
  local set count images labels
  mkdir -p "$1"
  for set in train t10k; do
    count=$train_count
    if [ $set = t10k ]; then count=$test_count; fi
    images=$1/$set-images-idx3-ubyte labels=$1/$set-labels-idx1-ubyte
    images_header "$count" >"$images"
    labels_header "$count" >"$labels"
    if [ -r "$fashion_mnist/${images##*/}.gz" ] && [ -r "$fashion_mnist/${labels##*/}.gz" ]; then
      gzip -dc "$fashion_mnist/${images##*/}.gz" | tail -c +17 | first_bytes $((count * image_bytes)) >>"$images"
      gzip -dc "$fashion_mnist/${labels##*/}.gz" | tail -c +9 | first_bytes "$count" >>"$labels"
    else
      first_bytes $((count * image_bytes)) <"$2" >>"$images"
      made_labels "$2" "$count" >>"$labels"
    fi
  done
}
