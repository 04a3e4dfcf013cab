// SPDX-License-Identifier: MIT
// Version 1 of the file of the leases: its tables and every statement that touches them.
//
// Nothing in the file is needed after its processes have ended, so a damaged file is deleted and
// made again. A change of the layout needs a new file name. The tables `life` and `shared` came
// later: a version that does not know them writes no rows there, and whether the owners of its
// leases are dead is not known.
#pragma once
#include <cstdint>

namespace uopd::cache::lease_schema {

inline constexpr char kFileName[] = "uopd-leases-v1.sqlite";
inline constexpr char kLifeName[] = "uopd-leases-v1.life";  // of the LifeLock

// A transaction survives the death of a process at any moment. Nothing waits for the disk, because
// no owner of a lease survives a loss of power.
inline constexpr char kPragmas[] =
    "PRAGMA mmap_size=0; PRAGMA temp_store=MEMORY; PRAGMA journal_mode=TRUNCATE;"
    "PRAGMA synchronous=OFF; PRAGMA secure_delete=OFF";
inline constexpr char kCreate[] = R"sql(
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS lease(
  address BLOB PRIMARY KEY, owner BLOB NOT NULL, token INTEGER NOT NULL,
  expires_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS lease_by_token ON lease(token);
CREATE TABLE IF NOT EXISTS life(token INTEGER PRIMARY KEY, mark BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS shared(
  address BLOB PRIMARY KEY, token INTEGER NOT NULL, mark BLOB NOT NULL,
  taken_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fence(id INTEGER PRIMARY KEY, last_token INTEGER NOT NULL);
INSERT OR IGNORE INTO fence VALUES(0, 0);
COMMIT;
)sql";

inline constexpr char kQuickCheck[] = "PRAGMA quick_check(1)";

inline constexpr char kSelectLease[] =
    "SELECT owner, token, expires_us, coalesce((SELECT mark FROM life WHERE "
    "life.token=lease.token),"
    " x'') FROM lease WHERE address=?1";
// Tokens always grow, even if the file is replaced, because they follow the clock and never step
// back.
inline constexpr char kNextToken[] =
    "UPDATE fence SET last_token=max(last_token + 1, ?1) WHERE id=0 RETURNING last_token";
inline constexpr char kTakeLease[] =
    "INSERT INTO lease VALUES(?1,?2,?3,?4) ON CONFLICT(address) DO UPDATE SET owner=excluded.owner,"
    " token=excluded.token, expires_us=excluded.expires_us";
// The mark of the process that has the lease (LifeLock).
inline constexpr char kPutLife[] = "INSERT OR REPLACE INTO life VALUES(?1,?2)";
inline constexpr char kExtendLease[] =
    "UPDATE lease SET expires_us=?3 WHERE address=?1 AND token=?2 AND expires_us>?4";
// The row stays, with its token, so that an older owner is still refused.
inline constexpr char kReleaseLease[] =
    "UPDATE lease SET expires_us=0, owner=x'' WHERE address=?1 AND token=?2";
inline constexpr char kForgetLeases[] = "DELETE FROM lease WHERE token<?1 AND expires_us<?1";
// After it.
inline constexpr char kForgetLives[] =
    "DELETE FROM life WHERE token<?1 AND NOT EXISTS(SELECT 1 FROM lease WHERE"
    " lease.token=life.token)";

// Leases that the server of a cluster granted (LeaseMarks). Rows of processes that died go after a
// day.
inline constexpr char kPutShared[] = "INSERT OR REPLACE INTO shared VALUES(?1,?2,?3,?4)";
inline constexpr char kForgetShared[] = "DELETE FROM shared WHERE taken_us<?1";
inline constexpr char kDropShared[] = "DELETE FROM shared WHERE address=?1 AND token=?2";
inline constexpr char kSelectShared[] = "SELECT token, mark FROM shared WHERE address=?1";

}  // namespace uopd::cache::lease_schema
