// SPDX-License-Identifier: MIT
// Schedule::Encode and Decode: schedules as bytes, for the cache.
//
// The bytes are a sequence of varints and strings (core/base/bytes.h), kFormat first. Raise kFormat
// with every change of the sequence.
#include "core/base/bytes.h"
#include "core/base/text.h"
#include "core/schedule/schedule.h"

namespace uopd::schedule {
namespace {

constexpr uint64_t kFormat = 3;

class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : r_(bytes) {}

  bool Run(Schedule& s) {
    uint64_t format;
    if (!r_.Varint(format) || format != kFormat) return false;
    const bool read =
        List(s.slots, [&](Slot& x) { return ReadSlot(x); }) &&
        List(s.variables,
             [&](Variable& x) {
               return r_.String(x.name) && r_.Signed(x.min) && r_.Signed(x.max) &&
                      ReadDtype(x.dtype);
             }) &&
        List(
            s.temporaries,
            [&](Temporary& x) { return r_.String(x.device) && Size(x.bytes) && Size(x.offset); }) &&
        List(s.arenas, [&](auto& x) { return r_.String(x.first) && Size(x.second); }) &&
        List(s.items, [&](Item& x) { return ReadItem(x, s); });
    return read && r_.done() && TemporariesFit(s);
  }

 private:
  template <class T, class F>
  bool List(std::vector<T>& out, F element) {
    uint64_t n;
    if (!r_.Varint(n) || n > r_.left()) return false;  // every element takes a byte
    for (uint64_t i = 0; i < n; ++i) {
      if (!element(out.emplace_back())) return false;
    }
    return true;
  }

  bool Size(int64_t& v) {
    uint64_t u;
    if (!r_.Varint(u) || u > uint64_t{1} << 52) return false;
    v = static_cast<int64_t>(u);
    return true;
  }

  bool ReadDtype(ir::Dtype& out) {
    uint64_t number;
    if (!r_.Varint(number)) return false;
    const auto known = ir::DtypeByWire(number);
    if (known) out = *known;
    return known.has_value();
  }

  bool ReadSlot(Slot& s) {
    uint64_t flags;
    if (!ReadDtype(s.dtype) || !List(s.dims, [&](int64_t& d) { return Size(d); }) ||
        !Size(s.bytes) || !r_.Varint(flags))
      return false;
    s.used = flags & 1;
    s.read = flags & 2;
    s.written = flags & 4;
    return r_.String(s.device);
  }

  bool ReadItem(Item& item, const Schedule& s) {
    uint64_t kind;
    if (!r_.Varint(kind) || kind > Item::kClear) return false;
    item.kind = static_cast<Item::Kind>(kind);
    if (!r_.String(item.device) || !r_.String(item.graph)) return false;
    auto buffer = [&](BufferRef& b) {
      uint64_t which, index;
      if (!r_.Varint(which) || which > BufferRef::kTemporary || !r_.Varint(index)) return false;
      b.kind = static_cast<BufferRef::Kind>(which);
      b.index = static_cast<int64_t>(index);
      return index < (b.kind == BufferRef::kArgument ? s.slots.size() : s.temporaries.size());
    };
    if (!List(item.buffers, buffer)) return false;
    if (item.kind == Item::kKernel) return !item.buffers.empty();
    if (item.kind == Item::kClear) {
      return item.buffers.size() == 1 && item.buffers[0].kind == BufferRef::kTemporary;
    }
    if (item.buffers.size() != 2 || !Size(item.from)) return false;
    auto bytes = [&](const BufferRef& b) {
      const auto i = static_cast<size_t>(b.index);
      return b.kind == BufferRef::kArgument ? s.slots[i].bytes : s.temporaries[i].bytes;
    };
    return item.from + bytes(item.buffers[0]) <= bytes(item.buffers[1]);
  }

  // True if every temporary lies within the arena of its device.
  static bool TemporariesFit(const Schedule& s) {
    for (const Temporary& t : s.temporaries) {
      bool fits = t.bytes == 0;
      for (const auto& [device, bytes] : s.arenas)
        fits |= device == t.device && t.offset + t.bytes <= bytes;
      if (!fits) return false;
    }
    return true;
  }

  ByteReader r_;
};

}  // namespace

std::string Schedule::Encode() const {
  std::string out;
  auto size = [&](int64_t v) { PutVarint(out, static_cast<uint64_t>(v)); };
  PutVarint(out, kFormat);
  PutVarint(out, slots.size());
  for (const Slot& s : slots) {
    PutVarint(out, ir::Info(s.dtype).wire);
    PutVarint(out, s.dims.size());
    for (int64_t d : s.dims) size(d);
    size(s.bytes);
    PutVarint(out, (s.used ? 1 : 0) | (s.read ? 2 : 0) | (s.written ? 4 : 0));
    PutString(out, s.device);
  }
  PutVarint(out, variables.size());
  for (const Variable& v : variables) {
    PutString(out, v.name);
    PutSigned(out, v.min);
    PutSigned(out, v.max);
    PutVarint(out, ir::Info(v.dtype).wire);
  }
  PutVarint(out, temporaries.size());
  for (const Temporary& t : temporaries) {
    PutString(out, t.device);
    size(t.bytes);
    size(t.offset);
  }
  PutVarint(out, arenas.size());
  for (const auto& [device, bytes] : arenas) {
    PutString(out, device);
    size(bytes);
  }
  PutVarint(out, items.size());
  for (const Item& item : items) {
    PutVarint(out, item.kind);
    PutString(out, item.device);
    PutString(out, item.graph);
    PutVarint(out, item.buffers.size());
    for (const BufferRef& b : item.buffers) {
      PutVarint(out, b.kind);
      size(b.index);
    }
    if (item.kind == Item::kCopy) size(item.from);
  }
  return out;
}

absl::StatusOr<Schedule> Schedule::Decode(std::string_view bytes) {
  Schedule s;
  if (!Decoder(bytes).Run(s))
    return absl::DataLossError(Cat("stored schedule of ", bytes.size(), " bytes does not decode"));
  return s;
}

}  // namespace uopd::schedule
