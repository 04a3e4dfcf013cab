// SPDX-License-Identifier: MIT
// The stop words that the kernels of one stream read: one that is set when a run is to end, and one
// that is never set.
//
// Kernels cannot read the word of a StopFlag, which is ordinary memory of the host. So the stream
// copies the flag to a word in fine-grained shared memory, which a running kernel sees. A device
// without such memory has words that are never set: it only skips what is queued.
//
// The owner is the work of one stream; only its thread may call Set.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>

#include "devices/opencl/opencl_context.h"

namespace uopd::devices::opencl {

class StopWords {
 public:
  // `queue` is used only before Make returns.
  static absl::StatusOr<StopWords> Make(std::shared_ptr<OpenClContext> context, ClQueue* queue);
  StopWords(StopWords&& other) noexcept
      : context_(std::move(other.context_)),
        words_(std::exchange(other.words_, nullptr)),
        reachable_(other.reachable_) {}
  StopWords& operator=(StopWords&&) = delete;
  ~StopWords();

  const int32_t* never() const { return words_; }
  const int32_t* word() const { return words_ + kApart; }
  // False: no running kernel would see it.
  bool reachable() const { return reachable_; }
  void Set(bool stop);  // does nothing if the word is not reachable

 private:
  static constexpr size_t kApart = 32;  // 128 bytes: words on two cache lines

  StopWords(std::shared_ptr<OpenClContext> context, int32_t* words, bool reachable)
      : context_(std::move(context)), words_(words), reachable_(reachable) {}

  std::shared_ptr<OpenClContext> context_;
  int32_t* words_;
  const bool reachable_;
};

}  // namespace uopd::devices::opencl
