// SPDX-License-Identifier: MIT
// What the daemon's reader makes of graphs: for every graph on standard input (four bytes of
// length, little-endian, then its bytes) one line, "ok HEX" with the canonical form or the error's
// text.
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/base/status.h"
#include "core/ir/io/wire.h"

int main() {
  uint32_t size = 0;
  while (std::fread(&size, sizeof size, 1, stdin) == 1) {
    std::string bytes(size, '\0');
    if (std::fread(bytes.data(), 1, size, stdin) != size) return 1;
    uopd::ir::UOpContext ctx;
    const auto root = uopd::ir::Decode(ctx, bytes, uopd::ir::Level::kTensor);
    if (root.ok()) {
      std::fputs("ok ", stdout);
      for (unsigned char byte : uopd::ir::Encode(ctx, *root)) std::printf("%02x", byte);
      std::puts("");
    } else {
      std::printf("%s\n", uopd::StatusText(root.status()).c_str());
    }
  }
  return 0;
}
