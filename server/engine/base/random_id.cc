// SPDX-License-Identifier: MIT
#include "server/engine/base/random_id.h"

#include <sys/random.h>

#include <cstring>

#include "core/base/text.h"

namespace uopd::engine {

absl::StatusOr<std::string> RandomId() {
  unsigned char bytes[16];
  // Once the generator is seeded, getrandom never returns less than asked for up to 256 bytes.
  if (getrandom(bytes, sizeof bytes, 0) != static_cast<ssize_t>(sizeof bytes)) {
    return absl::UnavailableError(Cat("random numbers are not available: ", std::strerror(errno)));
  }
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (unsigned char byte : bytes) out += {kDigits[byte >> 4], kDigits[byte & 15]};
  return out;
}

}  // namespace uopd::engine
