// SPDX-License-Identifier: MIT
#include "server/engine/compile/program_table.h"

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

size_t ProgramTable::size() const {
  MutexLock lock(mu_);
  return entries_.size();
}

}  // namespace uopd::engine
