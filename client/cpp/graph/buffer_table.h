// SPDX-License-Identifier: MIT
// BufferTable: the buffers of one GraphState, by the slot numbers of their BUFFER nodes.
//
// The number of a buffer that is gone is given to a later buffer of the same dtype, shape and
// device. So a client that computes the same graph step after step makes the same nodes, and these
// are neither verified nor normalised again. Handles on the daemon are never given twice.
//
// Invariant: no node that a live tensor reaches has the number of a buffer that is gone. Memory is
// bounded by the largest number of buffers that existed at the same time.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/ir/dtype.h"
#include "core/ir/shape.h"
#include "uopd/future.h"

namespace uopd::client {

struct ClientBuffer {
  uint64_t handle = 0;  // on the daemon
  ir::Dtype dtype = ir::Dtype::F32;
  uint64_t bytes = 0;
  std::string device;
  // The contents, until the daemon is known to have them.
  std::shared_ptr<const std::string> data;
  bool on_daemon = false;  // it has the buffer, or a call that was submitted makes it
  bool constant = false;   // no call may write it
  bool zeros = false;      // reads as zeros; the daemon gets it with the first request that uses it
  uint64_t counters = 0;   // the contents are the position of this many random numbers (random.h)
  uint64_t version = 0;    // counts the calls that write it
  uint64_t written = 0;    // when it got another value than its tensor had before (history.h)
  // The buffer whose contents were copied here for a tensor that shared that buffer until then, if
  // there was one: number, handle, and `written` at that time. So gradients by the one are
  // gradients by the other.
  struct Origin {
    uint64_t number, handle, written;
  };
  std::optional<Origin> origin;
  // What makes the contents, if that is on the way. If it failed, so does every use of the buffer.
  std::optional<Future> maker;

  bool must_send() const { return data != nullptr && !on_daemon; }
};

class BufferTable {
 public:
  // Returns the number of the buffer.
  uint64_t Add(ClientBuffer buffer, const ir::Dims& dims);
  // REQUIRES: the buffer exists.
  void Remove(uint64_t number);
  ClientBuffer& at(uint64_t number) { return places_[number].buffer; }
  const ClientBuffer& at(uint64_t number) const { return places_[number].buffer; }

  size_t size() const { return used_; }
  // Its shape, without pieces on other devices.
  const ir::Dims& dims(uint64_t number) const { return places_[number].dims; }
  // All numbers are below this one.
  uint64_t end() const { return places_.size(); }
  bool Has(uint64_t number) const { return places_[number].used; }
  // The buffer has the contents of another one, which its tensor had before.
  void NoteCopy(uint64_t number, uint64_t of) {
    at(number).origin = {of, at(of).handle, at(of).written};
    has_copies_ = true;
  }
  bool has_copies() const { return has_copies_; }  // or had
  // Whether another buffer is such a copy of this one, which has the same contents still.
  bool IsCopied(uint64_t number) const {
    const ClientBuffer& b = at(number);
    return has_copies_ && std::ranges::any_of(places_, [&](const Place& p) {
             const auto& of = p.buffer.origin;
             return p.used && of && of->number == number && of->handle == b.handle &&
                    of->written == b.written;
           });
  }

 private:
  struct Kind {
    ir::Dtype dtype;
    ir::Dims dims;
    std::string device;
    bool operator==(const Kind&) const = default;

    template <class H>
    friend H AbslHashValue(H h, const Kind& kind) {
      return H::combine(std::move(h), kind.dtype, kind.dims, kind.device);
    }
  };
  struct Place {
    ClientBuffer buffer;
    ir::Dims dims;
    bool used = false;
  };

  uint64_t Take(const Kind& kind);

  std::deque<Place> places_;
  size_t used_ = 0;
  bool has_copies_ = false;
  absl::flat_hash_map<Kind, std::vector<uint64_t>> free_;
  size_t n_free_ = 0;            // numbers in free_
  std::vector<uint64_t> spare_;  // numbers for buffers of any kind
};

// Some of the numbers of a table.
class NumberSet {
 public:
  void Insert(uint64_t number) {
    if (number >= bits_.size()) bits_.resize(number + 1);
    bits_[number] = true;
  }
  bool Contains(uint64_t number) const { return number < bits_.size() && bits_[number]; }

 private:
  std::vector<bool> bits_;
};

}  // namespace uopd::client
