// SPDX-License-Identifier: MIT
// The key of a cached value: store, semantic key, environment key.
//
// `semantic` says what was asked for. `environment` is everything else that decides the bytes
// (toolchain, device model, search space). Rows hold both keys whole, and reads compare them; the
// address only says where to look. Immutable, may be shared by threads.
#pragma once
#include <string>
#include <string_view>
#include <utility>

#include "core/base/digest.h"

namespace uopd::cache {

// SHA-256 over the three parts, each preceded by its length.
Digest AddressOf(std::string_view store, std::string_view semantic, std::string_view environment);

class Key {
 public:
  Key(std::string store, std::string semantic, std::string environment)
      : store_(std::move(store)),
        semantic_(std::move(semantic)),
        environment_(std::move(environment)),
        address_(AddressOf(store_, semantic_, environment_)) {}

  const std::string& store() const { return store_; }
  const std::string& semantic() const { return semantic_; }
  const std::string& environment() const { return environment_; }
  const Digest& address() const { return address_; }

 private:
  std::string store_, semantic_, environment_;
  Digest address_;
};

}  // namespace uopd::cache
