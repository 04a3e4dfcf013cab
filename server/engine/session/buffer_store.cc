// SPDX-License-Identifier: MIT
#include "server/engine/session/buffer_store.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/text.h"
#include "server/engine/base/not_found.h"

namespace uopd::engine {
namespace {

absl::Status CheckRange(uint64_t handle, const devices::Buffer& buffer, uint64_t offset,
                        uint64_t bytes) {
  if (offset <= buffer.size() && bytes <= buffer.size() - offset) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("bytes (", offset, " to ", offset, " + ", bytes,
                                        ") are outside buffer ", handle, " of ", buffer.size(),
                                        " bytes"));
}

}  // namespace

absl::StatusOr<Allocation> Allocate(DeviceState& device, int64_t bytes, Quota& quota,
                                    ByteClass what) {
  Allocation out;
  out.device = &device;
  UOPD_ASSIGN(out.charge, Charge::Take(quota, ChargedBytes(bytes), what));
  const auto allocate = [&] {
    return device.device().Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kDevice);
  };
  auto buffer = allocate();
  if (absl::IsResourceExhausted(buffer.status()) && what != ByteClass::kKept && quota.Reclaim())
    buffer = allocate();
  UOPD_ASSIGN(out.buffer, std::move(buffer));
  return out;
}

absl::StatusOr<Allocation> Allocate(DeviceState& device, devices::Stream& stream, int64_t bytes,
                                    Quota& quota) {
  Allocation out;
  out.device = &device;
  UOPD_ASSIGN(out.charge, Charge::Take(quota, ChargedBytes(bytes), ByteClass::kBuffers));
  const auto allocate = [&] {
    return stream.Allocate(static_cast<size_t>(bytes), devices::MemoryKind::kDevice);
  };
  auto buffer = allocate();
  if (absl::IsResourceExhausted(buffer.status()) && quota.Reclaim()) buffer = allocate();
  UOPD_ASSIGN(out.buffer, std::move(buffer));
  return out;
}

absl::Status FillZero(devices::Stream& stream, devices::Buffer& buffer, size_t offset) {
  if (offset == buffer.size()) return absl::OkStatus();
  return stream.Fill(buffer, offset, buffer.size() - offset, std::byte{0});
}

bool IsHostMemory(const devices::Buffer& buffer) {
  return buffer.host_data() != nullptr && buffer.device().info().runs_inline;
}

std::string NameHandles(std::span<const uint64_t> handles) {
  constexpr size_t kNamed = 8;
  std::string out;
  for (size_t i = 0; i < handles.size() && i < kNamed; ++i) {
    Append(out, i > 0 ? ", " : "", handles[i]);
  }
  if (handles.size() > kNamed) Append(out, " and ", handles.size() - kNamed, " more");
  return out;
}

BufferStore::~BufferStore() { Clear(); }

void BufferStore::Count(const Entry& entry, int by) {
  const Allocation& allocation = entry.allocation;
  const bool shared = entry.constant && entry.constant->maybe_shared != nullptr;
  if (!shared)
    allocation.device->buffer_bytes().Add(by * static_cast<double>(allocation.buffer->size()));
  const auto at =
      std::ranges::find(devices_, allocation.device, [](const auto& d) { return d.first; });
  if (at == devices_.end()) {
    devices_.emplace_back(allocation.device, by);
  } else if ((at->second += by) == 0) {
    devices_.erase(at);
  }
}

absl::StatusOr<Allocation> BufferStore::AllocateNew(uint64_t handle, DeviceState& device,
                                                    uint64_t bytes) {
  if (bytes > uint64_t{INT64_MAX} / 2) {
    return absl::ResourceExhaustedError(
        Cat("buffer ", handle, " of ", bytes, " bytes is too large"));
  }
  if (handle != 0 && Peek(handle) != nullptr) {
    return absl::InvalidArgumentError(Cat("buffer ", handle, " exists already"));
  }
  UOPD_TRY(CheckGone(handle));
  return Allocate(device, static_cast<int64_t>(bytes), quota_);
}

absl::Status BufferStore::Create(uint64_t handle, DeviceState& device, uint64_t bytes) {
  UOPD_ASSIGN(Allocation allocation, AllocateNew(handle, device, bytes));
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(device));
  UOPD_TRY(FillZero(*stream, *allocation.buffer));
  UOPD_TRY(stream.Finish());
  return Insert(handle, std::move(allocation), kAll);
}

absl::Status BufferStore::CreateForUpload(uint64_t handle, DeviceState& device, uint64_t bytes) {
  UOPD_ASSIGN(Allocation allocation, AllocateNew(handle, device, bytes));
  return Insert(handle, std::move(allocation), 0);
}

