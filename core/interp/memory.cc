// SPDX-License-Identifier: MIT
#include "core/interp/memory.h"

#include <algorithm>

#include "core/base/text.h"
#include "core/interp/codec.h"

namespace uopd::interp {

using ir::AddrSpace;

namespace {

bool Inside(int64_t element, int64_t elements) {
  return static_cast<uint64_t>(element) < static_cast<uint64_t>(elements);
}

// Whether all threads access one element.
bool IsUniform(const Access& a) {
  if (a.maybe_gates != nullptr) return false;
  bool same = true;
  for (size_t k = 0; k < a.n; ++k) same &= a.index[k].i == a.index[0].i;
  return same;
}

}  // namespace

Memory::Memory(const Program& program, const LaunchArguments& arguments, int64_t threads)
    : program_(program), arguments_(arguments), threads_(threads) {
  for (uint32_t i = 0; i < program.arrays().size(); ++i) {
    const Array& array = program.arrays()[i];
    Place place;
    place.space = array.space;
    place.dtype = array.dtype;
    place.elements = array.elements;
    if (array.space == AddrSpace::GLOBAL) {
      const auto slot = static_cast<size_t>(array.slot);
      if (slot < arguments.buffers.size()) {
        const auto bytes = static_cast<int64_t>(arguments.buffers[slot].size());
        place.data = arguments.buffers[slot].data();
        place.elements = std::min(place.elements, bytes / ir::ByteSize(array.dtype));
      }
      if (program.Stores(i)) place.buffer_shadows.resize(static_cast<size_t>(place.elements));
    } else if (array.space == AddrSpace::LOCAL) {
      place.values.resize(static_cast<size_t>(place.elements));
      place.shared_shadows.resize(static_cast<size_t>(place.elements));
    } else {
      place.values.resize(static_cast<size_t>(place.elements * threads));
      place.stored.resize(static_cast<size_t>(place.elements * threads));
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
  if (program_.has_blocks()) first_epoch_ = epoch_;
  for (Place& place : places_) {
    std::ranges::fill(place.stored, uint8_t{0});
    place.sums.assign(1, {});
  }
  first_threads_.assign(1, 0);
  squad_ = 0;
}

void Memory::Fork(std::vector<size_t> first_threads) {
  first_threads_ = std::move(first_threads);
  const size_t squads = first_threads_.size();
  clocks_.assign(squads, Times(squads, 0));
  for (size_t s = 0; s < squads; ++s) clocks_[s][s] = 1;
  for (Place& place : places_) {
    place.sums.resize(squads, place.sums[0]);
    if (place.space != AddrSpace::LOCAL) continue;
    place.reads.assign(static_cast<size_t>(place.elements) * squads, 0);
    // What all have waited for.
    for (SharedShadow& shadow : place.shared_shadows) shadow.landed = shadow.landed != 0 ? ~0U : 0;
  }
}

void Memory::Tell(Times& told) {
  if (!forked()) return;
  told.resize(first_threads_.size(), 0);
  Times& mine = clocks_[squad_];
  for (size_t s = 0; s < told.size(); ++s) told[s] = std::max(told[s], mine[s]);
  ++mine[squad_];
}

void Memory::See(const Times& told) {
  if (!forked()) return;
  Times& mine = clocks_[squad_];
  for (size_t s = 0; s < told.size(); ++s) mine[s] = std::max(mine[s], told[s]);
}

std::optional<size_t> Memory::MaybeReader(const Place& place, size_t element) const {
  const size_t squads = first_threads_.size();
  for (size_t s = 0; forked() && s < squads; ++s) {
    if (s != squad_ && place.reads[element * squads + s] > clocks_[squad_][s]) return s;
  }
  return std::nullopt;
}

template <class Codec>
size_t Memory::LoadBuffer(Place& place, const Access& a, const Codec& codec, Value* out) {
  const std::byte* const data = place.data;
  const int64_t elements = place.elements;
  BufferShadow* const shadows = place.buffer_shadows.data();
  const bool is_stored = !place.buffer_shadows.empty();
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) {
      out[k].i = 0;  // which is 0.0, too
      continue;
    }
    if (!Inside(a.Element(k), elements)) return k;
    const auto element = static_cast<size_t>(a.Element(k));
    if (is_stored) {
      BufferShadow& shadow = shadows[element];
      const int64_t me = LaunchId(a.first + k);
      if (shadow.writer != kNobody && shadow.writer != me) return k;
      shadow.reader = shadow.reader == kNobody || shadow.reader == me ? me : kSeveral;
    }
    out[k] = codec.Get(data, element);
  }
  return a.n;
}

template <class Codec>
size_t Memory::StoreBuffer(Place& place, const Access& a, const Codec& codec, const Value* values) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    if (!Inside(a.Element(k), place.elements)) return k;
    const auto element = static_cast<size_t>(a.Element(k));
    BufferShadow& shadow = place.buffer_shadows[element];
    const int64_t me = LaunchId(a.first + k);
    if (shadow.writer != kNobody && shadow.writer != me) return k;
    if (shadow.reader != kNobody && shadow.reader != me) return k;
    shadow.writer = me;
    codec.Set(place.data, element, values[k]);
  }
  return a.n;
}

