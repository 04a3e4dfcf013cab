// SPDX-License-Identifier: MIT
#include "cache/sqlite/database.h"

#include <sqlite3.h>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace uopd::cache::sqlite {
namespace {

// A file: URI, in which '?', '#' and '%' of the path are escaped.
std::string Uri(const std::string& path) {
  std::string out = "file:";
  for (char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      constexpr char kDigits[] = "0123456789abcdef";
      out += {'%', kDigits[static_cast<unsigned char>(c) >> 4], kDigits[c & 15]};
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& path,
                                                         const OpenOptions& options) {
  int flags = SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  if (options.read_only) {
    flags |= SQLITE_OPEN_READONLY;
  } else {
    flags |= SQLITE_OPEN_READWRITE | (options.create ? SQLITE_OPEN_CREATE : 0);
  }
  sqlite3* raw = nullptr;
  const int rc = sqlite3_open_v2(Uri(path).c_str(), &raw, flags, nullptr);
  if (raw == nullptr) return ErrorStatus(rc, "opening the file");
  std::unique_ptr<Database> db(
      new Database(raw, std::chrono::milliseconds(options.busy_timeout_ms)));
  if (rc != SQLITE_OK) return ErrorStatus(rc, sqlite3_errmsg(raw));
  sqlite3_busy_handler(
      raw, [](void* wait, int tries) { return static_cast<LockWait*>(wait)->Pause(tries) ? 1 : 0; },
      &db->lock_wait_);
  // A damaged or forged schema must not be able to run functions.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  return db;
}

Database::~Database() {
  prepared_.clear();
  sqlite3_close_v2(db_);
}

absl::Status Database::Execute(const char* sql) {
  if (sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return absl::OkStatus();
  return ErrorStatus(sqlite3_extended_errcode(db_), sqlite3_errmsg(db_));
}

absl::StatusOr<Statement*> Database::Prepared(const char* sql) {
  for (auto& [text, statement] : prepared_) {
    if (text == sql) return statement.get();
  }
  UOPD_ASSIGN(Statement statement, Statement::Prepare(db_, sql));
  prepared_.emplace_back(sql, std::make_unique<Statement>(std::move(statement)));
  return prepared_.back().second.get();
}

absl::StatusOr<int64_t> Database::QueryInt(const char* sql) {
  UOPD_ASSIGN(Statement * statement, Prepared(sql));
  Query query(*statement);
  UOPD_ASSIGN(const bool row, query.Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no row: ", sql));
  return query.Int(0);
}

absl::StatusOr<std::string> Database::QueryText(const char* sql) {
  UOPD_ASSIGN(Statement * statement, Prepared(sql));
  Query query(*statement);
  UOPD_ASSIGN(const bool row, query.Step());
  if (!row) return absl::NotFoundError(absl::StrCat("no row: ", sql));
  return std::string(query.Blob(0));
}

absl::Status Database::SetPragma(const char* name, int64_t value) {
  return Execute(absl::StrCat("PRAGMA ", name, "=", value).c_str());
}

int64_t Database::changes() const { return sqlite3_changes64(db_); }
bool Database::read_only() const { return sqlite3_db_readonly(db_, "main") != 0; }

}  // namespace uopd::cache::sqlite
