// SPDX-License-Identifier: MIT
// Data in memory that the client shares with the daemon (shared_area.h), in place of messages.
#include "client/cpp/net/pipeline.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace uopd::client {
namespace {

constexpr auto kSideTime = std::chrono::seconds(1);  // to get shared memory
constexpr size_t kLeastShared = 128 << 10;  // bytes; a smaller chunk travels in its message

}  // namespace

void Pipeline::OpenArea() {
  {
    MutexLock lock(mutex_);
    if (area_ != nullptr || !ask_for_area_ || closing_ || paused_) return;
    ask_for_area_ = false;
  }
  Session::Side side = session_.TakeSide();
  if (side.token.empty() && session_.has_side()) {  // it was used for the stream before this one
    const std::unique_lock lock(calls_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    session_.Resume();
    side = session_.TakeSide();
  }
  if (side.token.empty()) return;
  auto area = SharedArea::Open(session_.options().address, side.suffix, side.token, kSideTime);
  MutexLock lock(mutex_);
  area_ = std::move(area);
}

bool Pipeline::SoonFree() {
  return !closing_ && !paused_ && area_ != nullptr && !area_->HasFree() &&
         std::none_of(items_.begin(), items_.end(), [](const auto& item) {
           return item->request.has_execute() || item->request.has_prepare();
         });
}

bool Pipeline::Share(std::string_view bytes, Item& item) {
  if (bytes.size() < kLeastShared || bytes.size() > SharedArea::kSlotBytes) return false;
  const auto free = [this] {
    MutexLock lock(mutex_);
    return !SoonFree();
  };
  for (;;) {
    {
      MutexLock lock(mutex_);
      item.slot = SharedSlot::Take(area_);
      if (!item.slot && !SoonFree()) return false;
    }
    if (item.slot) break;
    DriveUntil(free, absl::Now() + absl::Seconds(1));
    MutexLock lock(mutex_);  // another thread may drive
    lock.WaitUntil(room_, Clock::now() + kPause,
                   [this]() UOPD_REQUIRES(mutex_) { return !SoonFree(); });
  }
  std::memcpy(item.slot.data(), bytes.data(), bytes.size());
  item.payload_bytes = bytes.size();
  return true;
}

std::string_view Pipeline::Item::Downloaded(const v1::PipelineResponse& response) const {
  if (slot) return {slot.data(), payload_bytes};
  return response.download().data();
}

bool Pipeline::Complete(Item& item) {
  if (item.slot && item.slot.area() != area_) {  // of an earlier stream
    if (item.request.has_upload()) {
      item.payload = std::make_shared<const std::string>(item.slot.data(), item.payload_bytes);
      item.payload_begin = 0;
    }
    item.slot = {};
  }
  if (item.request.has_download() && !item.slot && area_ != nullptr &&
      item.payload_bytes >= kLeastShared) {
    item.slot = SharedSlot::Take(area_);
    const bool soon =
        !item.slot && std::any_of(items_.begin(), items_.begin() + next_,
                                  [](const auto& sent) { return static_cast<bool>(sent->slot); });
    if (soon) return false;
  }
  v1::AreaRange range;
  if (item.slot) {
    range.set_area(area_->number());
    range.set_offset(item.slot.offset());
    range.set_bytes(item.payload_bytes);
  }
  if (item.request.has_download()) {
    item.request.mutable_download()->clear_area();
    if (item.slot) *item.request.mutable_download()->mutable_area() = range;
  } else if (item.request.has_upload()) {
    v1::UploadRequest& upload = *item.request.mutable_upload();
    upload.clear_area();
    if (item.slot) {
      *upload.mutable_area() = range;
    } else if (item.payload != nullptr) {
      upload.mutable_data()->swap(data_);  // memory that is there already (ChunkPool)
      upload.mutable_data()->assign(item.payload->data() + item.payload_begin, item.payload_bytes);
    }
  }
  return true;
}

}  // namespace uopd::client