size_t Memory::LoadShared(Place& place, const Access& a, Value* out) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) {
      out[k].i = 0;
      continue;
    }
    if (!Inside(a.Element(k), place.elements)) return k;
    const auto element = static_cast<size_t>(a.Element(k));
    SharedShadow& shadow = place.shared_shadows[element];
    const int64_t me = LaunchId(a.first + k);
    if (shadow.on_its_way) return k;
    if (!Stored(shadow) || (shadow.writer != me && IsFresh(shadow)) || !HasWaited(shadow)) return k;
    out[k] = place.values[element];
    if (forked()) {
      NoteRead(place, element);
      continue;
    }
    if (shadow.read != epoch_) shadow.reader = kNobody;
    shadow.reader = shadow.reader == kNobody || shadow.reader == me ? me : kSeveral;
    shadow.read = epoch_;
  }
  return a.n;
}

size_t Memory::StoreShared(Place& place, const Access& a, const Value* values) {
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    if (!Inside(a.Element(k), place.elements)) return k;
    const auto element = static_cast<size_t>(a.Element(k));
    SharedShadow& shadow = place.shared_shadows[element];
    const int64_t me = LaunchId(a.first + k);
    if (shadow.on_its_way || shadow.matrix_reads > 0) return k;
    const bool waits_for_readers = forked() && shadow.writer == kCopy;
    if (shadow.written == epoch_ && shadow.writer != me && !waits_for_readers) return k;
    if (shadow.read == epoch_ && shadow.reader != me) return k;
    if (MaybeReader(place, element)) return k;
    shadow.writer = me;
    shadow.written = epoch_;
    shadow.fences = fences_;
    place.values[element] = values[k];
  }
  return a.n;
}

void Memory::Send(const Access& a, std::vector<Copied>& copies) {
  Place& place = places_[a.array];
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    const auto element = static_cast<size_t>(a.Element(k));
    SharedShadow& shadow = place.shared_shadows[element];
    shadow.on_its_way = true;
    shadow.sent = ++sent_;
    shadow.landed = 0;
    copies.push_back({a.array, element, sent_});
  }
}

void Memory::Land(const std::vector<Copied>& copies) {
  for (const Copied& c : copies) {
    SharedShadow& shadow = places_[c.array].shared_shadows[c.element];
    shadow.on_its_way = false;
    shadow.written = epoch_;
    shadow.fences = fences_;
  }
}

void Memory::LandForSquad(const std::vector<Copied>& copies) {
  for (const Copied& c : copies) {
    Place& place = places_[c.array];
    SharedShadow& shadow = place.shared_shadows[c.element];
    if (shadow.sent != c.sent || (shadow.landed >> squad_ & 1) != 0) continue;
    // Who fills it again comes behind those that have waited for it, too.
    if (forked()) NoteRead(place, c.element);
    shadow.landed |= 1U << squad_;
    if (!shadow.on_its_way) continue;
    shadow.on_its_way = false;
    shadow.writer = kCopy;
    shadow.written = epoch_;
    shadow.fences = 0;
  }
}

