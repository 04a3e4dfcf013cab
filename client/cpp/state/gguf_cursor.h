// SPDX-License-Identifier: MIT
// Reads the parts of a GGUF header one after the other. Internal to the library.
#pragma once
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "absl/status/statusor.h"
#include "core/base/status.h"
#include "uopd/gguf.h"

namespace uopd::client {

// Each part is compared with what is left before it is read, and nothing is allocated. Errors:
// INVALID_ARGUMENT, or OUT_OF_RANGE where the file may have the bytes and `bytes` has not.
class GgufCursor {
 public:
  // The first bytes of a file of `file_bytes` bytes.
  GgufCursor(std::string_view bytes, uint64_t file_bytes);

  uint64_t at() const { return at_; }
  // How many bytes the header may still have.
  uint64_t left() const { return limit_ - at_; }
  // OK: `bytes` has that many more.
  absl::Status Need(uint64_t bytes) const;
  absl::StatusOr<std::string_view> Take(uint64_t bytes);
  template <class T>
  absl::StatusOr<T> Number() {
    static_assert(std::is_arithmetic_v<T>);
    UOPD_ASSIGN(const std::string_view bytes, Take(sizeof(T)));
    T out;
    std::memcpy(&out, bytes.data(), sizeof(T));  // little-endian, as every host of uopd
    return out;
  }
  absl::StatusOr<std::string_view> String();
  // The number of a type, which is checked.
  absl::StatusOr<GgufType> Type();
  // `depth` is the number of arrays that the value lies in.
  absl::StatusOr<GgufValue> Value(GgufType type, int depth);

 private:
  template <class Wide, class T>
  absl::StatusOr<GgufValue> Widened() {
    UOPD_ASSIGN(const T number, Number<T>());
    return GgufValue(static_cast<Wide>(number));
  }
  absl::StatusOr<GgufArray> Array(int depth);

  std::string_view bytes_;
  uint64_t file_bytes_;
  uint64_t limit_;  // of at_
  uint64_t at_ = 0;
};

}  // namespace uopd::client
