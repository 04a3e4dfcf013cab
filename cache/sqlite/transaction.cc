// SPDX-License-Identifier: MIT
#include "cache/sqlite/transaction.h"

#include "core/base/status.h"

namespace uopd::cache::sqlite {

Transaction::~Transaction() {
  // After some failures (a full disk) SQLite has rolled back already. Then ROLLBACK fails, and
  // nothing is left to undo.
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
