// SPDX-License-Identifier: MIT
// The tenants of a daemon and their tokens: who may call, and which tenant a call belongs to.
//
// Thread-safe once constructed. Only the SHA-256 of a token is known, so neither the file nor the
// daemon's memory contains what a client sends. Comparing digests takes the same time for every
// wrong token.
#pragma once
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/digest.h"
#include "core/base/status.h"

namespace uopd::engine {

class Tenants {
 public:
  // No tokens: every caller is the tenant "" without any proof.
  Tenants() = default;
  // Parses lines "NAME SHA256-OF-THE-TOKEN" (hexadecimal). Empty lines and lines that begin with #
  // are ignored. A tenant may have several tokens. INVALID_ARGUMENT: a bad line, which the status
  // names, or a file without any token.
  static absl::StatusOr<Tenants> Parse(std::string_view text);
  // Parses a file. NOT_FOUND, or INVALID_ARGUMENT as above; the status names the file.
  static absl::StatusOr<Tenants> Read(const std::string& path);

  // Sets who is an operator: names of tenants, with commas between them. Empty: whoever may call,
  // but nobody if there are several tenants. INVALID_ARGUMENT: a name that no token has.
  absl::Status SetOperators(std::string_view names);
  // Takes the operators of `other`. One that has no token here is nobody.
  void KeepOperatorsOf(const Tenants& other) { operators_ = other.operators_; }
  bool IsOperator(const std::string& tenant) const {
    return operators_.empty() ? names_.size() <= 1 : operators_.contains(tenant);
  }

  bool operator==(const Tenants&) const = default;

  const absl::flat_hash_set<std::string>& names() const { return names_; }
  // Whether callers must present a token.
  bool required() const { return !by_token_.empty(); }
  // The tenant of a call whose `authorization` is "Bearer TOKEN". UNAUTHENTICATED: no token, or a
  // wrong one. The message never repeats what was sent.
  absl::StatusOr<std::string> Authenticate(std::string_view authorization) const;

 private:
  absl::flat_hash_map<Digest, std::string> by_token_;
  absl::flat_hash_set<std::string> names_;  // of all tenants
  absl::flat_hash_set<std::string> operators_;
};

}  // namespace uopd::engine
