// SPDX-License-Identifier: MIT
// Statement: a prepared statement. Query: one execution of it.
//
// A Statement belongs to its Database and lives as long. A Query borrows the Statement for one
// execution. It binds parameters, numbered from 1, and resets the Statement at the end of the
// scope, so that no read transaction outlives the scope. Bound bytes are not copied. REQUIRES: they
// outlive the Query.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace uopd::cache::sqlite {

// The status for an SQLite result code; the mapping is documented in database.h.
absl::Status ErrorStatus(int code, std::string_view what);

class Statement {
 public:
  static absl::StatusOr<Statement> Prepare(sqlite3* db, const char* sql);
  Statement(Statement&& other) noexcept : stmt_(other.stmt_) { other.stmt_ = nullptr; }
  Statement& operator=(Statement&&) = delete;
  ~Statement();

 private:
  friend class Query;
  explicit Statement(sqlite3_stmt* stmt) : stmt_(stmt) {}
  sqlite3_stmt* stmt_;
};

class Query {
 public:
  explicit Query(Statement& statement) : stmt_(statement.stmt_) {}
  ~Query();
  Query(const Query&) = delete;
  Query& operator=(const Query&) = delete;

  Query& Bind(int64_t value);
  Query& Bind(std::string_view blob);
  // True when there is a row to read. A failed Bind is reported here.
  absl::StatusOr<bool> Step();
  // Steps to the end, ignoring rows.
  absl::Status Run();

  int64_t Int(int column) const;
  std::string_view Blob(int column) const;  // valid until the next Step

 private:
  sqlite3_stmt* stmt_;
  int next_ = 1;
  int bind_error_ = 0;
};

}  // namespace uopd::cache::sqlite