std::optional<std::string> Memory::MaybeChangeSums(uint32_t array, size_t first, size_t n) {
  Place& place = places_[array];
  if (!SumsOf(place).begun) return "changes an accumulator without an MMA_BEGIN";
  for (int64_t e = 0; e < place.elements; ++e) {
    const auto row = place.stored.begin() + e * threads_ + static_cast<std::ptrdiff_t>(first);
    if (std::find(row, row + static_cast<std::ptrdiff_t>(n), uint8_t{0}) !=
        row + static_cast<std::ptrdiff_t>(n))
      return "adds to an accumulator that was not stored";
  }
  ++SumsOf(place).changing;
  return std::nullopt;
}

std::optional<std::string> Memory::MaybeRead(Copied at, Value* out) {
  Place& place = places_[at.array];
  const std::string what = Cat("reads element ", at.element, " of a shared array");
  if (!Inside(static_cast<int64_t>(at.element), place.elements))
    return Cat(what, " of ", place.elements);
  SharedShadow& shadow = place.shared_shadows[at.element];
  if (shadow.on_its_way) return what + ", to which a copy is on its way";
  if (!Stored(shadow)) return what + ", which no thread has stored";
  if (IsFresh(shadow)) return what + ", which was stored since the last barrier: a race";
  if (!HasWaited(shadow)) return what + ", which a copy has filled that it has not waited for";
  if (shadow.fences >= fences_at_barrier_)
    return what + ", which was stored without a SHARED_FENCE before the last barrier";
  ++shadow.matrix_reads;
  *out = place.values[at.element];
  return std::nullopt;
}

void Memory::EndRead(Copied at) {
  Place& place = places_[at.array];
  SharedShadow& shadow = place.shared_shadows[at.element];
  --shadow.matrix_reads;
  if (forked()) return NoteRead(place, at.element);
  shadow.reader = kSeveral;
  shadow.read = epoch_;
}

size_t Memory::LoadPrivate(Place& place, const Access& a, Value* out) {
  if (SumsOf(place).changing > 0) return 0;
  const auto row = static_cast<size_t>(threads_);
  if (IsUniform(a)) {
    if (!Inside(a.Element(0), place.elements)) return 0;
    const size_t at = static_cast<size_t>(a.Element(0)) * row + a.first;
    const auto stored = place.stored.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = stored + static_cast<std::ptrdiff_t>(a.n);
    const auto missing = static_cast<size_t>(std::find(stored, end, uint8_t{0}) - stored);
    std::copy_n(&place.values[at], missing, out);
    return missing;
  }
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) {
      out[k].i = 0;
      continue;
    }
    if (!Inside(a.Element(k), place.elements)) return k;
    const size_t at = static_cast<size_t>(a.Element(k)) * row + a.first + k;
    if (place.stored[at] == 0) return k;
    out[k] = place.values[at];
  }
  return a.n;
}

size_t Memory::StorePrivate(Place& place, const Access& a, const Value* values) {
  if (SumsOf(place).changing > 0) return 0;
  SumsOf(place).begun = false;
  const auto row = static_cast<size_t>(threads_);
  if (IsUniform(a)) {
    if (!Inside(a.Element(0), place.elements)) return 0;
    const size_t at = static_cast<size_t>(a.Element(0)) * row + a.first;
    std::copy_n(values, a.n, &place.values[at]);
    std::fill_n(&place.stored[at], a.n, uint8_t{1});
    return a.n;
  }
  for (size_t k = 0; k < a.n; ++k) {
    if (!a.Passes(k)) continue;
    if (!Inside(a.Element(k), place.elements)) return k;
    const size_t at = static_cast<size_t>(a.Element(k)) * row + a.first + k;
    place.values[at] = values[k];
    place.stored[at] = 1;
  }
  return a.n;
}

