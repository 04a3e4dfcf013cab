// SPDX-License-Identifier: MIT
// Contents in files of a folder, so that a daemon has them after a restart. A file is named by the
// SHA-256 of its contents and begins with a header of 64 bytes:
//
//   magic   16 bytes
//   tag     32 bytes (core/base/possession.h), with the key that is in the file "key" beside it
//   bytes    8 bytes, little-endian; 8 zero bytes follow
//
// A file is written whole under another name, and then gets its own. It is not forced to the disk:
// what was read is compared with the name of the file before anybody sees it, and a file that
// differs is removed and counted. Above the limit the least recently used files go.
//
// Several daemons may have the folder: each knows the files that were there when it started and
// its own, and takes one that another daemon has removed for a content that it does not have.
//
// Thread-safe.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "core/base/mutex.h"
#include "core/base/possession.h"
#include "core/base/status.h"

namespace uopd::engine {

class ContentFiles {
 public:
  static constexpr size_t kHeaderBytes = 64;
  static constexpr size_t kMostFiles = 1 << 16;
  struct Usage {
    int64_t bytes = 0, most_bytes = 0;
    size_t contents = 0;
  };
  // Gets the contents in pieces, in order.
  using Taker = absl::FunctionRef<absl::Status(uint64_t offset, std::string_view piece)>;
  // Gives the contents to a Taker.
  using Giver = absl::FunctionRef<absl::Status(Taker)>;

  // Makes the folder, and looks at what is there. Without a folder, or if that fails, which is
  // logged, there are no files, and the key is a new one.
  ContentFiles(std::string folder, int64_t max_bytes);

  // The key of all tags: of the folder, and so the same after a restart.
  const Digest& key() const { return key_; }
  // The tag of a content that is there. Nothing: there is none of this size.
  std::optional<Digest> TagOf(const Digest& sha256, uint64_t bytes) const UOPD_EXCLUDES(mu_);
  // NOT_FOUND: it is not there, or was damaged; then it is removed. `take` may have got wrong
  // pieces by then. Otherwise the error of `take`.
  absl::Status Read(const Digest& sha256, Taker take) UOPD_EXCLUDES(mu_);
  // Writes the contents unless they are there or have no room. `give` is called at most once.
  absl::Status Write(const ContentHasher::Names& names, uint64_t bytes, Giver give)
      UOPD_EXCLUDES(mu_);
  void set_max_bytes(int64_t most) UOPD_EXCLUDES(mu_);
  Usage usage() const UOPD_EXCLUDES(mu_);

 private:
  struct File {
    Digest sha256, tag;
    uint64_t bytes = 0;  // of the contents
    int64_t size() const { return static_cast<int64_t>(bytes + kHeaderBytes); }
  };

  absl::Status Open();
  void Scan() UOPD_EXCLUDES(mu_);
  std::string PathOf(const Digest& sha256) const;
  void Add(const File& file) UOPD_REQUIRES(mu_);
  void Forget(const Digest& sha256, bool damaged) UOPD_EXCLUDES(mu_);
  // Removes the files that were used longest ago until there is room. False: there cannot be.
  bool MakeRoom(int64_t bytes) UOPD_REQUIRES(mu_);

  std::string folder_;  // empty: no files
  Digest key_;
  mutable Mutex mu_;
  int64_t max_bytes_ UOPD_GUARDED_BY(mu_);
  int64_t bytes_ UOPD_GUARDED_BY(mu_) = 0;
  std::list<File> files_ UOPD_GUARDED_BY(mu_);  // the one that was used last comes last
  absl::flat_hash_map<Digest, std::list<File>::iterator> by_name_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
