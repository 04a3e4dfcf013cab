// SPDX-License-Identifier: MIT
// GuardedBytes: a copy of some bytes that ends where a page without access begins. Reading or
// writing beyond the end, or a page before the start, ends the program with a signal.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace uopd::tests {

class GuardedBytes {
 public:
  explicit GuardedBytes(std::span<const uint8_t> bytes) : size_(bytes.size()) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inside = (size_ + page - 1) / page * page;
    mapped_ = inside + 2 * page;
    void* at = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    base_ = static_cast<uint8_t*>(at);
    if (inside > 0 && mprotect(base_ + page, inside, PROT_READ | PROT_WRITE) != 0) std::abort();
    data_ = base_ + page + inside - size_;
    if (size_ > 0) std::memcpy(data_, bytes.data(), size_);
  }
  ~GuardedBytes() { munmap(base_, mapped_); }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;

  uint8_t* data() { return data_; }
  std::vector<uint8_t> Copy() const { return {data_, data_ + size_}; }

 private:
  size_t size_, mapped_ = 0;
  uint8_t *base_ = nullptr, *data_ = nullptr;
};

}  // namespace uopd::tests
