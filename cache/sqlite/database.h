// SPDX-License-Identifier: MIT
// One SQLite connection and its prepared statements.
//
// A Database owns its connection. It is used by one thread at a time; callers that share one must
// lock around it. It never throws and never blocks longer than the busy timeout. The code of a
// failure tells the caller what to do:
//
//   UNAVAILABLE         another connection holds the lock: try again
//   DATA_LOSS           the file is damaged or is no database
//   RESOURCE_EXHAUSTED  no room left on the disk or under max_page_count
//   PERMISSION_DENIED   the file, or the connection, is read-only
//   NOT_FOUND           the file cannot be opened
//   INTERNAL            anything else: I/O errors, wrong SQL
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/sqlite/lock_wait.h"
#include "cache/sqlite/statement.h"

struct sqlite3;

namespace uopd::cache::sqlite {

struct OpenOptions {
  bool read_only = false;
  bool create = true;
  int busy_timeout_ms = 5000;  // how long a statement waits for the lock of another connection
};

class Database {
 public:
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& path,
                                                        const OpenOptions& options);
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // Runs statements that return nothing, e.g. a schema.
  absl::Status Execute(const char* sql);
  // Prepares `sql` once; later calls with the same pointer return the same statement. REQUIRES:
  // `sql` is a constant.
  absl::StatusOr<Statement*> Prepared(const char* sql);
  // Binds `args` to `sql`, a constant as above, and runs it for its effect.
  template <class... Args>
  absl::Status Run(const char* sql, const Args&... args) {
    absl::StatusOr<Statement*> statement = Prepared(sql);
    if (!statement.ok()) return statement.status();
    Query query(**statement);
    (query.Bind(args), ...);
    return query.Run();
  }
  // The first column of the first row, as an integer or as text.
  absl::StatusOr<int64_t> QueryInt(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);

  // Runs "PRAGMA name=value". A PRAGMA has no parameters that could be bound.
  absl::Status SetPragma(const char* name, int64_t value);

  int64_t changes() const;  // rows that the last statement changed
  bool read_only() const;   // also true if SQLite could open the file for reading only

 private:
  Database(sqlite3* db, std::chrono::milliseconds busy_limit) : db_(db), lock_wait_(busy_limit) {}

  sqlite3* db_;
  LockWait lock_wait_;
  std::vector<std::pair<const char*, std::unique_ptr<Statement>>> prepared_;
};

}  // namespace uopd::cache::sqlite
