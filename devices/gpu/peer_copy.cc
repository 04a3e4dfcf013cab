// SPDX-License-Identifier: MIT
#include "devices/gpu/peer_copy.h"

#include <algorithm>
#include <utility>

#include "devices/gpu/gpu_semaphore.h"

namespace uopd::devices::gpu {
namespace {

// A piece of pinned memory. Half of what a smaller copy needs, so that its two transfers overlap
// too.
constexpr size_t kMostPinned = size_t{4} << 20, kLeastPinned = size_t{64} << 10;

GpuPointer EndAddress(const CopyEnd& end, size_t at) {
  return static_cast<const GpuBuffer&>(*end.buffer).address() + end.offset + at;
}

// Signals a value once the work that holds it is done with its memory: carried out, failed or left
// out. A failure of that work is not the waiting stream's. The host signals, not the chip: a stream
// that waits on its chip for a device that gets lost would wait for ever.
class Release {
 public:
  Release(std::shared_ptr<GpuSemaphore> semaphore, uint64_t value)
      : semaphore_(std::move(semaphore)), value_(value) {}
  ~Release() { Now(); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
  // Also for work that its stream has given up: its result is lost, whatever it reads.
  void Now() { semaphore_->Signal(value_); }

 private:
  const std::shared_ptr<GpuSemaphore> semaphore_;
  const uint64_t value_;
};

struct PinnedPiece {
  PinnedPiece(std::shared_ptr<Buffer> keeper, MemoryPool& from, size_t bytes)
      : owner(std::move(keeper)), pool(from) {
    if (auto taken = pool.Allocate(bytes); taken.ok()) block = *taken;
  }
  ~PinnedPiece() {
    if (block.data != nullptr) pool.Free(block);
  }
  PinnedPiece(const PinnedPiece&) = delete;
  PinnedPiece& operator=(const PinnedPiece&) = delete;

  const std::shared_ptr<Buffer> owner;
  MemoryPool& pool;
  MemoryPool::Block block;
};

void QueueDirect(const CopyEnd& from, const CopyEnd& to, size_t bytes) {
  const GpuDriver& driver = to.context->driver();
  auto ready = std::make_shared<GpuSemaphore>(driver),
       done = std::make_shared<GpuSemaphore>(driver);
  from.queue.PushRecord({ready, 1});
  to.queue.PushWait({ready, 1});
  auto release = std::make_shared<Release>(done, 1);
  to.queue.Push(
      {.submit =
           [context = to.context, other = from.context, source = from.buffer, target = to.buffer,
            x = EndAddress(to, 0), y = EndAddress(from, 0), bytes, release](StreamHandle stream) {
             const GpuApi& api = context->api();
             return context->Check(context == other ? api.Copy(x, y, bytes, stream)
                                                    : api.CopyPeer(x, context->handle(), y,
                                                                   other->handle(), bytes, stream));
           },
       .abandon =
           [release, target = to.buffer] {
             release->Now();
             static_cast<GpuBuffer&>(*target).GiveUp();
           }});
  from.queue.PushWait({done, 1});
}

bool QueueStaged(const CopyEnd& from, const CopyEnd& to, size_t bytes, MemoryPool& staging) {
  const size_t piece = std::clamp(bytes / 2 + 1, kLeastPinned, kMostPinned);
  std::shared_ptr<PinnedPiece> pieces[2];
  for (size_t i = 0; i < 2 && i * piece < bytes; ++i) {
    pieces[i] = std::make_shared<PinnedPiece>(to.buffer, staging, piece);
    if (pieces[i]->block.data == nullptr) return false;
  }
  const GpuDriver& driver = to.context->driver();
  auto filled = std::make_shared<GpuSemaphore>(driver),
       empty = std::make_shared<GpuSemaphore>(driver);
  uint64_t turn = 1;
  for (size_t at = 0; at < bytes; at += piece, ++turn) {
    const size_t n = std::min(piece, bytes - at);
    const auto& pinned = pieces[turn % 2 == 1 ? 0 : 1];
    if (turn > 2) from.queue.PushWait({empty, turn - 2});
    from.queue.Push({.submit = [context = from.context, pinned, source = from.buffer,
                                address = EndAddress(from, at), n](StreamHandle stream) {
      return context->Check(context->api().CopyOut(pinned->block.data, address, n, stream));
    }});
    from.queue.PushRecord({filled, turn});
    to.queue.PushWait({filled, turn});
    auto release = std::make_shared<Release>(empty, turn);
    to.queue.Push({.submit =
                       [context = to.context, pinned, target = to.buffer,
                        address = EndAddress(to, at), n, release](StreamHandle stream) {
                         return context->Check(
                             context->api().CopyIn(address, pinned->block.data, n, stream));
                       },
                   .abandon =
                       [release, target = to.buffer] {
                         release->Now();
                         static_cast<GpuBuffer&>(*target).GiveUp();
                       }});
  }
  return true;
}

}  // namespace

bool QueuePeerCopy(const CopyEnd& from, const CopyEnd& to, size_t bytes, MemoryPool& staging) {
  if (from.context == to.context || (to.context->Enter() && to.context->Reaches(*from.context))) {
    QueueDirect(from, to, bytes);
    return true;
  }
  return QueueStaged(from, to, bytes, staging);
}

}  // namespace uopd::devices::gpu
