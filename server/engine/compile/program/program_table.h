// SPDX-License-Identifier: MIT
// Prepared programs by graph and options. The least recently used are dropped first. Thread-safe.
#pragma once
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/mutex.h"
#include "server/engine/compile/program/program.h"

namespace uopd::engine {

class ProgramTable {
 public:
  explicit ProgramTable(size_t max_programs) : max_programs_(max_programs) {}

  // Null: not there.
  std::shared_ptr<ProgramHandle> Find(const ProgramKey& key) UOPD_EXCLUDES(mu_);
  // Returns the program that the table has from now on: the given one, or one that it had before.
  std::shared_ptr<ProgramHandle> Insert(const ProgramKey& key,
                                        std::shared_ptr<ProgramHandle> program) UOPD_EXCLUDES(mu_);
  // Drops `program`, unless the table has another one by now.
  void Remove(const ProgramKey& key, const std::shared_ptr<ProgramHandle>& program)
      UOPD_EXCLUDES(mu_);
  // Drops every program that uses the device.
  void RemoveOf(const DeviceState& device) UOPD_EXCLUDES(mu_);
  size_t size() const UOPD_EXCLUDES(mu_);

 private:
  using Entry = std::pair<ProgramKey, std::shared_ptr<ProgramHandle>>;

  const size_t max_programs_;
  mutable Mutex mu_;
  std::list<Entry> entries_ UOPD_GUARDED_BY(mu_);  // most recently used first
  absl::flat_hash_map<ProgramKey, std::list<Entry>::iterator> index_ UOPD_GUARDED_BY(mu_);
};

}  // namespace uopd::engine
