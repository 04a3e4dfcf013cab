// SPDX-License-Identifier: MIT
#include "core/interp/bulk_copies.h"

#include <algorithm>

#include "core/base/target/machine_facts.h"
#include "core/base/text.h"
#include "core/ir/dtype.h"

namespace uopd::interp {
namespace {

constexpr std::string_view kNoBarrier =
    "uses a barrier that was not made by a BULK_INIT before the last BARRIER";

}  // namespace

bool BulkCopies::Runs() const {
  return std::ranges::any_of(barriers_, [](const auto& b) { return b.second.bytes != 0; });
}

BulkCopies::Barrier* BulkCopies::MaybeBarrier(uint32_t array, int64_t element, size_t thread) {
  const auto it = barriers_.find({array, element});
  if (it == barriers_.end()) return nullptr;
  Barrier& out = it->second;
  return out.maker == thread || out.made < memory_.epoch() ? &out : nullptr;
}

void BulkCopies::Barrier::EndPhase() {
  ++phases;
  last_copies = std::move(copies);
  last_told = told;
  copies.clear();
  arrived = bytes = 0;
  expected = -1;
}

std::optional<Fault> BulkCopies::MaybeInit(const Access& a, int64_t arrivals) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    const size_t thread = a.first + k;
    const int64_t element = a.Element(k), elements = program_.arrays()[a.array].elements;
    if (element < 0 || element >= elements)
      return Fault{thread, Cat("makes barrier ", element, " of ", elements)};
    const auto [it, fresh] = barriers_.try_emplace({a.array, element});
    if (!fresh) return Fault{thread, Cat("makes barrier ", element, " a second time")};
    it->second.made = memory_.epoch();
    it->second.maker = thread;
    it->second.arrivals = arrivals;
  }
  return std::nullopt;
}

std::optional<Fault> BulkCopies::MaybeExpect(const Access& a, int64_t bytes) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    const size_t thread = a.first + k;
    Barrier* const barrier = MaybeBarrier(a.array, a.Element(k), thread);
    if (barrier == nullptr) return Fault{thread, std::string(kNoBarrier)};
    if (barrier->expected >= 0 || barrier->arrived == barrier->arrivals)
      return Fault{thread, "a second BULK_EXPECT, and nobody has waited for the phase"};
    barrier->expected = bytes;
    ++barrier->arrived;
    memory_.Tell(barrier->told);
  }
  return std::nullopt;
}

std::optional<Fault> BulkCopies::MaybeArrive(const Access& a) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    const size_t thread = a.first + k;
    Barrier* const barrier = MaybeBarrier(a.array, a.Element(k), thread);
    if (barrier == nullptr) return Fault{thread, std::string(kNoBarrier)};
    if (barrier->arrived == barrier->arrivals)
      return Fault{thread, "arrives once more, and nobody has waited for the copies of the phase"};
    ++barrier->arrived;
    memory_.Tell(barrier->told);
    // A phase with copies ends when somebody waits for them.
    if (barrier->expected < 0 && barrier->IsOver()) barrier->EndPhase();
  }
  return std::nullopt;
}

std::optional<Fault> BulkCopies::MaybeCopy(const Instruction& in, const Access& to,
                                           const Value* barriers,
                                           const std::vector<const Value*>& coordinates) {
  for (size_t k = 0; k < to.n; ++k) {
    if (!to.Passes(k)) continue;
    const size_t thread = to.first + k;
    Barrier* const barrier = MaybeBarrier(in.arrays[0], barriers[k].i, thread);
    if (barrier == nullptr) return Fault{thread, std::string(kNoBarrier)};
    const int64_t address = program_.arrays()[in.array].offset + to.Element(k) * kSharedWordBytes;
    if (address % (8 * in.map.span) != 0)
      return Fault{thread, Cat("copies to byte ", address, ", no multiple of 8 spans of ",
                               in.map.span, " bytes")};
    std::vector<int64_t> begin;
    for (const Value* c : coordinates) begin.push_back(c[k].i);
    if (auto fault = MaybeCopyBox(in, thread, address, begin, *barrier)) return fault;
  }
  return std::nullopt;
}

