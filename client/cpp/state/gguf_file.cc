// SPDX-License-Identifier: MIT
// Reading GGUF files.
#include <algorithm>

#include "client/cpp/state/regular_file.h"
#include "core/base/text.h"
#include "uopd/gguf.h"

namespace uopd::client {
namespace {

constexpr uint64_t kFirstGgufBytes = 256 << 10;

}  // namespace

struct GgufFile::File {
  RegularFile file;
  std::string start;  // the header's views are of it
  GgufHeader header;
};

GgufFile::GgufFile(std::unique_ptr<File> file) : file_(std::move(file)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  UOPD_ASSIGN(RegularFile opened, RegularFile::Open(path));
  GgufFile out(std::make_unique<File>(std::move(opened)));
  const RegularFile& file = out.file_->file;
  std::string& start = out.file_->start;
  const uint64_t most = std::min(file.bytes(), kMostGgufHeaderBytes);
  // Nothing in front of the header says how long it is, so it is read in parts that double.
  for (uint64_t bytes = kFirstGgufBytes;; bytes *= 2) {
    const size_t have = start.size();
    start.resize(std::min(bytes, most));
    UOPD_TRY(file.ReadAt(have, std::span(start).subspan(have)));
    auto header = ParseGguf(start, file.bytes());
    if (header.ok()) {
      out.file_->header = *std::move(header);
      return out;
    }
    if (!absl::IsOutOfRange(header.status()))
      return WithFrame(header.status(), Cat("reading ", path));
  }
}

const GgufHeader& GgufFile::header() const { return file_->header; }

absl::Status GgufFile::Read(const GgufTensor& tensor, std::span<char> out) const {
  if (out.size() != tensor.end - tensor.begin) {
    return Invalid(Cat("a tensor of ", tensor.end - tensor.begin, " bytes is read into ",
                       out.size(), " bytes"));
  }
  return file_->file.ReadAt(file_->header.data_start + tensor.begin, out);
}

}  // namespace uopd::client
