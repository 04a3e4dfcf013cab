// SPDX-License-Identifier: MIT
#include "server/engine/kept/shared_values.h"

#include <utility>

#include "core/base/text.h"
#include "server/engine/base/random_id.h"

namespace uopd::engine {
namespace {

absl::StatusOr<SharedValue> ValueOf(std::shared_ptr<const ContentUse> use, Quota& of_session) {
  SharedValue out;
  const auto bytes = static_cast<int64_t>(use->buffer()->size());
  UOPD_ASSIGN(out.allocation.charge,
              Charge::TakeHere(of_session, ChargedBytes(bytes), ByteClass::kKept));
  out.allocation.device = &use->device();
  out.allocation.buffer = use->buffer();
  out.use = std::move(use);
  return out;
}

}  // namespace

SharedValues::SharedValues(ContentMemory& memory) : memory_(memory) {
  const auto id = RandomId();
  UOPD_CHECK(id.ok());
  secret_ = HashBytes(*id);
}

std::optional<Digest> SharedValues::NameOf(const ProgramKey& key, const std::vector<bool>& stable,
                                           std::span<const Contents> contents,
                                           const BufferStore& buffers) {
  Hasher hasher;
  hasher.Update(Cat("kept values of ", key.digest.Hex(), " ", key.options.Text(), ":"));
  bool any = false;
  for (size_t i = 0; i < stable.size(); ++i) {
    if (!stable[i]) continue;
    if (i >= contents.size()) return std::nullopt;
    const auto sha256 = buffers.ConstantOf(contents[i].handle);
    if (!sha256) return std::nullopt;
    hasher.Update(Cat(" ", i, " ", sha256->Hex()));
    any = true;
  }
  if (!any) return std::nullopt;
  return hasher.Finish();
}

ContentHasher::Names SharedValues::NamesOf(const Digest& name, size_t i) const {
  const Digest sha256 = KeyedDigest(secret_.view(), Cat("name ", i, " of ", name.Hex()));
  return {.sha256 = sha256, .tag = KeyedDigest(secret_.view(), Cat("tag ", sha256.Hex()))};
}

std::vector<SharedValue> SharedValues::Find(const Digest& name, DeviceState& device,
                                            std::span<const int64_t> bytes, Quota& of_session) {
  std::vector<SharedValue> out;
  for (size_t i = 0; i < bytes.size(); ++i) {
    auto use = memory_.Find(NamesOf(name, i).sha256, device, ContentUse::kKept);
    if (use == nullptr || static_cast<int64_t>(use->buffer()->size()) != bytes[i]) return {};
    auto value = ValueOf(std::move(use), of_session);
    if (!value.ok()) return {};
    out.push_back(*std::move(value));
  }
  return out;
}

std::vector<SharedValue> SharedValues::Share(const Digest& name, std::span<const Allocation> values,
                                             Quota& of_session) {
  std::vector<SharedValue> out;
  for (size_t i = 0; i < values.size(); ++i) {
    auto use =
        memory_.Add(NamesOf(name, i), *values[i].device, values[i].buffer, ContentUse::kKept);
    if (!use.ok()) return {};
    auto value = ValueOf(*std::move(use), of_session);
    if (!value.ok()) return {};
    out.push_back(*std::move(value));
  }
  return out;
}

}  // namespace uopd::engine
