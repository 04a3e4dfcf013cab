// SPDX-License-Identifier: MIT
// GraphState: contents of tensors, from the answers of requests and from buffers on the daemon.
#include <algorithm>
#include <cstring>

#include "client/cpp/graph/graph_state.h"
#include "core/base/mutex.h"
#include "core/base/text.h"
#include "core/ir/analysis/sizes.h"

namespace uopd::client {
namespace {

using ir::Op;
using ir::UOp;

// How the contents of pieces make up those of the value: for each row, the part of each piece in
// order.
struct Joint {
  size_t pieces = 1, rows = 1;
};

Joint JointOf(ir::UOpContext& ctx, UOp stored) {
  if (stored.Is(Op::BUFFER) || stored.ints().empty()) return {};  // all pieces are equal
  const auto axis = static_cast<size_t>(stored.ints()[0]);
  const ir::Dims dims = ir::MaxDims(ctx, *ctx.ShapeOf(stored));
  return {stored.n_src(), static_cast<size_t>(ir::Product(std::span(dims).first(axis)))};
}

void Join(const Joint& joint, std::span<const std::string* const> pieces, std::span<char> out) {
  char* to = out.data();
  for (size_t row = 0; row < joint.rows; ++row) {
    for (const std::string* piece : pieces) {
      const size_t length = piece->size() / joint.rows;
      to = std::copy_n(piece->data() + row * length, length, to);
    }
  }
}

// Copies the elements below `part` along every axis out of memory of the shape `whole`.
void CopyCorner(std::string_view from, const ir::Dims& whole, const ir::Dims& part, int64_t size,
                std::span<char> to) {
  const size_t rank = whole.size();
  const int64_t row = part.back() * size, stride = whole.back() * size;
  ir::Dims at(rank, 0);  // all but the last axis
  char* out = to.data();
  for (;;) {
    int64_t first = 0;
    for (size_t i = 0; i + 1 < rank; ++i) first = first * whole[i] + at[i];
    out = std::copy_n(from.data() + first * stride, row, out);
    size_t axis = rank - 1;
    while (axis > 0 && ++at[axis - 1] == part[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

// Pieces that are downloaded, and joined when the last one has come.
struct Download {
  Joint joint;
  std::vector<std::string> pieces;
  std::span<char> out;
  Promise promise;
  explicit Download(std::weak_ptr<Driver> driver) : promise(std::move(driver)) {}
  Mutex mutex;
  size_t left UOPD_GUARDED_BY(mutex) = 0;
  absl::Status first UOPD_GUARDED_BY(mutex);

  void End(const absl::Status& status) {
    MutexLock lock(mutex);
    first.Update(status);
    if (--left > 0) return;
    if (first.ok()) {
      std::vector<const std::string*> all;
      for (const std::string& piece : pieces) all.push_back(&piece);
      Join(joint, all, out);
    }
    promise.Set(first);
  }
};

}  // namespace

ir::Dims SizesNow(ir::UOpContext& ctx, const TensorState& t) {
  if (!t.symbolic) return t.dims;
  ir::Dims out;
  for (UOp d : *ctx.ShapeOf(t.uop)) out.push_back(ir::BoundValue(d).value_or(0));
  return out;
}

Future GraphState::Read(const std::shared_ptr<TensorState>& t, std::span<char> out) {
  if (!t->error.ok()) return Future(t->error);
  if (t->symbolic) {
    for (UOp d : *ctx_->ShapeOf(t->uop)) {
      if (ir::BoundValue(d)) continue;
      return Future(absl::InvalidArgumentError(
          Cat("the size ", ir::SizeText(d), " is unbound: a variable has no value")));
    }
  }
  const ir::Dims now = SizesNow(*ctx_, *t);
  const auto bytes = static_cast<uint64_t>(ir::Product(now) * ir::ByteSize(t->dtype));
  if (out.size() != bytes) {
    return Future(absl::InvalidArgumentError(
        Cat("the tensor has ", bytes, " bytes, and the memory for it ", out.size())));
  }
  if (bytes == 0) return Future();
  if (now == t->dims) return ReadWhole(t, out);
  // The memory of a symbolic tensor has the largest sizes: what is valid lies in its corner.
  const auto whole = std::make_shared<std::string>(
      static_cast<size_t>(ir::Product(t->dims) * ir::ByteSize(t->dtype)), '\0');
  const Promise promise(executor_->driver());
  ReadWhole(t, *whole).Then(
      [=, dims = t->dims, size = ir::ByteSize(t->dtype)](const absl::Status& status) {
        if (status.ok()) CopyCorner(*whole, dims, now, size, out);
        promise.Set(status);
      });
  return promise.future();
}

Future GraphState::ReadWhole(const std::shared_ptr<TensorState>& t, std::span<char> out) {
  if (Recorder() != nullptr) {
    return Future(
        absl::FailedPreconditionError("Jit: a tensor is read while a Jit records the function: a "
                                      "replay could not see other values"));
  }
  if (absl::Status status = Submit(std::span(&t, 1)); !status.ok()) return Future(status);
  return AfterEarlier(ReadStored(*t, out), t->answer);
}

Future GraphState::AfterEarlier(const Future& read, const Answer& own) {
  // The error of a request whose answer was looked at since the read began.
  const absl::Status noted = TakeError();
  std::vector<std::pair<Future, std::shared_ptr<std::atomic<bool>>>> earlier;
  // A request whose answer came, and was not looked at, is among the earlier ones.
  for (Sent& sent : sent_) {
    if (sent.told || sent.answer.result == own.result) continue;
    if (sent.told_later == nullptr) sent.told_later = std::make_shared<std::atomic<bool>>(false);
    earlier.emplace_back(sent.answer.future, sent.told_later);
  }
  if (earlier.empty() && noted.ok()) return read;
  const Promise promise(read.driver());
  read.Then([promise, noted, earlier = std::move(earlier)](absl::Status status) {
    status.Update(noted);
    for (const auto& [future, told] : earlier) {
      if (!future.Done()) continue;  // answers of calls come in order, so this is an upload
      const absl::Status before = future.Wait();
      if (!before.ok()) told->store(true);
      status.Update(before);
    }
    promise.Set(status);
  });
  return promise.future();
}

Future GraphState::ReadStored(const TensorState& tensor, std::span<char> out) {
  const TensorState* const t = &tensor;
  const std::vector<uint64_t> numbers = NumbersOf(t->uop);
  for (Sent& sent : sent_) {
    for (const auto& [number, handle] : sent.made) sent.told |= number == numbers[0];
  }
  const Joint joint = JointOf(*ctx_, t->uop);
  // After a failure a tensor that was assigned has its old contents, which are in its buffer.
  const bool failed = t->answer.future.Done() && !t->answer.future.Wait().ok();
  const bool current = t->version == buffers_.at(numbers[0]).version;
  if (!t->places.empty() && !failed && current) {
    const Promise promise(t->answer.future.driver());
    t->answer.future.Then([joint, out, promise, result = t->answer.result,
                           places = t->places](const absl::Status& status) {
      if (!status.ok()) return promise.Set(status);
      std::vector<const std::string*> pieces;
      size_t size = 0;
      for (size_t i = 0; i < joint.pieces; ++i) {
        if (places[i] < result->data.size()) pieces.push_back(&result->data[places[i]]);
        if (places[i] < result->data.size()) size += pieces.back()->size();
      }
      if (size != out.size()) {
        return promise.Set(absl::InternalError(
            Cat("the answer has ", size, " bytes of a tensor of ", out.size())));
      }
      Join(joint, pieces, out);
      promise.Set(status);
    });
    return promise.future();
  }
  if (joint.pieces == 1) return ReadBuffer(numbers[0], out);
  auto download = std::make_shared<Download>(executor_->driver());
  download->joint = joint;
  download->out = out;
  for (uint64_t number : numbers) download->pieces.emplace_back(buffers_.at(number).bytes, '\0');
  {
    MutexLock lock(download->mutex);
    download->left = numbers.size();
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    ReadBuffer(numbers[i], download->pieces[i]).Then([download](const absl::Status& status) {
      download->End(status);
    });
  }
  return download->promise.future();
}

bool GraphState::AtHand(const TensorState& t) const {
  if (!t.error.ok() || Recorder() != nullptr) return false;
  if (!IsStored(t.uop) || t.replaces) return false;
  const std::vector<uint64_t> numbers = NumbersOf(t.uop);
  const ClientBuffer& first = buffers_.at(numbers[0]);
  if (!t.places.empty() && t.version == first.version)
    return t.answer.future.Done() && t.answer.future.Wait().ok();
  return numbers.size() == 1 && first.data != nullptr && CheckMade(numbers).ok();
}

std::map<std::string, uint64_t> GraphState::BufferBytes() {
  Poll();
  FreeDropped();
  std::map<std::string, uint64_t> bytes;
  for (uint64_t number = 0; number < buffers_.end(); ++number) {
    if (!buffers_.Has(number) || !buffers_.at(number).on_daemon) continue;
    bytes[buffers_.at(number).device] += buffers_.at(number).bytes;
  }
  return bytes;
}

Future GraphState::ReadBuffer(uint64_t number, std::span<char> out) {
  if (absl::Status made = CheckMade(std::span(&number, 1)); !made.ok()) return Future(made);
  // A call that was answered may have failed: then the contents are what this process has.
  if (buffers_.at(number).version != 0) Poll();
  const ClientBuffer& b = buffers_.at(number);
  // No call has written it yet, or none that succeeded.
  if (b.data != nullptr && (b.version == 0 || !b.on_daemon)) {
    std::memcpy(out.data(), b.data->data(), out.size());
    return Future();
  }
  if (absl::Status zeros = MakeZeros(std::span(&number, 1)); !zeros.ok()) return Future(zeros);
  ++stats_.downloads;
  return executor_->Download(b.handle, out);
}

}  // namespace uopd::client
