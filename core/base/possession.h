// SPDX-License-Identifier: MIT
// How a client proves that it has contents whose SHA-256 it names (OpenContents in uopd.proto). The
// daemon gives a key. The tag of contents is their digest with that key: nobody can tell it who has
// the SHA-256 alone. The daemon knows the tags of all that it keeps, so it checks a proof without
// reading the contents. A proof is the digest of the tag with the session id as its key, so a proof
// that somebody has seen is worth nothing in another session.
#pragma once
#include <string_view>

#include "core/base/keyed_digest.h"

namespace uopd {

// SHA-256 and tag of contents, which come in pieces. Not thread-safe.
class ContentHasher {
 public:
  struct Names {
    Digest sha256, tag;
  };

  explicit ContentHasher(std::string_view content_key) : tag_(content_key) {}
  void Update(std::string_view data) {
    // In pieces that stay in the cache of the processor for the second digest.
    constexpr size_t kPiece = 64 << 10;
    for (size_t at = 0; at < data.size(); at += kPiece) {
      sha256_.Update(data.substr(at, kPiece));
      tag_.Update(data.substr(at, kPiece));
    }
  }
  Names Finish() { return {sha256_.Finish(), tag_.Finish()}; }

 private:
  Hasher sha256_;
  KeyedHasher tag_;
};

inline Digest ProofOfPossession(std::string_view session_id, const Digest& tag) {
  return KeyedDigest(session_id, tag.view());
}

}  // namespace uopd
