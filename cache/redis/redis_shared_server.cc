// SPDX-License-Identifier: MIT
#include "cache/redis/redis_shared_server.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <random>
#include <utility>

#include "absl/strings/escaping.h"
#include "cache/base/blobs.h"
#include "cache/base/lease/tokens.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Scripts are named by SHA-1 in Redis.
std::string Sha1Hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  UOPD_CHECK(EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) == 1);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest.data()), size});
}

// Redis counts in milliseconds; a lease of less would never be one.
int64_t Milliseconds(int64_t us) { return std::max<int64_t>(us / 1000, 1); }

bool ReadToken(const RespValue& value, int64_t& token) {
  const char* end = value.text.data() + value.text.size();
  const auto [stop, error] = std::from_chars(value.text.data(), end, token);
  return error == std::errc{} && stop == end && token > 0;
}

absl::Status Strange() {
  return absl::UnavailableError("The shared tier gave an answer of another kind than expected");
}

// Whether the number a of an entry of the stream ("milliseconds-count") is less than b.
bool IsBefore(std::string_view a, std::string_view b) {
  const auto parts = [](std::string_view number) {
    std::pair<uint64_t, uint64_t> out{0, 0};
    const size_t dash = std::min(number.find('-'), number.size());
    std::from_chars(number.data(), number.data() + dash, out.first);
    if (dash < number.size())
      std::from_chars(number.data() + dash + 1, number.data() + number.size(), out.second);
    return out;
  };
  return parts(a) < parts(b);
}

// The announcement of an entry of the stream; false: it is none.
bool ReadAnnouncement(const RespValue& fields, Announcement& out) {
  int found = 0;
  for (size_t i = 0; i + 1 < fields.values.size(); i += 2) {
    const std::string& name = fields.values[i].text;
    const std::string& value = fields.values[i + 1].text;
    if (name == "address") found += out.address.FromBytes(value) ? 1 : 0;
    if (name == "environment") found += out.environment.FromBytes(value) ? 1 : 0;
    if (name == "record") out.record = value;
    if (name == "store") {
      out.store = value;
      ++found;
    }
  }
  return found == 3;
}

}  // namespace

RedisSharedServer::RedisSharedServer(RedisSharedOptions options)
    : options_(std::move(options)),
      puts_(Cat(options_.prefix, "puts")),
      notices_(Cat(options_.prefix, "notices")),
      number_(Cat(std::random_device()(), "-", std::random_device()())),
      pool_(options_.pool) {}

RedisSharedServer::Script::Script(std::string_view of) : text(of), sha1(Sha1Hex(of)) {}

std::string RedisSharedServer::KeyOf(const Digest& address, std::string_view part) const {
  return Cat(options_.prefix, "{", address.Hex(), "}:", part);
}

absl::StatusOr<RespValue> RedisSharedServer::Run(const Words& words, Deadline deadline) {
  UOPD_ASSIGN(auto connection, pool_.Take(deadline));
  absl::StatusOr<RespValue> reply = connection->Run(words, deadline);
  if (!reply.ok()) {
    pool_.Clear();
    return reply;
  }
  // A server that became a replica stays one: the next connection asks the sentinels again.
  if (!IsError(*reply, "READONLY")) pool_.Give(std::move(connection));
  // The message may repeat what was sent, so its first word is enough.
  if (reply->kind == RespKind::kError && !IsError(*reply, "NOSCRIPT")) {
    return absl::UnavailableError(
        Cat("The shared tier refuses a command: ", reply->text.substr(0, reply->text.find(' '))));
  }
  return reply;
}

absl::StatusOr<RespValue> RedisSharedServer::RunScript(const Script& script,
                                                       const std::vector<std::string>& keys,
                                                       const std::vector<std::string_view>& args,
                                                       Deadline deadline) {
  const std::string count = Cat(keys.size());
  Words words = {"EVALSHA", script.sha1, count};
  words.insert(words.end(), keys.begin(), keys.end());
  words.insert(words.end(), args.begin(), args.end());
  UOPD_ASSIGN(RespValue reply, Run(words, deadline));
  if (!IsError(reply, "NOSCRIPT")) return reply;
  words[0] = "EVAL";
  words[1] = script.text;
  return Run(words, deadline);
}