absl::Status BufferStore::Insert(uint64_t handle, Allocation allocation) {
  return Insert(handle, std::move(allocation), kAll);
}

absl::Status BufferStore::InsertConstant(uint64_t handle, Allocation allocation,
                                         Constant constant) {
  return Insert(handle, std::move(allocation), kAll, std::move(constant));
}

absl::Status BufferStore::MakeConstant(uint64_t handle, Allocation allocation, Constant constant) {
  Allocation before;  // destroyed after the lock is released
  {
    MutexLock lock(mu_);
    if (const auto it = buffers_.find(handle); it != buffers_.end()) {
      Entry& entry = it->second;
      Count(entry, -1);
      if (allocation.buffer != nullptr) {
        before = std::exchange(entry.allocation, std::move(allocation));
      }
      entry.constant = std::move(constant);
      Count(entry, 1);
      return absl::OkStatus();
    }
  }
  return Missing(handle);
}

std::optional<Digest> BufferStore::ConstantOf(uint64_t handle) const {
  MutexLock lock(mu_);
  const auto it = buffers_.find(handle);
  if (it == buffers_.end() || !it->second.constant) return std::nullopt;
  return it->second.constant->sha256;
}

absl::Status BufferStore::CheckWritable(uint64_t handle) const {
  const auto constant = ConstantOf(handle);
  if (!constant) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("buffer ", handle, " is a constant (SHA-256 ",
                                        constant->Hex().substr(0, 12),
                                        "...), which no call may write"));
}

absl::Status BufferStore::Insert(uint64_t handle, Allocation allocation, uint64_t filled,
                                 std::optional<Constant> constant) {
  if (handle == 0) return absl::InvalidArgumentError("buffer handle (0) is not a handle");
  UOPD_TRY(CheckGone(handle));
  MutexLock lock(mu_);
  const size_t most = max_buffers_.load(std::memory_order_relaxed);
  if (const size_t used = buffers_.size() + gone_.size(); used >= most) {
    return absl::ResourceExhaustedError(
        Cat("session has ", used, " buffers, limits.session_buffers is ", most));
  }
  const auto [entry, added] = buffers_.try_emplace(handle, Entry{std::move(allocation), ++clock_});
  if (!added) return absl::InvalidArgumentError(Cat("buffer ", handle, " exists already"));
  SetFilled(entry->second, filled);
  entry->second.constant = std::move(constant);
  Count(entry->second, 1);
  return absl::OkStatus();
}

std::shared_ptr<devices::Buffer> BufferStore::Find(uint64_t handle) {
  Complete(handle);
  return Peek(handle);
}

void BufferStore::Complete(uint64_t handle) {
  std::shared_ptr<devices::Buffer> buffer;
  DeviceState* device = nullptr;
  uint64_t from = kAll;
  {
    MutexLock lock(mu_);
    auto it = buffers_.find(handle);
    if (it == buffers_.end() || it->second.filled == kAll) return;
    from = it->second.filled;
    SetFilled(it->second, kAll);
    buffer = it->second.allocation.buffer;
    device = it->second.allocation.device;
  }
  absl::Status status = absl::OkStatus();
  auto stream = StreamLease::Take(*device);
  if (stream.ok()) status = FillZero(**stream, *buffer, static_cast<size_t>(from));
  if (stream.ok()) status.Update(stream->Finish());
  if (!stream.ok()) status = stream.status();
  // Nobody may read what another session left.
  if (!status.ok()) Lose({&handle, 1}, StatusText(status));
}

std::shared_ptr<devices::Buffer> BufferStore::Peek(uint64_t handle) const {
  MutexLock lock(mu_);
  auto it = buffers_.find(handle);
  return it == buffers_.end() ? nullptr : it->second.allocation.buffer;
}

absl::Status BufferStore::CheckContents(uint64_t handle) const {
  MutexLock lock(mu_);
  auto it = buffers_.find(handle);
  if (it == buffers_.end() || it->second.lost.empty()) return absl::OkStatus();
  return absl::DataLossError(Cat("contents of buffer ", handle,
                                 " are lost: the run that was writing it ended early (",
                                 it->second.lost, "); overwrite the whole buffer"));
}

void BufferStore::Lose(std::span<const uint64_t> handles, const std::string& why) {
  MutexLock lock(mu_);
  for (uint64_t handle : handles) {
    auto it = buffers_.find(handle);
    if (it == buffers_.end()) continue;
    it->second.version = ++clock_;
    it->second.restored = 0;
    it->second.lost = why;
  }
}

