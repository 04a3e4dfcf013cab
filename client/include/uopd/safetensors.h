// SPDX-License-Identifier: MIT
// Tensors in files of the format safetensors: eight bytes with the length of a header in JSON, the
// header, then the contents of the tensors, little-endian and row-major
// (https://github.com/huggingface/safetensors).
//
// Files are not trusted: reading checks everything, and errors are INVALID_ARGUMENT and name the
// tensor. A file may be larger than memory: tensors are read and sent one by one.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "uopd/client.h"
#include "uopd/state_dict.h"

namespace uopd::client {

// Text that a file carries besides its tensors.
using SafetensorsMetadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::F32;
  Dims dims;
  uint64_t begin = 0, end = 0;  // bytes, from the first one behind the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the header
  SafetensorsMetadata metadata;
  uint64_t data_start = 0;  // where the contents begin in the file
};

inline constexpr uint64_t kMostHeaderBytes = 100'000'000;

// How many bytes the header and the eight bytes before it take. `start` has the first eight bytes
// of the file.
absl::StatusOr<uint64_t> SafetensorsHeaderEnd(std::string_view start, uint64_t file_bytes);
// `start` has that many bytes. The tensors are known to fill the rest of the file, without gaps and
// overlaps, each with as many bytes as its shape and dtype take.
absl::StatusOr<SafetensorsHeader> ParseSafetensors(std::string_view start, uint64_t file_bytes);
// The start of a file with these tensors. Sets begin and end of each: tensors with wide elements
// come first, so that all of them are aligned. INVALID_ARGUMENT if ParseSafetensors would refuse
// it.
absl::StatusOr<std::string> FormatSafetensors(std::vector<SafetensorsEntry>& entries,
                                              const SafetensorsMetadata& metadata = {});

class SafetensorsFile {
 public:
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const SafetensorsHeader& header() const { return header_; }
  // The contents of one of its entries. DATA_LOSS if the file became shorter since Open.
  absl::StatusOr<std::string> Read(const SafetensorsEntry& entry) const;

 private:
  struct File;
  explicit SafetensorsFile(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
  SafetensorsHeader header_;
};

// Writes a new file beside `path`, which Commit puts in its place: whatever happens before, a file
// that is there already stays as it is. Without Commit nothing is left behind.
class SafetensorsWriter {
 public:
  static absl::StatusOr<SafetensorsWriter> Create(const std::string& path,
                                                  std::vector<SafetensorsEntry> entries,
                                                  const SafetensorsMetadata& metadata = {});
  SafetensorsWriter(SafetensorsWriter&&) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) noexcept;
  ~SafetensorsWriter();

  // The entries, in the order in which Write must be called with their contents.
  const std::vector<size_t>& order() const { return order_; }
  absl::Status Write(std::string_view contents);
  // Once it returns, the file is on disk.
  absl::Status Commit();

 private:
  struct File;
  explicit SafetensorsWriter(std::unique_ptr<File> file);
  std::unique_ptr<File> file_;
  std::vector<size_t> order_;  // of the entries that Create was given
  std::vector<uint64_t> sizes_;
  size_t next_ = 0;
};

struct SafetensorsContents {
  StateDict tensors;
  SafetensorsMetadata metadata;
};
absl::StatusOr<SafetensorsContents> LoadSafetensors(Client& client, const std::string& path);
absl::Status SaveSafetensors(const std::string& path, const StateDict& tensors,
                             const SafetensorsMetadata& metadata = {});

}  // namespace uopd::client
