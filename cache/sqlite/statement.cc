// SPDX-License-Identifier: MIT
#include "cache/sqlite/statement.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace uopd::cache::sqlite {

absl::Status ErrorStatus(int code, std::string_view what) {
  const std::string message =
      absl::StrCat("SQLite says \"", sqlite3_errstr(code), "\" (", code, "): ", std::string(what));
  switch (code & 0xff) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
      return absl::OkStatus();
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_FORMAT:
      return absl::DataLossError(message);
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(message);
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(message);
    case SQLITE_CANTOPEN:
      return absl::NotFoundError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::StatusOr<Statement> Statement::Prepare(sqlite3* db, const char* sql) {
  sqlite3_stmt* stmt = nullptr;
  const int rc = sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &stmt, nullptr);
  if (rc != SQLITE_OK) return ErrorStatus(sqlite3_extended_errcode(db), sqlite3_errmsg(db));
  UOPD_CHECK(stmt != nullptr);  // only an empty string prepares to nothing
  return Statement(stmt);
}

Statement::~Statement() { sqlite3_finalize(stmt_); }

Query::~Query() {
  sqlite3_reset(stmt_);
  sqlite3_clear_bindings(stmt_);  // the bound bytes live only as long as the caller's scope
}

Query& Query::Bind(int64_t value) {
  if (int rc = sqlite3_bind_int64(stmt_, next_++, value); rc != SQLITE_OK) bind_error_ = rc;
  return *this;
}

Query& Query::Bind(std::string_view blob) {
  // A null pointer would bind NULL, and an empty view may hold one.
  const char* data = blob.data() == nullptr ? "" : blob.data();
  if (int rc = sqlite3_bind_blob64(stmt_, next_++, data, blob.size(), SQLITE_STATIC);
      rc != SQLITE_OK) {
    bind_error_ = rc;
  }
  return *this;
}

absl::StatusOr<bool> Query::Step() {
  if (bind_error_ != 0) return ErrorStatus(bind_error_, "binding a parameter");
  const int rc = sqlite3_step(stmt_);
  if (rc == SQLITE_ROW) return true;
  if (rc == SQLITE_DONE) return false;
  sqlite3* db = sqlite3_db_handle(stmt_);
  return ErrorStatus(sqlite3_extended_errcode(db), sqlite3_errmsg(db));
}

absl::Status Query::Run() {
  for (;;) {
    UOPD_ASSIGN(const bool row, Step());
    if (!row) return absl::OkStatus();
  }
}

int64_t Query::Int(int column) const { return sqlite3_column_int64(stmt_, column); }

std::string_view Query::Blob(int column) const {
  // The order of the two calls matters: the first may convert the value, the second returns the
  // size after the conversion.
  const auto* data = static_cast<const char*>(sqlite3_column_blob(stmt_, column));
  const int size = sqlite3_column_bytes(stmt_, column);
  return data == nullptr ? std::string_view() : std::string_view(data, static_cast<size_t>(size));
}

}  // namespace uopd::cache::sqlite