void BufferStore::Changed(std::span<const uint64_t> handles, std::span<const uint64_t> whole) {
  if (handles.empty() && whole.empty()) return;
  MutexLock lock(mu_);
  for (uint64_t handle : handles) {
    if (auto it = buffers_.find(handle); it != buffers_.end()) it->second.version = ++clock_;
  }
  for (uint64_t handle : whole) {
    auto it = buffers_.find(handle);
    if (it == buffers_.end()) continue;
    it->second.version = ++clock_;
    it->second.lost.clear();
  }
}

void BufferStore::Wrote(uint64_t handle, uint64_t offset, uint64_t bytes) {
  MutexLock lock(mu_);
  auto it = buffers_.find(handle);
  if (it == buffers_.end()) return;
  Entry& entry = it->second;
  entry.version = ++clock_;
  if (entry.filled != kAll) SetFilled(entry, std::max(entry.filled, offset + bytes));
  if (entry.lost.empty()) return;
  if (offset == 0) entry.restored = 0;
  if (offset == entry.restored) entry.restored += bytes;
  if (entry.restored == entry.allocation.buffer->size()) entry.lost.clear();
}

uint64_t BufferStore::Version(uint64_t handle) const {
  MutexLock lock(mu_);
  auto it = buffers_.find(handle);
  return it == buffers_.end() ? 0 : it->second.version;
}

std::vector<uint64_t> BufferStore::Versions(std::span<const uint64_t> handles) const {
  std::vector<uint64_t> out(handles.size(), 0);
  MutexLock lock(mu_);
  for (size_t i = 0; i < handles.size(); ++i) {
    auto it = handles[i] == 0 ? buffers_.end() : buffers_.find(handles[i]);
    if (it != buffers_.end()) out[i] = it->second.version;
  }
  return out;
}

bool BufferStore::NoteLosses() {
  std::vector<Allocation> dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto is_lost = [](const auto& d) { return !d.first->device().status().ok(); };
  while (true) {
    const auto at = std::ranges::find_if(devices_, is_lost);
    if (at == devices_.end()) return !dropped.empty();
    DeviceState* const device = at->first;
    std::vector<uint64_t> handles;
    for (const auto& [handle, entry] : buffers_) {
      if (entry.allocation.device == device) handles.push_back(handle);
    }
    std::sort(handles.begin(), handles.end());
    const auto why = std::make_shared<const std::string>(
        Cat("device ", device->name(), " (", StatusText(device->device().status()), ")"));
    for (uint64_t handle : handles) {
      const auto it = buffers_.find(handle);
      Count(it->second, -1);
      SetFilled(it->second, kAll);
      dropped.push_back(std::move(it->second.allocation));
      buffers_.erase(it);
      gone_.emplace(handle, why);
    }
    Append(untold_, untold_.empty() ? "" : "; ", "lost with ", *why, ": buffer ",
           NameHandles(handles));
  }
}

absl::Status BufferStore::TakeLoss() {
  NoteLosses();
  MutexLock lock(mu_);
  if (untold_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      Cat(std::exchange(untold_, {}), "; free the handles and make the buffers again"));
}

absl::Status BufferStore::CheckGone(uint64_t handle) const {
  MutexLock lock(mu_);
  const auto it = gone_.find(handle);
  if (it == gone_.end()) return absl::OkStatus();
  return absl::DataLossError(Cat("buffer ", handle, " was lost with ", *it->second,
                                 "; free the handle and make the buffer again"));
}

absl::Status BufferStore::Missing(uint64_t handle) {
  UOPD_TRY(TakeLoss());
  UOPD_TRY(CheckGone(handle));
  return NotFound(kBuffer, Cat("buffer ", handle, " is unknown"));
}

void BufferStore::Free(std::span<const uint64_t> handles) {
  MutexLock lock(mu_);
  for (uint64_t handle : handles) {
    if (!gone_.empty()) gone_.erase(handle);
    auto it = buffers_.find(handle);
    if (it == buffers_.end()) continue;
    Count(it->second, -1);
    SetFilled(it->second, kAll);
    buffers_.erase(it);
  }
}

void BufferStore::Clear() {
  MutexLock lock(mu_);
  for (const auto& [handle, entry] : buffers_) Count(entry, -1);
  buffers_.clear();
  gone_.clear();
  untold_.clear();
  unfilled_ = 0;
}

