// SPDX-License-Identifier: MIT
#include "server/engine/operate/cache_operator.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "core/base/bytes.h"
#include "core/base/telemetry/log.h"
#include "core/base/telemetry/metrics.h"
#include "core/base/text.h"
#include "server/engine/operate/entry_view.h"

namespace uopd::engine {
namespace {

constexpr int64_t kLookInto = 1 << 20;  // larger values are not read for their title
constexpr int64_t kEvictPage = 1000;
constexpr int64_t kVerifyPage = 256;
constexpr int64_t kVerifyBytes = int64_t{64} << 20;
constexpr std::chrono::seconds kVerifyTime{2};  // a proof that has begun is finished
constexpr int64_t kMaxLookups = 2000;           // of one page of ListByUse

// Tokens name the last entry of a page.
std::string TokenOf(int64_t value, const Digest& address) {
  std::string out;
  PutSigned(out, value);
  PutString(out, address.view());
  return out;
}

absl::StatusOr<std::optional<cache::EntryQuery::After>> ReadToken(std::string_view token) {
  if (token.empty()) return std::nullopt;
  ByteReader in(token);
  cache::EntryQuery::After out;
  std::string_view address;
  if (!in.Signed(out.value) || !in.String(address) || !in.done() || !out.address.FromBytes(address))
    return Invalid("the page token is none of this daemon");
  return out;
}

absl::StatusOr<cache::EntryQuery> QueryOf(const cache::EntryFilter& filter, cache::EntryOrder order,
                                          int64_t limit, std::string_view token) {
  if (!cache::RangeOf(filter.key_prefix)) {
    return Invalid(Cat("\"", filter.key_prefix,
                       "\" is not the beginning of a key: up to 64 hexadecimal digits"));
  }
  cache::EntryQuery query{.filter = filter, .order = order, .limit = limit};
  UOPD_ASSIGN(query.after, ReadToken(token));
  return query;
}

cache::EntryOrder StoredOrder(CacheOperator::Order::By order) {
  switch (order) {
    case CacheOperator::Order::kBytes:
      return cache::EntryOrder::kBytes;
    case CacheOperator::Order::kCost:
      return cache::EntryOrder::kCost;
    case CacheOperator::Order::kCreated:
      return cache::EntryOrder::kCreated;
    case CacheOperator::Order::kKey:
      return cache::EntryOrder::kKey;
    default:
      return cache::EntryOrder::kLastUsed;
  }
}

bool IsWinner(const std::string& store) {
  return store == "tuning" || store == cache::kUnprovenStore;
}

bool IsBad(CacheOperator::Verdict::Outcome outcome) {
  using Verdict = CacheOperator::Verdict;
  return outcome == Verdict::kDamaged || outcome == Verdict::kOtherKey ||
         outcome == Verdict::kUnreadable || outcome == Verdict::kWrongWinner;
}

}  // namespace

const char* Name(CacheOperator::Verdict::Outcome outcome) {
  using Verdict = CacheOperator::Verdict;
  switch (outcome) {
    case Verdict::kDamaged:
      return "damaged";
    case Verdict::kOtherKey:
      return "other_key";
    case Verdict::kUnreadable:
      return "unreadable";
    case Verdict::kWrongWinner:
      return "wrong_winner";
    case Verdict::kRightWinner:
      return "right_winner";
    case Verdict::kPromoted:
      return "promoted";
    case Verdict::kNotRun:
      return "not_run";
  }
  UOPD_CHECK(false);
}

absl::StatusOr<EntryView> CacheOperator::View(cache::EntryInfo info) {
  EntryView out{.info = std::move(info)};
  out.uses = store_.uses().Of(out.info.address);
  if (out.info.bytes > kLookInto) return out;
  UOPD_ASSIGN(const std::optional<cache::Row> row, store_.ReadRow(out.info.address));
  if (!row) return out;
  out.title = TitleOf(*row);
  if (const auto winner = WinnerOf(*row); winner.ok()) out.seconds = winner->seconds;
  return out;
}

absl::StatusOr<CacheOperator::Page> CacheOperator::List(const RequestContext& request,
                                                        const cache::EntryFilter& filter,
                                                        Order::By order, int64_t limit,
                                                        std::string_view token) {
  limit = std::clamp<int64_t>(limit, 1, kMaxPage);
  if (order == Order::kHits || order == Order::kSaved)
    return ListByUse(request, filter, order, limit, token);
  UOPD_ASSIGN(const cache::EntryQuery query, QueryOf(filter, StoredOrder(order), limit, token));
  UOPD_ASSIGN(std::vector<cache::EntryInfo> found, store_.Select(query));
  Page out;
  if (static_cast<int64_t>(found.size()) == limit)
    out.next = TokenOf(OrderValue(found.back(), query.order), found.back().address);
  for (cache::EntryInfo& info : found) {
    UOPD_TRY(request.Check());
    UOPD_ASSIGN(EntryView view, View(std::move(info)));
    out.entries.push_back(std::move(view));
  }
  return out;
}

absl::StatusOr<CacheOperator::Page> CacheOperator::ListByUse(const RequestContext& request,
                                                             const cache::EntryFilter& filter,
                                                             Order::By order, int64_t limit,
                                                             std::string_view token) {
  UOPD_ASSIGN(const cache::EntryQuery query, QueryOf(filter, cache::EntryOrder::kKey, 1, token));
  std::vector<std::pair<int64_t, Digest>>
      ranking;  // the negated value, so that the greatest is first
  for (const auto& [address, uses] : store_.uses().All())
    ranking.emplace_back(order == Order::kHits ? -uses.hits : -uses.saved_us, address);
  std::ranges::sort(ranking);
  auto next = ranking.begin();
  if (query.after)
    next = std::ranges::upper_bound(ranking, std::pair(-query.after->value, query.after->address));
  Page out;
  for (int64_t lookups = 0; next != ranking.end(); ++next, ++lookups) {
    if (static_cast<int64_t>(out.entries.size()) == limit || lookups == kMaxLookups) {
      const auto last = std::prev(next);
      out.next = TokenOf(-last->first, last->second);
      break;
    }
    UOPD_TRY(request.Check());
    cache::EntryQuery one{.filter = filter, .limit = 1};
    const std::string hex = next->second.Hex();
    if (!hex.starts_with(filter.key_prefix)) continue;
    one.filter.key_prefix = hex;
    UOPD_ASSIGN(std::vector<cache::EntryInfo> found, store_.Select(one));
    if (found.empty()) continue;
    UOPD_ASSIGN(EntryView view, View(std::move(found[0])));
    out.entries.push_back(std::move(view));
  }
  return out;
}

absl::StatusOr<cache::EntryInfo> CacheOperator::Only(const std::string& key_prefix) {
  if (key_prefix.empty()) return Invalid("a key is missing");
  UOPD_ASSIGN(const cache::EntryQuery query,
              QueryOf({.key_prefix = key_prefix}, cache::EntryOrder::kKey, 2, ""));
  UOPD_ASSIGN(std::vector<cache::EntryInfo> found, store_.Select(query));
  if (found.empty())
    return absl::NotFoundError(Cat("the cache has no key that begins with ", key_prefix));
  if (found.size() > 1) return Invalid(Cat("several keys begin with ", key_prefix));
  return std::move(found[0]);
}

absl::StatusOr<CacheOperator::Details> CacheOperator::Get(const std::string& key_prefix) {
  UOPD_ASSIGN(cache::EntryInfo info, Only(key_prefix));
  UOPD_ASSIGN(std::optional<cache::Row> row, store_.ReadRow(info.address));
  if (!row) return absl::NotFoundError(Cat("the entry ", info.address.Hex(), " is gone"));
  Details out;
  out.view.uses = store_.uses().Of(info.address);
  out.view.info = std::move(info);
  out.damaged = Checksum(*row) != row->checksum;
  if (!out.damaged) out.view.title = TitleOf(*row);
  const std::string& store = row->store == cache::kUnprovenStore ? "tuning" : row->store;
  Environments environments = MakeEnvironments();
  out.used = environments.Uses(store, row->environment);
  out.facts = environments.ChoiceFacts(row->environment);
  out.row = *std::move(row);
  return out;
}

absl::StatusOr<CacheOperator::Verified> CacheOperator::Verify(RequestContext& request,
                                                              const cache::EntryFilter& filter,
                                                              bool run, bool remove,
                                                              std::string_view token) {
  const auto begin = std::chrono::steady_clock::now();
  UOPD_ASSIGN(const cache::EntryQuery query,
              QueryOf(filter, cache::EntryOrder::kKey, kVerifyPage, token));
  UOPD_ASSIGN(const std::vector<cache::EntryInfo> found, store_.Select(query));
  std::optional<Environments> environments;  // made for the first winner: it opens devices
  Verified out;
  std::vector<Digest> bad;
  int64_t bytes = 0;
  for (const cache::EntryInfo& info : found) {
    UOPD_TRY(request.Check());
    UOPD_ASSIGN(const std::optional<cache::Row> row, store_.ReadRow(info.address));
    out.next = TokenOf(0, info.address);
    if (!row) continue;  // evicted meanwhile
    ++out.checked;
    std::optional<Verdict> verdict;
    const auto judge = [&](Verdict::Outcome outcome, std::string detail) {
      verdict = Verdict{info.address, row->store, outcome, std::move(detail)};
    };
    if (Checksum(*row) != row->checksum) {
      judge(Verdict::kDamaged, "the checksum of the row does not match");
    } else if (cache::KeyOf(*row).address() != info.address) {
      judge(Verdict::kOtherKey, "the row lies at the address of another key");
    } else if (const absl::Status winner =
                   IsWinner(row->store) ? WinnerOf(*row).status() : absl::OkStatus();
               !winner.ok()) {
      const bool is_later = absl::IsFailedPrecondition(winner);  // of a later version of the daemon
      judge(is_later ? Verdict::kNotRun : Verdict::kUnreadable, StatusText(winner));
    } else if (run && IsWinner(row->store)) {
      if (!environments) environments.emplace(MakeEnvironments());
      verdict = Run(request, *environments, *row, info.address);
    }
    if (verdict) {
      if (IsBad(verdict->outcome)) bad.push_back(info.address);
      out.verdicts.push_back(*std::move(verdict));
    }
    bytes += info.bytes;
    if (bytes >= kVerifyBytes || std::chrono::steady_clock::now() - begin >= kVerifyTime) break;
  }
  const bool all = static_cast<int64_t>(found.size()) < kVerifyPage &&
                   (found.empty() || out.next == TokenOf(0, found.back().address));
  if (all) out.next.clear();
  if (remove && !bad.empty()) {
    UOPD_ASSIGN(out.removed, store_.Remove(bad));
  }
  return out;
}

CacheOperator::Verdict CacheOperator::Run(RequestContext& request, Environments& environments,
                                          const cache::Row& row, const Digest& address) {
  Verdict out{.address = address, .store = row.store};
  const auto& place = environments.TuningOf(row.environment);
  if (!place) {
    out.outcome = Verdict::kNotRun;
    out.detail = "it is of another device, version or setting than this daemon has";
    return out;
  }
  const absl::StatusOr<TuningRecord> winner = WinnerOf(row);
  const auto proven =
      tuning_.Prove(row.semantic, *place->device, place->options, winner->opts, request.limits());
  const bool imported = row.store == cache::kUnprovenStore;
  if (!proven.ok()) {
    const bool wrong = IsWrongWinner(proven.status());
    out.outcome = wrong ? Verdict::kWrongWinner : Verdict::kNotRun;
    out.detail = StatusText(proven.status());
    if (wrong)
      UOPD_LOG(kWarn, "a winner of the cache is wrong", {"key", address.Hex()},
               {"status", proven.status()});
    if (wrong && imported) metrics::ImportedWinners({"refused"}).Increment();
    return out;
  }
  out.outcome = Verdict::kRightWinner;
  out.detail =
      Cat(Microseconds(proven->seconds), " here, ", Microseconds(winner->seconds),
          " when it was found, ", Microseconds(proven->heuristic_seconds), " without tuning");
  if (!imported) return out;
  metrics::ImportedWinners({"proven"}).Increment();
  const cache::Key key("tuning", row.semantic, row.environment);
  const cache::GetResult own = store_.Get(key);
  const auto known = own.hit() ? TuningRecord::Decode(own.entry.bytes) : absl::NotFoundError("");
  if (known.ok() && known->seconds <= proven->seconds) {
    out.detail += Cat("; the daemon's own takes ", Microseconds(known->seconds), " and stays");
  } else if (const absl::Status put =
                 store_.Replace(key, proven->Encode(), row.cost_us, own.entry.fence);
             put.ok()) {  // the daemon's own was put under a lease
    out.outcome = Verdict::kPromoted;
  } else {
    out.detail += Cat("; it cannot be kept: ", StatusText(put));
    return out;
  }
  store_.Remove({&address, 1}).IgnoreError();  // if it stays, it is proven again
  return out;
}

absl::StatusOr<CacheOperator::Evicted> CacheOperator::Evict(const cache::EntryFilter& filter,
                                                            bool with_pinned, bool dry_run,
                                                            std::string_view token) {
  UOPD_ASSIGN(const cache::EntryQuery query,
              QueryOf(filter, cache::EntryOrder::kKey, kEvictPage, token));
  UOPD_ASSIGN(const std::vector<cache::EntryInfo> found, store_.Select(query));
  Evicted out;
  std::vector<Digest> victims;
  for (const cache::EntryInfo& info : found) {
    if (info.pinned && !with_pinned) {
      ++out.pinned;
      continue;
    }
    victims.push_back(info.address);
    ++out.entries;
    out.bytes += info.bytes;
  }
  if (static_cast<int64_t>(found.size()) == kEvictPage) out.next = TokenOf(0, found.back().address);
  if (!dry_run && !victims.empty()) {
    UOPD_ASSIGN(out.entries, store_.Remove(victims));
    UOPD_LOG(kInfo, "an operator evicted entries of the cache", {"entries", out.entries},
             {"bytes", out.bytes});
  }
  return out;
}

absl::StatusOr<EntryView> CacheOperator::Pin(const std::string& key_prefix, bool pinned) {
  UOPD_ASSIGN(cache::EntryInfo info, Only(key_prefix));
  const int64_t percent = pinned_percent_.load();
  const absl::Status status =
      store_.SetPinned(info.address, pinned, store_.max_bytes() / 100 * percent);
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(
        Cat("pinned entries may have ", percent, " % of cache.max_bytes (cache.pinned_percent)"));
  }
  UOPD_TRY(status);
  info.pinned = pinned;
  return View(std::move(info));
}

}  // namespace uopd::engine
