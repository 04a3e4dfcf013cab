// SPDX-License-Identifier: MIT
// SealKey: a key that signs what a daemon leaves in a place that others can write, or checks such
// signatures.
//
// Whoever can write to a shared tier could make every daemon run its code, so a daemon takes
// nothing from there without a signature of a key that it trusts. Two kinds of keys:
//   - HMAC-SHA256 (RFC 2104): one secret for all daemons, which all can sign with;
//   - Ed25519 (RFC 8032): daemons that only read the tier have the public key alone.
//
// A value; copies share the key. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct evp_pkey_st;

namespace uopd::cache {

enum class SealKind : uint8_t { kHmacSha256 = 1, kEd25519 = 2 };  // stored in records
constexpr size_t SignatureBytes(SealKind kind) { return kind == SealKind::kHmacSha256 ? 32 : 64; }

class SealKey {
 public:
  static constexpr size_t kIdBytes = 8;

  SealKey() = default;  // neither signs nor takes any signature

  // The key in a file: a PEM of an Ed25519 key, private or public (`openssl genpkey -algorithm
  // ed25519`), or a secret of at least 32 bytes in hexadecimal digits (`openssl rand -hex 32`).
  // Errors name the file, never its content; see ReadSecretFile, and INVALID_ARGUMENT for what is
  // no such key.
  static absl::StatusOr<SealKey> Read(const std::string& path);

  SealKind kind() const { return pkey_ == nullptr ? SealKind::kHmacSha256 : SealKind::kEd25519; }
  // Names the key in records: kIdBytes bytes, which do not help to find the key.
  const std::string& id() const { return id_; }
  // False for public keys.
  bool can_sign() const { return can_sign_; }

  // The signature of `bytes`. REQUIRES: can_sign().
  std::string Sign(std::string_view bytes) const;
  bool Verify(std::string_view bytes, std::string_view signature) const;

 private:
  std::string secret_;                 // of HMAC; never empty for a key from a file
  std::shared_ptr<evp_pkey_st> pkey_;  // of Ed25519
  std::string id_;
  bool can_sign_ = false;
};

// The key of `keys` with this kind and id; null: none.
const SealKey* FindKey(const std::vector<SealKey>& keys, SealKind kind, std::string_view id);

}  // namespace uopd::cache
