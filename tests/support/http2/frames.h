// SPDX-License-Identifier: MIT
// Bytes of HTTP/2 frames, also of those that no well-written client sends.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace uopd::test::http2 {

enum class Type : uint8_t {
  kData,
  kHeaders,
  kPriority,
  kReset,
  kSettings,
  kPushPromise,
  kPing,
  kGoAway,
  kWindowUpdate,
  kContinuation,
};

constexpr uint8_t kEndStream = 1, kAck = 1, kEndHeaders = 4;

std::string Frame(Type type, uint8_t flags, uint32_t stream, std::string_view payload = {});
// The payload of RST_STREAM and WINDOW_UPDATE.
std::string Number(uint32_t value);

// The first bytes of a client: the preface and empty settings.
std::string Greeting();
inline std::string Acknowledgment() { return Frame(Type::kSettings, kAck, 0); }

// A header field that the receiver does not keep in its table, without compression.
std::string Field(std::string_view name, std::string_view value);
// The header block of a call of this method ("/package.Service/Method").
std::string CallFields(std::string_view method);

}  // namespace uopd::test::http2
