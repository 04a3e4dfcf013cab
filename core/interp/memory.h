// SPDX-License-Identifier: MIT
// The memory that a launch of the interpreter sees: buffers, arrays of a block, arrays of its threads. Each
// access is checked against the bounds, against what was stored, and against what other threads did.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/interp/interpreter.h"

namespace uopd::interp {

// An element as its dtype lies in memory.
Value LoadValue(ir::Dtype dtype, const std::byte* at);
void StoreValue(ir::Dtype dtype, Value value, std::byte* at);

class Memory {
 public:
  Memory(const Program& program, const LaunchArguments& arguments, int64_t threads);

  // INVALID_ARGUMENT: a buffer is missing.
  absl::Status Check() const;
  void BeginBlock(int64_t block);
  void Barrier() { ++epoch_; }

  // What is wrong with the access, or nothing; `thread`: of the block. A load sets `out`.
  std::string MaybeLoad(uint32_t array, int64_t element, int64_t thread, Value& out);
  std::string MaybeStore(uint32_t array, int64_t element, int64_t thread, Value value);

 private:
  static constexpr int64_t kNobody = -1, kSeveral = -2;
  // Who accessed an element, and in which epoch.
  struct Shadow {
    int64_t writer = kNobody, reader = kNobody;
    int64_t written = 0, read = 0;  // epochs
  };
  struct Place {
    std::byte* data = nullptr;
    int64_t elements = 0;
    int64_t bytes = 0;               // of an element
    std::vector<Shadow> shadows;     // by element; empty: nobody stores to the buffer
    std::vector<std::byte> storage;  // of arrays
    std::vector<bool> stored;        // of arrays of threads, by element and thread
  };

  // The number of a thread in the launch: threads of other blocks have other numbers.
  int64_t Id(int64_t thread) const { return block_ * threads_ + thread; }

  const Program& program_;
  const LaunchArguments& arguments_;
  const int64_t threads_;
  std::vector<Place> places_;
  int64_t block_ = 0, epoch_ = 1;
};

}  // namespace uopd::interp
