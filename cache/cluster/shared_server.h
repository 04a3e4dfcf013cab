// SPDX-License-Identifier: MIT
// SharedServer: a server that the daemons of a cluster share: records, leases and announcements.
//
// What it stores may be lost, old or foreign: callers check records (record.h), and fences decide
// which of two records of a key stays. Every call ends by its deadline, with DEADLINE_EXCEEDED or
// UNAVAILABLE where the server does not answer. Thread-safe. Leases: see cache/base/lease/leases.h;
// tokens are granted by the server's clock.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cache/base/lease/leases.h"
#include "cache/base/wait/wait.h"
#include "core/base/digest.h"

namespace uopd::cache {

// Where a record is announced.
enum class Stream {
  kPuts,     // what a daemon may have a use for
  kNotices,  // what every daemon takes, as a job that crashes workers; the announcement holds the
             // record
};

// A record was put: what daemons need to know whether they want it.
struct Announcement {
  Digest address;
  std::string store;
  Digest environment;  // of the environment key
  std::string record;  // of a notice
  bool operator==(const Announcement&) const = default;
};

struct KeysAge {
  int64_t born_us = 0;  // when the server got its keys, by its clock
  int64_t age_us = 0;   // how long ago that was
  int64_t daemons =
      0;  // about so many asked in this minute or in the one before; 0: the server does not know
};

class SharedServer {
 public:
  virtual ~SharedServer() = default;

  // Whether it grants leases and makes announcements. If not, TryLease to IsHeld and Listen must
  // not be called.
  virtual bool coordinates() const { return true; }

  // How many connections to the server were begun so far; 0: not known. A question that needs a new
  // one takes several times as long, and says nothing about the next.
  virtual int64_t connections() const { return 0; }

  // The bytes of the record; nullopt: there is none.
  virtual absl::StatusOr<std::optional<std::string>> Get(const Digest& address,
                                                         Deadline deadline) = 0;
  virtual absl::StatusOr<bool> Has(const Digest& address, Deadline deadline) = 0;
  // Whether all of the records are there.
  virtual absl::StatusOr<bool> HasAll(std::span<const Digest> addresses, Deadline deadline) {
    for (const Digest& address : addresses) {
      const absl::StatusOr<bool> has = Has(address, deadline);
      if (!has.ok() || !*has) return has;
    }
    return true;
  }
  // Stores the record, and announces it if `stream` says where. False: there is one with a greater
  // fence, which stays.
  virtual absl::StatusOr<bool> Put(const Announcement& what, std::string_view record, int64_t fence,
                                   std::optional<Stream> stream, Deadline deadline) = 0;

  // kGranted or kBusy.
  virtual absl::StatusOr<LeaseResult> TryLease(const Digest& address, std::string_view owner,
                                               int64_t ttl_us, Deadline deadline) = 0;
  // ABORTED: the lease has expired or was taken over. A server that lost its keys makes the lease
  // again, for `owner`.
  virtual absl::Status Renew(const Digest& address, int64_t token, std::string_view owner,
                             int64_t ttl_us, Deadline deadline) = 0;
  // ABORTED: the lease was taken over.
  virtual absl::Status Release(const Digest& address, int64_t token, Deadline deadline) = 0;
  // ABORTED: `token` is not the newest of the address.
  virtual absl::Status CheckNewest(const Digest& address, int64_t token, Deadline deadline) = 0;
  virtual absl::StatusOr<bool> IsHeld(const Digest& address, Deadline deadline) = 0;

  // A server that lost its keys (restarted, emptied, replaced) was born again: it knows nothing of
  // leases and records from before.
  virtual absl::StatusOr<KeysAge> AskKeysAge(Deadline deadline) = 0;

  // The announcements behind the place `cursor` of the stream, which moves on; at least one and at
  // most kMostAnnouncements, or none when the deadline comes or up to a second later. A question
  // for notices does not wait for one. An empty cursor is the end: what is announced from now on.
  // Announcements that the server dropped are missing.
  static constexpr size_t kMostAnnouncements = 256;
  virtual absl::StatusOr<std::vector<Announcement>> Listen(Stream stream, std::string& cursor,
                                                           Deadline deadline) = 0;
};

}  // namespace uopd::cache
