// SPDX-License-Identifier: MIT
#include "core/ir/tables/node_index.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/status.h"

namespace uopd::ir {
namespace {

// A thread always keeps a table of up to kKept entries. It keeps a larger one, of up to kMostKept
// entries, while contexts use at least an eighth of it: a large context has many walks, and each of
// them would have to make a table.
constexpr size_t kKept = size_t{1} << 18, kMostKept = size_t{1} << 23;

}  // namespace

struct NodeIndex::Table {
  std::vector<uint32_t> at;
  uint32_t next = 1;  // larger than every entry

  // The free tables of this thread. Walks nest, so there may be several.
  static std::vector<std::unique_ptr<Table>>& Free() {
    thread_local std::vector<std::unique_ptr<Table>> free;
    return free;
  }
};

NodeIndex::NodeIndex(size_t ids) {
  auto& free = Table::Free();
  if (free.empty()) free.push_back(std::make_unique<Table>());
  table_ = free.back().release();
  free.pop_back();
  base_ = table_->next;
  Grow(ids);
}

void NodeIndex::Grow(size_t ids) {
  UOPD_CHECK(ids < UINT32_MAX - 1);
  std::vector<uint32_t>& at = table_->at;
  if (at.size() < ids) at.resize(ids, 0);
  if (base_ > UINT32_MAX - 1 - static_cast<uint32_t>(ids)) {
    for (uint32_t& v : at) v = v >= base_ ? v - base_ + 1 : 0;
    base_ = 1;
  }
  at_ = at.data();
  ids_ = ids;
}

NodeIndex::~NodeIndex() {
  table_->next = base_ + used_;
  std::unique_ptr<Table> table(table_);
  const size_t size = table->at.size();
  if (size <= kKept || (size <= kMostKept && size / 8 <= ids_))
    Table::Free().push_back(std::move(table));
}

}  // namespace uopd::ir