std::optional<Fault> Memory::MaybeLoad(const Access& access, Value* out) {
  Place& place = places_[access.array];
  const size_t done = place.space == AddrSpace::LOCAL ? LoadShared(place, access, out)
                      : place.space == AddrSpace::REG ? LoadPrivate(place, access, out)
                                                      : WithCodec(place.dtype, [&](const auto& c) {
                                                          return LoadBuffer(place, access, c, out);
                                                        });
  if (done == access.n) return std::nullopt;
  return Fault{access.first + done, LoadFault(place, access.Element(done))};
}

std::optional<Fault> Memory::MaybeStore(const Access& access, const Value* values) {
  Place& place = places_[access.array];
  const size_t done = place.space == AddrSpace::LOCAL ? StoreShared(place, access, values)
                      : place.space == AddrSpace::REG
                          ? StorePrivate(place, access, values)
                          : WithCodec(place.dtype, [&](const auto& c) {
                              return StoreBuffer(place, access, c, values);
                            });
  if (done == access.n) return std::nullopt;
  return Fault{access.first + done, StoreFault(place, access.Element(done), access.first + done)};
}

std::string Memory::WhoIs(int64_t launch_id) const {
  return Cat("thread ", launch_id % threads_, " of block ", launch_id / threads_);
}

std::string Memory::LoadFault(const Place& place, int64_t element) const {
  std::string out = Cat("loads element ", element);
  if (!Inside(element, place.elements)) return Cat(out, " of ", place.elements);
  const auto at = static_cast<size_t>(element);
  if (place.sums[squad_].changing > 0)
    return out + " of an accumulator that a GROUP_MMA may still change";
  if (place.space == AddrSpace::REG) return out + " of an array, which it has not stored";
  if (place.space == AddrSpace::LOCAL && place.shared_shadows[at].on_its_way)
    return out + " of a shared array, to which a copy is on its way";
  if (place.space == AddrSpace::LOCAL && !Stored(place.shared_shadows[at]))
    return out + " of a shared array, which no thread has stored";
  if (place.space == AddrSpace::LOCAL && !HasWaited(place.shared_shadows[at]))
    return out + " of a shared array, which a copy has filled that it has not waited for";
  const int64_t writer = place.space == AddrSpace::LOCAL ? place.shared_shadows[at].writer
                                                         : place.buffer_shadows[at].writer;
  return Cat(out, ", which ", WhoIs(writer), " stores: a race");
}

std::string Memory::StoreFault(const Place& place, int64_t element, size_t thread) const {
  std::string out = Cat("stores element ", element);
  if (!Inside(element, place.elements)) return Cat(out, " of ", place.elements);
  if (place.sums[squad_].changing > 0)
    return out + " of an accumulator that a GROUP_MMA may still change";
  const auto at = static_cast<size_t>(element);
  int64_t writer = kNobody, reader = kNobody;
  if (place.space == AddrSpace::LOCAL) {
    const SharedShadow& shadow = place.shared_shadows[at];
    if (shadow.on_its_way) return out + ", to which a copy is on its way";
    if (shadow.matrix_reads > 0) return out + ", which a GROUP_MMA may still read";
    if (const auto reader = MaybeReader(place, at))
      return Cat(out, ", which the threads from ", first_threads_[*reader],
                 " on have read, and nobody has waited for them: a race");
    if (shadow.written == epoch_) writer = shadow.writer;
    if (shadow.read == epoch_) reader = shadow.reader;
  } else {
    writer = place.buffer_shadows[at].writer;
    reader = place.buffer_shadows[at].reader;
  }
  // A thread that both stored and loaded it is told of by its store.
  if (reader == kSeveral && writer == kNobody) return out + ", which several threads load: a race";
  if (writer == kNobody) return Cat(out, ", which ", WhoIs(reader), " loads: a race");
  if (writer == kCopy) return out + ", which a copy has filled since the last barrier: a race";
  return Cat(out, ", which ", WhoIs(writer), " stores too: a race");
}

}  // namespace uopd::interp