absl::StatusOr<std::optional<std::string>> RedisSharedServer::Get(const Digest& address,
                                                                  Deadline deadline) {
  UOPD_ASSIGN(RespValue reply, Run({"HGET", KeyOf(address, "row"), "record"}, deadline));
  if (reply.kind == RespKind::kNull) return std::nullopt;
  if (reply.kind != RespKind::kText) return Strange();
  return std::move(reply.text);
}

absl::StatusOr<bool> RedisSharedServer::Has(const Digest& address, Deadline deadline) {
  UOPD_ASSIGN(const RespValue reply, Run({"EXISTS", KeyOf(address, "row")}, deadline));
  return reply.integer == 1;
}

absl::StatusOr<bool> RedisSharedServer::HasAll(std::span<const Digest> addresses,
                                               Deadline deadline) {
  if (addresses.empty()) return true;
  std::vector<std::string> keys;
  for (const Digest& address : addresses) keys.push_back(KeyOf(address, "row"));
  Words words = {"EXISTS"};
  words.insert(words.end(), keys.begin(), keys.end());
  UOPD_ASSIGN(const RespValue reply, Run(words, deadline));
  return reply.integer == static_cast<int64_t>(keys.size());
}

absl::StatusOr<bool> RedisSharedServer::Put(const Announcement& what, std::string_view record,
                                            int64_t fence, std::optional<Stream> stream,
                                            Deadline deadline) {
  UOPD_ASSIGN(const RespValue put,
              RunScript(put_, {KeyOf(what.address, "row")},
                        {Cat(fence), record, Cat(options_.record_ttl_ms)}, deadline));
  if (put.integer != 1) return false;
  if (!stream) return true;
  // Not in the script: the stream is one key for all addresses, which may lie on another server of
  // a Redis Cluster.
  const std::string most = Cat(options_.announcements);
  // The record is there even if nobody hears of it.
  Words words = {
      "XADD",    NameOf(*stream),     "MAXLEN", "~",        most,          "*",
      "address", what.address.view(), "store",  what.store, "environment", what.environment.view()};
  if (*stream == Stream::kNotices) words.insert(words.end(), {"record", record});
  Run(words, deadline).IgnoreError();
  return true;
}

absl::StatusOr<LeaseResult> RedisSharedServer::TryLease(const Digest& address,
                                                        std::string_view owner, int64_t ttl_us,
                                                        Deadline deadline) {
  UOPD_ASSIGN(RespValue reply,
              RunScript(try_lease_, {KeyOf(address, "lease"), KeyOf(address, "fence")},
                        {owner, Cat(Milliseconds(ttl_us))}, deadline));
  if (reply.values.size() != 2 || reply.values[1].kind != RespKind::kText) return Strange();
  LeaseResult out{.outcome = LeaseOutcome::kBusy};
  if (reply.values[0].integer != 1) {
    out.holder = std::move(reply.values[1].text);
    return out;
  }
  out.outcome = LeaseOutcome::kGranted;
  if (!ReadToken(reply.values[1], out.token)) return Strange();
  out.expires_us = WallClockUs() + ttl_us;
  return out;
}

