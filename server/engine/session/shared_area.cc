// SPDX-License-Identifier: MIT
#include "server/engine/session/shared_area.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"

namespace uopd::engine {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::string Reason() { return std::strerror(errno); }  // NOLINT: glibc's is per thread

absl::StatusOr<UniqueFd> MakeFile(uint64_t bytes) {
  UniqueFd file(memfd_create("uopd-side", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    return absl::UnavailableError(Cat("no memory to share with a client: ", Reason()));
  }
  return file;
}

// Copies `bytes` bytes by calls of copy(position, bytes), which may copy less.
template <class Copy>
absl::Status CopyAll(const char* what, size_t bytes, Copy copy) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = copy(done, bytes - done);
    if (n > 0) {
      done += static_cast<size_t>(n);
    } else if (n == 0 || errno != EINTR) {
      return absl::InternalError(
          Cat("shared area cannot be ", what, ": ", n == 0 ? "it ends before its size" : Reason()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

SharedArea::SharedArea(uint64_t number, UniqueFd file, std::shared_ptr<Quota> quota, Charge charge)
    : number_(number),
      file_(std::move(file)),
      quota_(std::move(quota)),
      charge_(std::move(charge)) {
  metrics::SideAreas().Add(1);
}

absl::StatusOr<std::shared_ptr<SharedArea>> SharedArea::Create(uint64_t number,
                                                               std::shared_ptr<Quota> quota) {
  UOPD_ASSIGN(Charge charge,
              Charge::Take(*quota, static_cast<int64_t>(kBytes), ByteClass::kShared));
  UOPD_ASSIGN(UniqueFd file, MakeFile(kBytes));
  return std::shared_ptr<SharedArea>(
      new SharedArea(number, std::move(file), std::move(quota), std::move(charge)));
}

SharedArea::~SharedArea() {
  metrics::SideAreas().Add(-1);
  // The client may keep its descriptor, and pages that the daemon wrote count as the daemon's.
  fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(kBytes));
}

absl::Status SharedArea::CheckRange(uint64_t offset, uint64_t bytes) const {
  if (offset <= kBytes && bytes <= kBytes - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("bytes (", offset, " to ", offset, " + ", bytes,
                                        ") are outside shared area ", number_, " of ", kBytes,
                                        " bytes"));
}

absl::Status SharedArea::Read(uint64_t offset, std::span<std::byte> out) const {
  return CopyAll("read", out.size(), [&](size_t at, size_t bytes) {
    return pread(file_.get(), out.data() + at, bytes, static_cast<off_t>(offset + at));
  });
}

absl::Status SharedArea::Write(uint64_t offset, std::span<const std::byte> data) {
  return CopyAll("written", data.size(), [&](size_t at, size_t bytes) {
    return pwrite(file_.get(), data.data() + at, bytes, static_cast<off_t>(offset + at));
  });
}

}  // namespace uopd::engine
