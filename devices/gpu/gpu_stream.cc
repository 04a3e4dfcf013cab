// SPDX-License-Identifier: MIT
#include "devices/gpu/gpu_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "devices/gpu/gpu_executable.h"
#include "devices/gpu/gpu_recorded_program.h"
#include "devices/gpu/peer_copy.h"

namespace uopd::devices::gpu {
namespace {

// Copies are cut into pieces of this size: the host fills one while the chip reads the one before.
constexpr size_t kPiece = size_t{4} << 20;

GpuPointer AddressAt(const Buffer& buffer, size_t offset) {
  return static_cast<const GpuBuffer&>(buffer).address() + offset;
}

absl::Status CheckUsable(const Buffer& buffer) {
  return static_cast<const GpuBuffer&>(buffer).CheckUsable();
}

void GiveUp(Buffer& buffer) { static_cast<GpuBuffer&>(buffer).GiveUp(); }

bool IsHosts(const Buffer& buffer) { return buffer.kind() == MemoryKind::kHostVisible; }

// A piece of pinned memory, or none if there is none left. Keeps the device, which owns the pool.
class Staging {
 public:
  Staging(std::shared_ptr<Buffer> owner, MemoryPool& pool, size_t bytes)
      : owner_(std::move(owner)), pool_(pool) {
    if (auto block = pool.Allocate(bytes); block.ok()) block_ = *block;
  }
  ~Staging() {
    if (block_.data != nullptr) pool_.Free(block_);
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  void* data() const { return block_.data; }

 private:
  const std::shared_ptr<Buffer> owner_;
  MemoryPool& pool_;
  MemoryPool::Block block_;
};

absl::Status Stopped(const std::string& entry) {
  return absl::CancelledError("Kernel " + entry + " is stopped");
}

// What a launch needs until it is done.
struct PendingLaunch {
  std::shared_ptr<GpuContext> context;
  std::shared_ptr<GpuExecutable> executable;
  LaunchShape shape;
  std::vector<std::shared_ptr<Buffer>> owners;
  std::vector<GpuPointer> buffers;
  std::vector<int64_t> vars;
  int64_t* duration_ns = nullptr;
  std::shared_ptr<const StopFlag> maybe_stop;
  std::shared_ptr<StopWords> words;
  std::shared_ptr<const StopWords::Lease> word;
  std::shared_ptr<GpuEvent> begin, end;

  bool stopped() const { return maybe_stop != nullptr && maybe_stop->stopped(); }

  absl::Status Submit(StreamHandle stream) {
    if (stopped()) return Stopped(executable->entry());
    UOPD_TRY(executable->AllowShared(shape.shared_bytes));
    UOPD_ASSIGN(word, words->Take(maybe_stop));
    UOPD_ASSIGN(const auto maps, context->tensor_maps().For(context->api(), shape.maps, buffers));
    LaunchArguments arguments(buffers, vars, word->address(), maps);
    if (duration_ns != nullptr) {
      UOPD_ASSIGN(begin, GpuEvent::Record(context, stream, true));
    }
    const auto size = [](int64_t n) { return static_cast<unsigned>(n); };
    const GpuOutcome outcome = context->api().Launch(
        executable->function(), size(shape.grid[0]), size(shape.grid[1]), size(shape.grid[2]),
        size(shape.block[0]), size(shape.block[1]), size(shape.block[2]),
        executable->AddedShared(shape.shared_bytes), stream, arguments.list(), arguments.extra());
    UOPD_TRY(WithFrame(context->Check(outcome), "launching kernel " + executable->entry()));
    if (duration_ns != nullptr) {
      UOPD_ASSIGN(end, GpuEvent::Record(context, stream, true));
    }
    return absl::OkStatus();
  }

  absl::Status Land() {
    if (stopped()) return Stopped(executable->entry());
    if (duration_ns == nullptr) return absl::OkStatus();
    UOPD_ASSIGN(*duration_ns, end->Since(*begin));
    return absl::OkStatus();
  }
};

// A replay of a graph, until it is done.
struct PendingReplay {
  std::shared_ptr<const GpuRecordedProgram> program;
  std::vector<std::shared_ptr<Buffer>> owners;
  std::vector<GpuPointer> buffers;
  std::shared_ptr<const StopFlag> maybe_stop;
  std::shared_ptr<StopWords> words;
  std::shared_ptr<const StopWords::Lease> word;