// Word by word: the elements of a word, then where the swizzle puts it.
std::optional<Fault> BulkCopies::MaybeCopyBox(const Instruction& in, size_t thread, int64_t address,
                                              const std::vector<int64_t>& begin, Barrier& barrier) {
  const TensorMap& map = in.map;
  const Array& buffer = program_.arrays()[in.from_array];
  const int64_t in_word = kSharedWordBytes / map.element_bytes, words = map.span / kSharedWordBytes;
  for (int64_t row = 0; row < map.rows(); ++row) {
    bool inside = true;
    int64_t at_byte = 0, rest = row;
    for (size_t d = 1; d < map.rank(); ++d) {
      const int64_t at = begin[d] + rest % map.box[d];
      rest /= map.box[d];
      inside = inside && at >= 0 && at < map.dims[d];
      at_byte += at * map.strides[d - 1];
    }
    for (int64_t w = 0; w < words; ++w) {
      uint64_t word = 0;
      for (int64_t e = 0; e < in_word; ++e) {
        const int64_t at = begin[0] + w * in_word + e;
        if (!inside || at < 0 || at >= map.dims[0]) continue;  // zero
        Value index, value;
        index.i = at_byte / map.element_bytes + at;
        if (auto fault = memory_.MaybeLoad({in.from_array, thread, 1, &index}, &value))
          return fault;
        const uint64_t raw = ir::IsFloat(buffer.dtype) ? ir::EncodeFloat(buffer.dtype, value.f)
                                                       : static_cast<uint64_t>(value.i);
        const int64_t bits = 8 * map.element_bytes;
        word |= (raw & ((uint64_t{1} << bits) - 1)) << (bits * e);
      }
      Value index, value;
      index.i = (map.Swizzled(address + row * map.span + w * kSharedWordBytes) -
                 program_.arrays()[in.array].offset) /
                kSharedWordBytes;
      value.i = static_cast<int64_t>(word);
      const Access store{in.array, thread, 1, &index};
      if (auto fault = memory_.MaybeStore(store, &value)) return fault;
      memory_.Send(store, barrier.copies);
    }
  }
  barrier.bytes += map.box_bytes();
  return std::nullopt;
}

BulkCopies::Wait BulkCopies::WaitAt(const Access& a, const Value* parities) {
  const auto bad = [](size_t thread, std::string what) {
    Wait out;
    out.fault = Fault{thread, std::move(what)};
    return out;
  };
  for (size_t k = 0; k < a.n; ++k) {
    const size_t thread = a.first + k;
    if (a.Element(k) != a.Element(0) || parities[k].i != parities[0].i)
      return bad(thread, "waits for another phase than the first thread does");
    if (parities[k].i != 0 && parities[k].i != 1)
      return bad(thread, Cat("waits for a phase of parity ", parities[k].i));
    if (MaybeBarrier(a.array, a.Element(k), thread) == nullptr)
      return bad(thread, std::string(kNoBarrier));
  }
  Barrier& barrier = *MaybeBarrier(a.array, a.Element(0), a.first);
  // The wait is over if the phase before the one that runs has the parity.
  if (barrier.phases % 2 == parities[0].i) {
    if (!barrier.IsOver()) {
      Wait out;
      out.over = false;
      out.why = barrier.arrived < barrier.arrivals
                    ? Cat("the phase has ", barrier.expected < 0 ? "no BULK_EXPECT, and " : "",
                          barrier.arrived, " of ", barrier.arrivals, " arrivals")
                    : Cat("the phase expects ", std::max<int64_t>(barrier.expected, 0),
                          " bytes, and copies bring ", barrier.bytes);
      Append(out.why, " (phase ", barrier.phases, " of barrier ", a.Element(0), ")");
      return out;
    }
    barrier.EndPhase();
  }
  memory_.See(barrier.last_told);
  memory_.LandForSquad(barrier.last_copies);
  return {};
}

}  // namespace uopd::interp
