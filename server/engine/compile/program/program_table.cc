// SPDX-License-Identifier: MIT
#include "server/engine/compile/program/program_table.h"

#include <algorithm>

namespace uopd::engine {

std::shared_ptr<ProgramHandle> ProgramTable::Find(const ProgramKey& key) {
  MutexLock lock(mu_);
  auto it = index_.find(key);
  if (it == index_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, it->second);
  return it->second->second;
}

std::shared_ptr<ProgramHandle> ProgramTable::Insert(const ProgramKey& key,
                                                    std::shared_ptr<ProgramHandle> program) {
  std::list<Entry> dropped;  // destroyed after the lock is released, since this unloads kernels
  MutexLock lock(mu_);
  auto [it, added] = index_.try_emplace(key);
  if (!added) return it->second->second;
  entries_.emplace_front(key, program);
  it->second = entries_.begin();
  while (entries_.size() > max_programs_) {
    index_.erase(entries_.back().first);
    dropped.splice(dropped.begin(), entries_, std::prev(entries_.end()));
  }
  return program;
}

void ProgramTable::Remove(const ProgramKey& key, const std::shared_ptr<ProgramHandle>& program) {
  std::list<Entry> dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  const auto it = index_.find(key);
  if (it == index_.end() || it->second->second != program) return;
  dropped.splice(dropped.begin(), entries_, it->second);
  index_.erase(it);
}

void ProgramTable::RemoveOf(const DeviceState& device) {
  std::list<Entry> dropped;  // destroyed after the lock is released
  MutexLock lock(mu_);
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto entry = at++;
    const auto program = entry->second->Get();
    if (std::ranges::find(program->devices, &device) == program->devices.end()) continue;
    index_.erase(entry->first);
    dropped.splice(dropped.begin(), entries_, entry);
  }
}

size_t ProgramTable::size() const {
  MutexLock lock(mu_);
  return entries_.size();
}

}  // namespace uopd::engine