  bool stopped() const { return maybe_stop != nullptr && maybe_stop->stopped(); }
  const std::string& entry() const { return program->launches().front().executable->entry(); }

  absl::Status Submit(StreamHandle stream) {
    if (stopped()) return Stopped(entry());
    UOPD_ASSIGN(word, words->Take(maybe_stop));
    return program->Launch(stream, buffers, word->address());
  }
  absl::Status Land() const { return stopped() ? Stopped(entry()) : absl::OkStatus(); }
};

template <class Pending>
StreamQueue::Work WorkOf(std::shared_ptr<Pending> pending) {
  const bool host = std::ranges::any_of(pending->owners, [](const auto& b) { return IsHosts(*b); });
  return {.submit = [pending](StreamHandle stream) { return pending->Submit(stream); },
          .land = [pending] { return pending->Land(); },
          .reads_host = host,
          .writes_host = host,
          .abandon =
              [pending] {
                if (pending->word != nullptr) pending->word->Abandon();
                for (const auto& owner : pending->owners) GiveUp(*owner);
              }};
}

}  // namespace

absl::Status GpuStream::DoCopyIn(std::span<const std::byte> src, Buffer& dst, size_t dst_offset) {
  UOPD_TRY(CheckUsable(dst));
  for (size_t at = 0; at < src.size(); at += kPiece) {
    const auto piece = src.subspan(at, std::min(kPiece, src.size() - at));
    auto owner = dst.shared_from_this();
    const GpuPointer to = AddressAt(dst, dst_offset + at);
    auto staging = std::make_shared<std::unique_ptr<Staging>>();
    queue_->Push({.submit =
                      [context = context_, &pool = heap_.staging(), owner, piece, to,
                       staging](StreamHandle stream) {
                        *staging = std::make_unique<Staging>(owner, pool, piece.size());
                        const void* from = piece.data();
                        if (void* pinned = (*staging)->data(); pinned != nullptr) {
                          std::memcpy(pinned, piece.data(), piece.size());
                          from = pinned;
                        }
                        return context->Check(
                            context->api().CopyIn(to, from, piece.size(), stream));
                      },
                  .reads_host = true,
                  .writes_host = IsHosts(dst),
                  .staged = src.size() > kPiece,
                  .abandon = [owner] { GiveUp(*owner); }});
  }
  return absl::OkStatus();
}

absl::Status GpuStream::DoCopyOut(Buffer& src, size_t src_offset, std::span<std::byte> dst) {
  UOPD_TRY(CheckUsable(src));
  for (size_t at = 0; at < dst.size(); at += kPiece) {
    const auto piece = dst.subspan(at, std::min(kPiece, dst.size() - at));
    auto owner = src.shared_from_this();
    const GpuPointer from = AddressAt(src, src_offset + at);
    auto staging = std::make_shared<std::unique_ptr<Staging>>();
    queue_->Push({.submit =
                      [context = context_, &pool = heap_.staging(), owner, piece, from,
                       staging](StreamHandle stream) {
                        *staging = std::make_unique<Staging>(owner, pool, piece.size());
                        void* pinned = (*staging)->data();
                        return context->Check(context->api().CopyOut(
                            pinned != nullptr ? pinned : piece.data(), from, piece.size(), stream));
                      },
                  .land =
                      [piece, staging] {
                        if (const void* pinned = (*staging)->data(); pinned != nullptr) {
                          std::memcpy(piece.data(), pinned, piece.size());
                        }
                        return absl::OkStatus();
                      },
                  .reads_host = IsHosts(src),
                  .writes_host = true,
                  .staged = dst.size() > kPiece});
  }
  return absl::OkStatus();
}

absl::Status GpuStream::DoCopy(Buffer& src, size_t src_offset, Buffer& dst, size_t dst_offset,
                               size_t bytes) {
  UOPD_TRY(CheckUsable(src));
  UOPD_TRY(CheckUsable(dst));
  queue_->Push({.submit =
                    [context = context_, from = src.shared_from_this(), src_offset,
                     to = dst.shared_from_this(), dst_offset, bytes](StreamHandle stream) {
                      return context->Check(context->api().Copy(
                          AddressAt(*to, dst_offset), AddressAt(*from, src_offset), bytes, stream));
                    },
                .reads_host = IsHosts(src) || IsHosts(dst),
                .writes_host = IsHosts(dst),
                .abandon = [to = dst.shared_from_this()] { GiveUp(*to); }});
  return absl::OkStatus();
}

absl::Status GpuStream::DoCopyFrom(Stream& source, Buffer& src, size_t src_offset, Buffer& dst,
                                   size_t dst_offset, size_t bytes) {
  UOPD_TRY(CheckUsable(dst));
  auto* other = dynamic_cast<GpuStream*>(&source);
  if (other != nullptr) UOPD_TRY(CheckUsable(src));
  const bool direct = other != nullptr && &other->context_->driver() == &context_->driver() &&
                      !IsHosts(src) && !IsHosts(dst);
  if (direct && QueuePeerCopy({*other->queue_, other->context_, src.shared_from_this(), src_offset},
                              {*queue_, context_, dst.shared_from_this(), dst_offset}, bytes,
                              heap_.staging())) {
    return absl::OkStatus();
  }
  return Stream::DoCopyFrom(source, src, src_offset, dst, dst_offset, bytes);
}

absl::Status GpuStream::DoFill(Buffer& dst, size_t offset, size_t bytes, std::byte value) {
  UOPD_TRY(CheckUsable(dst));
  queue_->Push({.submit =
                    [context = context_, to = dst.shared_from_this(), offset, bytes,
                     value](StreamHandle stream) {
                      return context->Check(context->api().Fill(AddressAt(*to, offset),
                                                                static_cast<unsigned char>(value),
                                                                bytes, stream));
                    },
                .reads_host = IsHosts(dst),
                .writes_host = IsHosts(dst),
                .abandon = [to = dst.shared_from_this()] { GiveUp(*to); }});
  return absl::OkStatus();
}

absl::Status GpuStream::DoLaunch(Executable& executable, const LaunchShape& shape,
                                 std::span<const BufferArg> buffers, std::span<const int64_t> vars,
                                 int64_t* duration_ns,
                                 const std::shared_ptr<const StopFlag>& stop) {
  auto launch = std::make_shared<PendingLaunch>();
  launch->context = context_;
  launch->executable = std::static_pointer_cast<GpuExecutable>(executable.shared_from_this());
  launch->shape = shape;
  for (const BufferArg& arg : buffers) {
    UOPD_TRY(CheckUsable(*arg.buffer));
    launch->owners.push_back(arg.buffer->shared_from_this());
    launch->buffers.push_back(AddressAt(*arg.buffer, arg.offset));
  }
  launch->vars.assign(vars.begin(), vars.end());
  launch->duration_ns = duration_ns;
  launch->maybe_stop = stop;
  launch->words = words_;
  queue_->Push(WorkOf(std::move(launch)));
  return absl::OkStatus();
}

absl::Status GpuStream::DoReplay(const RecordedProgram& program, std::span<Buffer* const> buffers,
                                 std::span<int64_t> durations_ns,
                                 const std::shared_ptr<const StopFlag>& stop) {
  const auto* graph = dynamic_cast<const GpuRecordedProgram*>(&program);
  // The times of single kernels need events between them.
  if (graph == nullptr || !durations_ns.empty()) {
    return Stream::DoReplay(program, buffers, durations_ns, stop);
  }
  auto replay = std::make_shared<PendingReplay>();
  replay->program = graph->shared_from_this();
  for (Buffer* buffer : buffers) {
    UOPD_TRY(CheckUsable(*buffer));
    replay->owners.push_back(buffer->shared_from_this());
    replay->buffers.push_back(AddressAt(*buffer, 0));
  }
  replay->maybe_stop = stop;
  replay->words = words_;
  queue_->Push(WorkOf(std::move(replay)));
  return absl::OkStatus();
}

absl::Status GpuStream::DoFree(std::shared_ptr<Buffer> buffer) {
  queue_->PushDrop(std::move(buffer));
  return absl::OkStatus();
}

absl::Status GpuStream::DoRecord(TimePoint point) {
  queue_->PushRecord(std::move(point));
  return absl::OkStatus();
}

absl::Status GpuStream::DoWait(TimePoint until) {
  queue_->PushWait(std::move(until));
  return absl::OkStatus();
}

}  // namespace uopd::devices::gpu
