// SPDX-License-Identifier: MIT
// Opens a cache file, migrates it to the present version, and checks that it is ours and not
// damaged.
#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "cache/file/cache_file.h"
#include "cache/file/schema.h"
#include "cache/sqlite/transaction.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

using sqlite::Database;

// Reads, and writes nothing: a newer version may want another journal.
absl::Status CheckNotNewer(Database& db) {
  UOPD_ASSIGN(const int64_t application, db.QueryInt(schema::kGetApplicationId));
  UOPD_ASSIGN(const int64_t version, db.QueryInt(schema::kGetUserVersion));
  if (application != schema::kApplicationId || version <= schema::kUserVersion)
    return absl::OkStatus();
  // Not FAILED_PRECONDITION: then the file would be set aside, but the newer uopd still needs it.
  return absl::UnimplementedError(absl::StrCat("A newer uopd wrote the file: it has version ",
                                               version, ", and this daemon reads up to ",
                                               schema::kUserVersion));
}

absl::Status CheckVersion(Database& db) {
  UOPD_TRY(CheckNotNewer(db));
  UOPD_ASSIGN(const int64_t application, db.QueryInt(schema::kGetApplicationId));
  UOPD_ASSIGN(const int64_t version, db.QueryInt(schema::kGetUserVersion));
  if (application != schema::kApplicationId || version != schema::kUserVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("The file has version ", version, " of application ", application, ", not ",
                     schema::kUserVersion, " of ", schema::kApplicationId));
  }
  UOPD_ASSIGN(const int64_t tables, db.QueryInt(schema::kCountTables));
  if (tables != schema::kTableCount) return absl::DataLossError("Tables of the cache are missing");
  return absl::OkStatus();
}

// Each step is one transaction. If two daemons migrate at the same time, the second one finds the
// step done. Returns the version that was found; 0 if there was nothing to do.
absl::StatusOr<int64_t> Migrate(Database& db) {
  UOPD_ASSIGN(const int64_t application, db.QueryInt(schema::kGetApplicationId));
  if (application != schema::kApplicationId) return 0;  // CheckVersion will refuse the file
  int64_t found = 0;
  for (const schema::Migration& step : schema::kMigrations) {
    UOPD_ASSIGN(const int64_t before, db.QueryInt(schema::kGetUserVersion));
    if (before != step.from) continue;
    sqlite::Transaction transaction(db);
    UOPD_TRY(transaction.Begin());
    UOPD_ASSIGN(const int64_t now, db.QueryInt(schema::kGetUserVersion));
    if (now == step.from) UOPD_TRY(db.Execute(step.sql));
    UOPD_TRY(transaction.Commit());
    if (found == 0) found = before;
  }
  return found;
}

absl::Status CheckWhole(Database& db, int64_t verify_bytes) {
  UOPD_ASSIGN(const int64_t pages, db.QueryInt(schema::kGetPageCount));
  UOPD_ASSIGN(const int64_t page_size, db.QueryInt(schema::kGetPageSize));
  if (pages * page_size > verify_bytes) return absl::OkStatus();  // checksums of rows must do
  UOPD_ASSIGN(const std::string verdict, db.QueryText(schema::kQuickCheck));
  if (verdict != "ok") return absl::DataLossError(absl::StrCat("The file is damaged: ", verdict));
  return absl::OkStatus();
}

absl::Status CreateIfEmpty(Database& db) {
  UOPD_ASSIGN(const int64_t objects, db.QueryInt(schema::kCountAnything));
  if (objects > 0) return absl::OkStatus();
  sqlite::Transaction transaction(db);
  UOPD_TRY(transaction.Begin());
  UOPD_TRY(db.Execute(schema::kCreate));
  return transaction.Commit();
}

}  // namespace

std::optional<FileId> Identify(const std::string& path) {
  struct stat info{};
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileId{info.st_dev, info.st_ino};
}

absl::StatusOr<std::unique_ptr<Database>> CacheFile::Connect(bool read_only) const {
  UOPD_ASSIGN(auto db,
              Database::Open(options_.path, {.read_only = read_only,
                                             .create = !read_only,
                                             .busy_timeout_ms = options_.busy_timeout_ms}));
  UOPD_TRY(db->Execute(schema::kPragmas));
  UOPD_TRY(db->SetPragma("cache_size", -options_.page_cache_kib));
  return db;
}

absl::StatusOr<std::shared_ptr<CacheFile>> CacheFile::Open(const FileOptions& options) {
  std::shared_ptr<CacheFile> file(new CacheFile(options));
  UOPD_TRY(file->Prepare());
  return file;
}

absl::Status CacheFile::Prepare() {
  read_only_ = options_.read_only;
  if (!read_only_) {
    auto prepare = [&]() -> absl::Status {
      UOPD_ASSIGN(auto db, Connect(/*read_only=*/false));
      if (db->read_only()) return absl::PermissionDeniedError("The file may only be read");
      if (options_.max_pages > 0) UOPD_TRY(db->SetPragma("max_page_count", options_.max_pages));
      UOPD_ASSIGN(const int64_t objects, db->QueryInt(schema::kCountAnything));
      if (objects == 0) UOPD_TRY(db->Execute(schema::kNewFilePragmas));
      UOPD_TRY(CheckNotNewer(*db));
      UOPD_TRY(db->Execute(schema::kWriterPragmas));
      UOPD_TRY(CreateIfEmpty(*db));
      UOPD_ASSIGN(migrated_from_, Migrate(*db));
      UOPD_TRY(CheckVersion(*db));
      UOPD_TRY(CheckWhole(*db, options_.verify_bytes));
      MutexLock lock(write_mu_);
      writer_ = std::move(db);
      return absl::OkStatus();
    };
    // Any of these steps may find that the file or the folder is not writable. Then the file may
    // still be readable.
    const absl::Status status = prepare();
    read_only_ = absl::IsPermissionDenied(status);
    if (!read_only_) UOPD_TRY(status);
  }
  if (read_only_) {
    auto check = [&]() -> absl::Status {
      UOPD_ASSIGN(auto db, Connect(/*read_only=*/true));
      UOPD_TRY(CheckVersion(*db));
      return CheckWhole(*db, options_.verify_bytes);
    };
    UOPD_TRY(check());
  }
  const auto id = Identify(options_.path);
  if (!id) return absl::NotFoundError("The cache file vanished while it was opened");
  id_ = *id;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Database>> CacheFile::TakeReader() {
  {
    MutexLock lock(readers_mu_);
    lock.Wait(reader_free_, [&]() UOPD_REQUIRES(readers_mu_) {
      return !readers_.empty() || reader_count_ < options_.max_readers;
    });
    if (!readers_.empty()) {
      auto db = std::move(readers_.back());
      readers_.pop_back();
      return db;
    }
    ++reader_count_;
  }
  auto db = Connect(read_only_);
  absl::Status status = db.status();
  if (status.ok() && !read_only_) status = (*db)->Execute(schema::kReaderPragmas);
  if (status.ok()) return db;
  GiveReader(nullptr, false);
  return status;
}

void CacheFile::GiveReader(std::unique_ptr<Database> db, bool healthy) {
  {
    MutexLock lock(readers_mu_);
    if (healthy) {
      readers_.push_back(std::move(db));
    } else {
      --reader_count_;
    }
  }
  reader_free_.notify_one();
}

}  // namespace uopd::cache