absl::StatusOr<std::shared_ptr<devices::Buffer>> BufferStore::ForWrite(uint64_t handle,
                                                                       uint64_t offset,
                                                                       uint64_t bytes) {
  UOPD_TRY(CheckWritable(handle));
  std::shared_ptr<devices::Buffer> buffer;
  bool leaves_a_gap = false;
  {
    MutexLock lock(mu_);
    if (auto it = buffers_.find(handle); it != buffers_.end()) {
      buffer = it->second.allocation.buffer;
      leaves_a_gap = it->second.filled != kAll && offset > it->second.filled;
    }
  }
  if (buffer == nullptr) return Missing(handle);
  UOPD_TRY(CheckRange(handle, *buffer, offset, bytes));
  if (leaves_a_gap) Complete(handle);
  return buffer;
}

absl::Status BufferStore::Write(DeviceSet& devices, uint64_t handle, uint64_t offset,
                                std::string_view data) {
  UOPD_ASSIGN(const auto buffer, ForWrite(handle, offset, data.size()));
  if (data.empty()) return absl::OkStatus();
  UOPD_ASSIGN(DeviceState * device, devices.Get(buffer->device().info().name));
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(*device));
  absl::Status status = stream->CopyIn(std::as_bytes(std::span(data)), *buffer, offset);
  status.Update(stream.Finish());
  if (!status.ok()) {
    Lose({&handle, 1}, StatusText(status));
    return status;
  }
  Wrote(handle, offset, data.size());
  return absl::OkStatus();
}

absl::Status BufferStore::Read(DeviceSet& devices, uint64_t handle, uint64_t offset,
                               std::span<char> out) {
  const auto buffer = Find(handle);
  if (buffer == nullptr) return Missing(handle);
  UOPD_TRY(CheckRange(handle, *buffer, offset, out.size()));
  if (out.empty()) return absl::OkStatus();
  UOPD_TRY(CheckContents(handle));
  UOPD_ASSIGN(DeviceState * device, devices.Get(buffer->device().info().name));
  UOPD_ASSIGN(StreamLease stream, StreamLease::Take(*device));
  UOPD_TRY(stream->CopyOut(*buffer, offset, std::as_writable_bytes(out)));
  return stream.Finish();
}

absl::Status BufferStore::WriteBy(DeviceSet& devices, uint64_t handle, uint64_t offset,
                                  uint64_t bytes, const CopyTo& copy) {
  UOPD_ASSIGN(const auto buffer, ForWrite(handle, offset, bytes));
  const auto size = static_cast<size_t>(bytes);
  std::string data;
  std::span<std::byte> into;
  if (IsHostMemory(*buffer)) {
    into = {buffer->host_data() + offset, size};
  } else {
    data.resize(size);
    into = std::as_writable_bytes(std::span(data));
  }
  absl::Status status = copy(into);
  if (!status.ok()) {
    Lose({&handle, 1}, StatusText(status));
    return status;
  }
  if (!IsHostMemory(*buffer)) return Write(devices, handle, offset, data);
  Wrote(handle, offset, bytes);
  return absl::OkStatus();
}

absl::Status BufferStore::ReadBy(DeviceSet& devices, uint64_t handle, uint64_t offset,
                                 uint64_t bytes, const CopyFrom& copy) {
  const auto buffer = Find(handle);
  if (buffer == nullptr) return Missing(handle);
  UOPD_TRY(CheckRange(handle, *buffer, offset, bytes));
  const auto size = static_cast<size_t>(bytes);
  if (!IsHostMemory(*buffer)) {
    std::string data(size, '\0');
    UOPD_TRY(Read(devices, handle, offset, data));
    return copy(std::as_bytes(std::span(data)));
  }
  UOPD_TRY(CheckContents(handle));
  return copy({buffer->host_data() + offset, size});
}

void BufferStore::SetFilled(Entry& entry, uint64_t filled) {
  const uint64_t size = entry.allocation.buffer->size();
  if (filled >= size) filled = kAll;
  if (size > kLittle && entry.filled == kAll && filled != kAll) ++unfilled_;
  if (size > kLittle && entry.filled != kAll && filled == kAll) --unfilled_;
  entry.filled = filled;
}

bool BufferStore::OnlyCopies(uint64_t handle, uint64_t offset, uint64_t bytes) const {
  MutexLock lock(mu_);
  const auto it = buffers_.find(handle);
  if (it == buffers_.end()) return bytes <= kLittle;
  const Entry& entry = it->second;
  return offset <= entry.filled || entry.allocation.buffer->size() <= kLittle;
}

size_t BufferStore::size() const {
  MutexLock lock(mu_);
  return buffers_.size();
}

}  // namespace uopd::engine
