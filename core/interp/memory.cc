// SPDX-License-Identifier: MIT
#include "core/interp/memory.h"

#include <algorithm>
#include <cstring>

#include "core/base/text.h"
#include "core/ir/dtype.h"

namespace uopd::interp {

using ir::AddrSpace;
using ir::Dtype;

Value LoadValue(Dtype dtype, const std::byte* at) {
  Value out;
  if (dtype == Dtype::F32) {
    float v;
    std::memcpy(&v, at, sizeof v);
    out.f = static_cast<double>(v);
    return out;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(ir::ByteSize(dtype)));
  if (ir::IsFloat(dtype)) {
    out.f = ir::DecodeFloat(dtype, bits);
  } else {
    out.i = dtype == Dtype::Bool ? static_cast<int64_t>(bits != 0)
                                 : ir::WrapTo(dtype, static_cast<ir::Int128>(bits));
  }
  return out;
}

void StoreValue(Dtype dtype, Value value, std::byte* at) {
  if (dtype == Dtype::F32) {
    const auto v = static_cast<float>(value.f);
    std::memcpy(at, &v, sizeof v);
    return;
  }
  const uint64_t bits =
      ir::IsFloat(dtype) ? ir::EncodeFloat(dtype, value.f) : static_cast<uint64_t>(value.i);
  std::memcpy(at, &bits, static_cast<size_t>(ir::ByteSize(dtype)));
}

Memory::Memory(const Program& program, const LaunchArguments& arguments, int64_t threads)
    : program_(program), arguments_(arguments), threads_(threads) {
  for (uint32_t i = 0; i < program.arrays().size(); ++i) {
    const Array& array = program.arrays()[i];
    Place place;
    place.bytes = ir::ByteSize(array.dtype);
    place.elements = array.elements;
    if (array.space == AddrSpace::GLOBAL) {
      const auto slot = static_cast<size_t>(array.slot);
      if (slot < arguments.buffers.size()) {
        place.data = arguments.buffers[slot].data();
        place.elements = std::min(
            place.elements, static_cast<int64_t>(arguments.buffers[slot].size()) / place.bytes);
      }
      if (program.Stores(i)) place.shadows.resize(static_cast<size_t>(place.elements));
    } else {
      const auto copies = array.space == AddrSpace::REG ? threads : int64_t{1};
      place.storage.resize(static_cast<size_t>(place.elements * place.bytes * copies));
      place.data = place.storage.data();
      if (array.space == AddrSpace::LOCAL) {
        place.shadows.resize(static_cast<size_t>(place.elements));
      } else {
        place.stored.resize(static_cast<size_t>(place.elements * copies));
      }
    }
    places_.push_back(std::move(place));
  }
}

absl::Status Memory::Check() const {
  for (const Array& array : program_.arrays()) {
    if (array.space != AddrSpace::GLOBAL) continue;
    if (static_cast<size_t>(array.slot) >= arguments_.buffers.size())
      return absl::InvalidArgumentError(Cat("the launch has no buffer for slot ", array.slot));
  }
  return absl::OkStatus();
}

void Memory::BeginBlock(int64_t block) {
  block_ = block;
  ++epoch_;
  for (size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (program_.arrays()[i].space == AddrSpace::REG) {
      place.stored.assign(place.stored.size(), false);
    } else if (program_.arrays()[i].space == AddrSpace::LOCAL && program_.has_blocks()) {
      std::ranges::fill(place.shadows, Shadow());
    }
  }
}

std::string Memory::MaybeLoad(uint32_t array, int64_t element, int64_t thread, Value& out) {
  Place& place = places_[array];
  if (element < 0 || element >= place.elements)
    return Cat("loads element ", element, " of ", place.elements);
  const AddrSpace space = program_.arrays()[array].space;
  int64_t at = element;
  if (space == AddrSpace::REG) {
    at = element * threads_ + thread;
    if (!place.stored[static_cast<size_t>(at)])
      return Cat("loads element ", element, " of an array, which it has not stored");
  } else if (!place.shadows.empty()) {
    Shadow& shadow = place.shadows[static_cast<size_t>(element)];
    const int64_t me = Id(thread);
    const bool is_shared = space == AddrSpace::LOCAL;
    if (is_shared && shadow.writer == kNobody)
      return Cat("loads element ", element, " of a shared array, which no thread has stored");
    const bool ordered = is_shared && (shadow.written != epoch_ || !program_.has_blocks());
    if (shadow.writer != kNobody && shadow.writer != me && !ordered)
      return Cat("loads element ", element, ", which thread ", shadow.writer % threads_,
                 " of block ", shadow.writer / threads_, " stores: a race");
    if (is_shared && shadow.read != epoch_) shadow.reader = kNobody;
    shadow.reader = shadow.reader == kNobody || shadow.reader == me ? me : kSeveral;
    shadow.read = epoch_;
  }
  out = LoadValue(program_.arrays()[array].dtype, place.data + at * place.bytes);
  return "";
}

std::string Memory::MaybeStore(uint32_t array, int64_t element, int64_t thread, Value value) {
  Place& place = places_[array];
  if (element < 0 || element >= place.elements)
    return Cat("stores element ", element, " of ", place.elements);
  const AddrSpace space = program_.arrays()[array].space;
  int64_t at = element;
  if (space == AddrSpace::REG) {
    at = element * threads_ + thread;
    place.stored[static_cast<size_t>(at)] = true;
  } else {
    Shadow& shadow = place.shadows[static_cast<size_t>(element)];
    const int64_t me = Id(thread);
    const bool is_shared = space == AddrSpace::LOCAL;
    const bool written = shadow.writer != kNobody && (!is_shared || shadow.written == epoch_);
    const bool read = shadow.reader != kNobody && (!is_shared || shadow.read == epoch_);
    if (written && shadow.writer != me)
      return Cat("stores element ", element, ", which thread ", shadow.writer % threads_,
                 " of block ", shadow.writer / threads_, " stores too: a race");
    if (read && shadow.reader != me)
      return Cat("stores element ", element, ", which ",
                 shadow.reader == kSeveral ? std::string("several threads load")
                                           : Cat("thread ", shadow.reader % threads_, " of block ",
                                                 shadow.reader / threads_, " loads"),
                 ": a race");
    shadow.writer = me;
    shadow.written = epoch_;
  }
  StoreValue(program_.arrays()[array].dtype, value, place.data + at * place.bytes);
  return "";
}

}  // namespace uopd::interp