absl::Status RedisSharedServer::Renew(const Digest& address, int64_t token, std::string_view owner,
                                      int64_t ttl_us, Deadline deadline) {
  UOPD_ASSIGN(const RespValue reply,
              RunScript(renew_, {KeyOf(address, "lease"), KeyOf(address, "fence")},
                        {Cat(token), Cat(Milliseconds(ttl_us)), owner}, deadline));
  return reply.integer == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status RedisSharedServer::Release(const Digest& address, int64_t token, Deadline deadline) {
  UOPD_ASSIGN(const RespValue reply,
              RunScript(release_, {KeyOf(address, "lease"), KeyOf(address, "fence")}, {Cat(token)},
                        deadline));
  return reply.integer == 1 ? absl::OkStatus() : LeaseLost();
}

absl::Status RedisSharedServer::CheckNewest(const Digest& address, int64_t token,
                                            Deadline deadline) {
  UOPD_ASSIGN(const RespValue reply, Run({"GET", KeyOf(address, "fence")}, deadline));
  int64_t newest = 0;
  // A server that lost its keys cannot tell; the fence of the record still decides which record
  // stays.
  if (reply.kind == RespKind::kNull) return absl::OkStatus();
  if (!ReadToken(reply, newest)) return Strange();
  if (!IsPlausibleToken(newest, WallClockUs())) return absl::OkStatus();  // nor can this one
  return newest == token ? absl::OkStatus() : LeaseLost();
}

absl::StatusOr<bool> RedisSharedServer::IsHeld(const Digest& address, Deadline deadline) {
  // A lease that never ends is none, as in kTryLeaseScript.
  constexpr int64_t kLongestMs = int64_t{3600} * 1000;
  UOPD_ASSIGN(const RespValue reply, Run({"PTTL", KeyOf(address, "lease")}, deadline));
  return reply.kind == RespKind::kInteger && reply.integer >= 0 && reply.integer <= kLongestMs;
}

absl::StatusOr<KeysAge> RedisSharedServer::AskKeysAge(Deadline deadline) {
  const std::string born = Cat(options_.prefix, "born");
  // The hash tag keeps the counts on the server that has `born`.
  const std::string daemons = Cat(options_.prefix, "{", born, "}:daemons:");
  UOPD_ASSIGN(const RespValue reply,
              RunScript(age_, {born, Cat(daemons, 0), Cat(daemons, 1)}, {number_}, deadline));
  KeysAge out;
  if (reply.values.size() != 3 || !ReadToken(reply.values[0], out.born_us)) return Strange();
  out.age_us = reply.values[1].integer;
  out.daemons = reply.values[2].integer;
  return out;
}

absl::StatusOr<std::vector<Announcement>> RedisSharedServer::Listen(Stream stream,
                                                                    std::string& cursor,
                                                                    Deadline deadline) {
  // The server looks ten times a second whose wait is over, so its answer may come after the
  // deadline. A deadline that is over already means that the question does not wait there.
  constexpr milliseconds kReserve{1000};
  const Deadline last = deadline + kReserve;
  const bool notices = stream == Stream::kNotices;
  // There is seldom a notice, so the end of their stream, which shows a new server too, is most
  // often all there is to ask.
  if (cursor.empty() || notices || check_cursor_) {
    UOPD_ASSIGN(const RespValue newest,
                Run({"XREVRANGE", NameOf(stream), "+", "-", "COUNT", "1"}, last));
    std::string end = "0-0";
    if (!newest.values.empty() && newest.values[0].values.size() == 2)
      end = newest.values[0].values[0].text;
    // A server that lost its stream begins a new one. Its clock may be behind, and then so are its
    // numbers; all that it has is new.
    if (cursor.empty())
      cursor = end;
    else if (IsBefore(end, cursor))
      cursor = "0-0";
    if (!notices) check_cursor_ = false;
    if (notices && cursor == end) return std::vector<Announcement>();
  }
  const absl::StatusOr<RespValue> answer =
      Read(NameOf(stream), cursor, notices ? steady_clock::now() : deadline, last);
  if (!answer.ok()) {
    if (!notices) check_cursor_ = true;
    return answer.status();
  }
  const RespValue& reply = *answer;
  std::vector<Announcement> out;
  if (reply.kind == RespKind::kNull) return out;
  // A map of one stream: its name, then its entries.
  if (reply.values.size() != 2) return Strange();
  for (const RespValue& entry : reply.values[1].values) {
    if (entry.values.size() != 2) return Strange();
    cursor = entry.values[0].text;
    Announcement one;
    if (ReadAnnouncement(entry.values[1], one)) out.push_back(std::move(one));
  }
  return out;
}

absl::StatusOr<RespValue> RedisSharedServer::Read(const std::string& stream,
                                                  const std::string& cursor, Deadline deadline,
                                                  Deadline last) {
  const auto left = duration_cast<milliseconds>(deadline - steady_clock::now());
  const std::string block_ms = Cat(left.count()), most = Cat(kMostAnnouncements);
  Words words = {"XREAD", "COUNT", most};
  if (left.count() > 0) words.insert(words.end(), {"BLOCK", block_ms});  // 0 would be for ever
  words.insert(words.end(), {"STREAMS", stream, cursor});
  return Run(words, last);
}

}  // namespace uopd::cache
