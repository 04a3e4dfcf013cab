// SPDX-License-Identifier: MIT
// A write transaction: rolled back unless committed.
//
// BEGIN IMMEDIATE takes the write lock at once. So only Begin waits for other processes, and no
// later statement can fail with "busy".
#pragma once
#include "absl/status/status.h"
#include "cache/sqlite/database.h"

namespace uopd::cache::sqlite {

class Transaction {
 public:
  explicit Transaction(Database& db) : db_(db) {}
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  absl::Status Begin();
  absl::Status Commit();

 private:
  Database& db_;
  bool open_ = false;
};

}  // namespace uopd::cache::sqlite
