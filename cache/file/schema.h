// SPDX-License-Identifier: MIT
// Version 4 of the cache file: the tables and every statement that touches them.
//
// A change of the layout needs a new user_version and a step from the version before (kMigrations).
// A file that is older than the oldest step is set aside. A file of a newer version is left as it
// is.
#pragma once
#include <cstdint>

namespace uopd::cache::schema {

inline constexpr char kFileName[] = "uopd-cache.sqlite";
inline constexpr char kFileNameOfVersion2[] = "uopd-cache-v2.sqlite";
inline constexpr int64_t kUserVersion = 4;
// The file of this version beside one of kFileName that a newer version wrote:
// "uopd-cache-v4.sqlite".
inline constexpr char kBesidePrefix[] = "uopd-cache-v", kBesideSuffix[] = ".sqlite";
inline constexpr int64_t kApplicationId = 0x756f7064;  // "uopd"

// The blobs come last, so that walking the other columns does not read their overflow pages.
// Triggers keep `usage` up to date, because several processes share the file, and each of them must
// see the totals without counting rows.
inline constexpr char kCreate[] = R"sql(
CREATE TABLE IF NOT EXISTS entry(
  id INTEGER PRIMARY KEY,
  address BLOB NOT NULL UNIQUE,
  store BLOB NOT NULL,
  size INTEGER NOT NULL,
  score INTEGER NOT NULL,
  cost_us INTEGER NOT NULL,
  created_us INTEGER NOT NULL,
  last_used_us INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  checksum BLOB NOT NULL,
  environment BLOB NOT NULL,
  semantic BLOB NOT NULL,
  value BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS entry_by_score ON entry(score);
CREATE INDEX IF NOT EXISTS entry_by_store ON entry(store, last_used_us);
CREATE TABLE IF NOT EXISTS pin(address BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS usage(
  store BLOB PRIMARY KEY, row_count INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entry BEGIN
  INSERT INTO usage VALUES(new.store, 1, new.size)
    ON CONFLICT(store) DO UPDATE SET row_count = row_count + 1, bytes = bytes + new.size;
END;
CREATE TRIGGER IF NOT EXISTS entry_removed AFTER DELETE ON entry BEGIN
  UPDATE usage SET row_count = row_count - 1, bytes = bytes - old.size WHERE store = old.store;
  DELETE FROM pin WHERE address = old.address;
END;
CREATE TRIGGER IF NOT EXISTS entry_resized AFTER UPDATE OF size ON entry BEGIN
  UPDATE usage SET bytes = bytes - old.size + new.size WHERE store = old.store;
END;
PRAGMA application_id = 1970237540;
PRAGMA user_version = 4;
)sql";
static_assert(kApplicationId == 1970237540 && kUserVersion == 4);

// The step that makes the version after `from`.
struct Migration {
  int64_t from;
  const char* sql;
};
inline constexpr Migration kMigrations[] = {
    // Leases and their tokens moved to a file of their own (lease_schema.h).
    {2, "DROP TABLE lease; DROP TABLE fence; PRAGMA user_version = 3"},
    // Pins, in a table of their own: a new column would lie behind the blobs. A pin ends with its
    // entry.
    {3, R"sql(
CREATE TABLE pin(address BLOB PRIMARY KEY) WITHOUT ROWID;
DROP TRIGGER entry_removed;
CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
  UPDATE usage SET row_count = row_count - 1, bytes = bytes - old.size WHERE store = old.store;
  DELETE FROM pin WHERE address = old.address;
END;
PRAGMA user_version = 4;
)sql"},
};

// For every connection. The file is not mapped, because a mapped file that shrinks ends the process
// (SIGBUS).
inline constexpr char kPragmas[] = "PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY";
// For connections that read a file which this process may write. They roll back the unfinished
// transaction of a process that was killed, and write nothing else.
inline constexpr char kReaderPragmas[] = "PRAGMA query_only=ON";
// For a writing connection. A rollback journal is used instead of a write-ahead log, because the
// index of the latter (-shm) must be mapped. A commit waits for the disk (2 ms on an SSD instead of
// 0.3 ms); all changes of a batch of the write queue share this wait. None of these statements
// takes the write lock.
inline constexpr char kWriterPragmas[] =
    "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=NORMAL; PRAGMA secure_delete=OFF;"
    "PRAGMA journal_size_limit=67108864";
// For a new file, before any other statement. Later it has no effect, but would wait for the write
// lock.
inline constexpr char kNewFilePragmas[] = "PRAGMA auto_vacuum=INCREMENTAL";
inline constexpr char kGetUserVersion[] = "PRAGMA user_version";
inline constexpr char kGetApplicationId[] = "PRAGMA application_id";
inline constexpr char kGetPageCount[] = "PRAGMA page_count";
inline constexpr char kGetPageSize[] = "PRAGMA page_size";
inline constexpr char kQuickCheck[] = "PRAGMA quick_check(1)";
inline constexpr char kCountTables[] =
    "SELECT count(*) FROM sqlite_schema WHERE name IN "
    "('entry','pin','usage','entry_added','entry_removed','entry_resized','entry_by_score',"
    "'entry_by_store')";
inline constexpr int64_t kTableCount = 8;
inline constexpr char kCountAnything[] = "SELECT count(*) FROM sqlite_schema";
inline constexpr char kReleasePages[] = "PRAGMA incremental_vacuum";

inline constexpr char kSelectEntry[] =
    "SELECT store, semantic, environment, value, checksum, cost_us, created_us, last_used_us, fence"
    " FROM entry WHERE address=?1";
inline constexpr char kHasEntry[] = "SELECT 1 FROM entry WHERE address=?1";
// ?13: the greatest fence that can be true (tokens.h). A greater one keeps nothing out.
inline constexpr char kUpsertEntry[] =
    "INSERT INTO entry(address, store, size, score, cost_us, created_us, last_used_us, fence,"
    " checksum, environment, semantic, value) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12)"
    " ON CONFLICT(address) DO UPDATE SET size=excluded.size, score=excluded.score,"
    " cost_us=excluded.cost_us, created_us=excluded.created_us, last_used_us=excluded.last_used_us,"
    " fence=excluded.fence, checksum=excluded.checksum, environment=excluded.environment,"
    " semantic=excluded.semantic, value=excluded.value"
    " WHERE excluded.fence >= entry.fence OR entry.fence > ?13";
// The checksum must match too, so that a row stays if another process has put it in the place of
// the bad one.
inline constexpr char kDeleteBadEntry[] = "DELETE FROM entry WHERE address=?1 AND checksum=?2";
inline constexpr char kTouchEntry[] =
    "UPDATE entry SET last_used_us=?2, score=?3 WHERE address=?1 AND last_used_us<?2";
inline constexpr char kSelectVictims[] =
    "SELECT id, store, size FROM entry WHERE address NOT IN (SELECT address FROM pin)"
    " ORDER BY score LIMIT 256";
inline constexpr char kCountPins[] = "SELECT count(*) FROM pin";
inline constexpr char kPin[] =
    "INSERT OR IGNORE INTO pin SELECT address FROM entry WHERE address=?1";
inline constexpr char kUnpin[] = "DELETE FROM pin WHERE address=?1";
inline constexpr char kPinnedBytes[] =
    "SELECT coalesce(sum(size), 0) FROM entry JOIN pin ON entry.address = pin.address";
inline constexpr char kDeleteByAddress[] = "DELETE FROM entry WHERE address=?1";
inline constexpr char kDeleteById[] = "DELETE FROM entry WHERE id=?1";
inline constexpr char kDeleteStore[] = "DELETE FROM entry WHERE store=?1";
inline constexpr char kDeleteAll[] = "DELETE FROM entry";

inline constexpr char kTotalBytes[] = "SELECT coalesce(sum(bytes), 0) FROM usage";
inline constexpr char kUsage[] = "SELECT store, row_count, bytes FROM usage ORDER BY store";
inline constexpr char kListEntries[] =
    "SELECT address, store, size, cost_us, created_us, last_used_us FROM entry WHERE store=?1"
    " ORDER BY last_used_us DESC LIMIT ?2";

// Pages of entries (cache/base/row/entries.h), a statement for each order. Parameters: 1 store, 2
// and 3 the least and the greatest address, 4 part of the environment, 5 last use before, 6 pinned
// only, 7 whether there is a page before, 8 and 9 value and address of its last entry, 10 limit.
#define UOPD_SELECT_PAGE(value)                                                            \
  "SELECT address, store, size, cost_us, created_us, last_used_us, checksum, environment," \
  " EXISTS(SELECT 1 FROM pin WHERE pin.address = entry.address) AS pinned FROM entry"      \
  " WHERE (length(?1) = 0 OR store = ?1) AND address BETWEEN ?2 AND ?3"                    \
  " AND (length(?4) = 0 OR instr(environment, ?4) > 0) AND last_used_us < ?5"              \
  " AND (?6 = 0 OR pinned) AND (?7 = 0 OR " value " < ?8 OR (" value                       \
  " = ?8 AND address > ?9))"                                                               \
  " ORDER BY " value " DESC, address LIMIT ?10"
inline constexpr char kPageByLastUsed[] = UOPD_SELECT_PAGE("last_used_us");
inline constexpr char kPageByBytes[] = UOPD_SELECT_PAGE("size");
inline constexpr char kPageByCost[] = UOPD_SELECT_PAGE("cost_us");
inline constexpr char kPageByCreated[] = UOPD_SELECT_PAGE("created_us");
// By address alone the index serves the order. A page costs what it shows and what its filter
// skips: parameter 2 is the last address of the page before, if that is greater.
inline constexpr char kPageByKey[] =
    "SELECT address, store, size, cost_us, created_us, last_used_us, checksum, environment,"
    " EXISTS(SELECT 1 FROM pin WHERE pin.address = entry.address) AS pinned FROM entry"
    " WHERE (length(?1) = 0 OR store = ?1) AND address BETWEEN ?2 AND ?3"
    " AND (length(?4) = 0 OR instr(environment, ?4) > 0) AND last_used_us < ?5"
    " AND (?6 = 0 OR pinned) AND (?7 = 0 OR (?8 = 0 AND address > ?9))"
    " ORDER BY address LIMIT ?10";
#undef UOPD_SELECT_PAGE

}  // namespace uopd::cache::schema
