// SPDX-License-Identifier: MIT
// SharedValues: kept values that sessions have in common, because they were made from the same
// constants by the same program.
//
// Their name is a digest of the program, of which slots are stable, and of the SHA-256s of the
// constants there. The values lie beside the constants (content/content_memory.h), under that name
// and with a tag that nobody knows: no client can open them. They are charged once in all, and to
// each session that uses them. A session that drops its kept values gives up its use.
//
// Thread-safe.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "server/engine/compile/program/program.h"
#include "server/engine/content/content_memory.h"
#include "server/engine/kept/stable_slots.h"

namespace uopd::engine {

// A value that a session uses.
struct SharedValue {
  std::shared_ptr<const ContentUse> use;
  Allocation allocation;  // of the session: the memory of the use
};

class SharedValues {
 public:
  // `memory` outlives this object.
  explicit SharedValues(ContentMemory& memory);

  // Nothing: a stable slot is no constant.
  static std::optional<Digest> NameOf(const ProgramKey& key, const std::vector<bool>& stable,
                                      std::span<const Contents> contents,
                                      const BufferStore& buffers);
  // All values of the name, of these sizes, charged to the quota of a session. Empty: they are not
  // there, or the session has no room for them.
  std::vector<SharedValue> Find(const Digest& name, DeviceState& device,
                                std::span<const int64_t> bytes, Quota& of_session);
  // Gives values of a session to others, too. Empty: there is no room, and nothing has changed.
  std::vector<SharedValue> Share(const Digest& name, std::span<const Allocation> values,
                                 Quota& of_session);

 private:
  // The names of value i.
  ContentHasher::Names NamesOf(const Digest& name, size_t i) const;

  ContentMemory& memory_;
  Digest secret_;
};

}  // namespace uopd::engine
