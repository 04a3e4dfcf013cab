// SPDX-License-Identifier: MIT
#include "cache/sqlite/transaction.h"

#include "core/base/status.h"

namespace uopd::cache::sqlite {

Transaction::~Transaction() {
  // Some failures (a full disk) have rolled back already; then this one fails, and nothing is left
  // to undo.
  if (open_) db_.Execute("ROLLBACK").IgnoreError();
}

absl::Status Transaction::Begin() {
  UOPD_TRY(db_.Execute("BEGIN IMMEDIATE"));
  open_ = true;
  return absl::OkStatus();
}

absl::Status Transaction::Commit() {
  UOPD_TRY(db_.Execute("COMMIT"));
  open_ = false;
  return absl::OkStatus();
}

}  // namespace uopd::cache::sqlite
