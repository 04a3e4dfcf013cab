// SPDX-License-Identifier: MIT
#include "client/cpp/jit/saved_file.h"

#include <bit>
#include <climits>
#include <cstring>

#include "core/base/digest.h"
#include "core/base/text.h"

namespace uopd::client {
namespace {

constexpr std::string_view kMagic = "uopd jit";
constexpr size_t kFormatAt = 8, kLengthAt = 12, kDigestAt = 16;
static_assert(std::endian::native == std::endian::little);

uint32_t NumberAt(std::string_view bytes, size_t at) {
  uint32_t out;
  std::memcpy(&out, bytes.data() + at, sizeof out);
  return out;
}

void PutNumber(std::string& bytes, size_t at, uint32_t number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

}  // namespace

absl::StatusOr<std::string> NewSavedFile(const recording::v1::Recording& message,
                                         uint64_t contents) {
  const size_t length = message.ByteSizeLong();
  if (length > INT_MAX)
    return absl::ResourceExhaustedError("Jit: the recording is too large to be saved");
  std::string out(kMagic);
  out.resize(kSavedHeader);
  PutNumber(out, kFormatAt, kSavedFormat);
  PutNumber(out, kLengthAt, static_cast<uint32_t>(length));
  if (!message.AppendToString(&out))
    return absl::InternalError("Jit: the recording cannot be written as a message");
  out.resize(out.size() + contents);
  return out;
}

void SealSavedFile(std::string& file) {
  const Digest digest = HashBytes(std::string_view(file).substr(kSavedHeader));
  std::memcpy(file.data() + kDigestAt, digest.bytes.data(), digest.bytes.size());
}

absl::StatusOr<SavedFile> OpenSavedFile(std::string_view bytes) {
  if (!bytes.starts_with(kMagic))
    return absl::InvalidArgumentError("Jit: these bytes are no saved recording");
  if (bytes.size() < kSavedHeader) return Broken("it ends within its header");
  if (const uint32_t format = NumberAt(bytes, kFormatAt); format != kSavedFormat) {
    return absl::FailedPreconditionError(Cat("Jit: the saved recording has format ", format,
                                             ", and this version reads format ", kSavedFormat));
  }
  const std::string_view rest = bytes.substr(kSavedHeader);
  const uint32_t length = NumberAt(bytes, kLengthAt);
  if (length > rest.size()) return Broken("it ends within its message");
  if (HashBytes(rest).view() != bytes.substr(kDigestAt, sizeof(Digest::bytes)))
    return Broken("its digest is another one");
  SavedFile out;
  if (length > INT_MAX || !out.message.ParseFromArray(rest.data(), static_cast<int>(length)))
    return Broken("its message cannot be read");
  out.contents = rest.substr(length);
  return out;
}

}  // namespace uopd::client
