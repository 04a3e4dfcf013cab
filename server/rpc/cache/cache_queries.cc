// SPDX-License-Identifier: MIT
// The operators' calls about the cache that have one message each way. The work is done by
// engine::CacheOperator.
#include <algorithm>

#include "absl/strings/escaping.h"
#include "server/engine/operate/entry_view.h"
#include "server/rpc/cache/cache_messages.h"
#include "server/rpc/call/unary.h"
#include "server/rpc/service.h"

namespace uopd::rpc {

using engine::CacheOperator;
using engine::RequestContext;

namespace {

constexpr uint32_t kUsualPage = 100;
constexpr auto kOnTaskPool = [] { return false; };  // these calls read the disk

uint64_t Count(int64_t v) { return static_cast<uint64_t>(std::max<int64_t>(v, 0)); }

absl::StatusOr<CacheOperator::Order::By> ToOrder(v1::CacheOrder order) {
  switch (order) {
    case v1::CACHE_ORDER_UNSPECIFIED:
    case v1::CACHE_ORDER_LAST_USED:
      return CacheOperator::Order::kLastUsed;
    case v1::CACHE_ORDER_BYTES:
      return CacheOperator::Order::kBytes;
    case v1::CACHE_ORDER_COST:
      return CacheOperator::Order::kCost;
    case v1::CACHE_ORDER_CREATED:
      return CacheOperator::Order::kCreated;
    case v1::CACHE_ORDER_KEY:
      return CacheOperator::Order::kKey;
    case v1::CACHE_ORDER_HITS:
      return CacheOperator::Order::kHits;
    case v1::CACHE_ORDER_SAVED:
      return CacheOperator::Order::kSaved;
    default:
      return absl::InvalidArgumentError("this daemon does not know the order");
  }
}

void ToWire(const engine::EntryView& view, v1::CacheEntry* out) {
  const cache::EntryInfo& info = view.info;
  out->set_key(info.address.Hex());
  out->set_store(Printable(info.store));
  out->set_bytes(Count(info.bytes));
  out->set_cost_us(Count(info.cost_us));
  out->set_created_unix_us(Count(info.created_us));
  out->set_used_unix_us(Count(info.last_used_us));
  out->set_pinned(info.pinned);
  out->set_hits(Count(view.uses.hits));
  out->set_saved_us(Count(view.uses.saved_us));
  out->set_title(Printable(view.title));
  out->set_seconds(view.seconds);
  out->set_environment(HashBytes(info.environment).Hex().substr(0, 8));
}

}  // namespace

cache::EntryFilter ToFilter(const v1::CacheFilter& filter) {
  cache::EntryFilter out{.store = filter.store(),
                         .key_prefix = filter.key_prefix(),
                         .environment = filter.environment(),
                         .pinned_only = filter.pinned_only()};
  if (filter.unused_s() > 0) {
    const int64_t limit = cache::WallClockUs() / 1'000'000;
    out.unused_since_us =
        (limit - static_cast<int64_t>(std::min<uint64_t>(filter.unused_s(), Count(limit)))) *
        1'000'000;
  }
  return out;
}

std::string Printable(std::string_view text, size_t most) {
  std::string out(text.substr(0, most));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

grpc::ServerUnaryReactor* Service::ListCacheEntries(grpc::CallbackServerContext* context,
                                                    const v1::ListCacheEntriesRequest* request,
                                                    v1::ListCacheEntriesResponse* response) {
  return Serve(engine_, {context, Method::kListCacheEntries, *request, *response, watch_},
               kOnTaskPool, [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(const auto order, ToOrder(request->order()));
                 const uint32_t size = request->page_size() > 0 ? request->page_size() : kUsualPage;
                 UOPD_ASSIGN(const CacheOperator::Page page,
                             engine_.operate().cache.List(call, ToFilter(request->filter()), order,
                                                          size, request->page_token()));
                 for (const auto& view : page.entries) ToWire(view, response->add_entries());
                 response->set_next_page_token(page.next);
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::GetCacheEntry(grpc::CallbackServerContext* context,
                                                 const v1::GetCacheEntryRequest* request,
                                                 v1::GetCacheEntryResponse* response) {
  return Serve(engine_, {context, Method::kGetCacheEntry, *request, *response, watch_}, kOnTaskPool,
               [=, this](RequestContext&) -> absl::Status {
                 UOPD_ASSIGN(const CacheOperator::Details found,
                             engine_.operate().cache.Get(request->key_prefix()));
                 ToWire(found.view, response->mutable_entry());
                 response->set_environment(Printable(found.row.environment, 64 << 10));
                 response->set_semantic_sha256(HashBytes(found.row.semantic).Hex());
                 response->set_semantic_bytes(found.row.semantic.size());
                 response->set_value_bytes(found.row.value.size());
                 response->set_fence(found.row.fence);
                 response->set_checksum(absl::BytesToHexString(found.row.checksum));
                 response->set_damaged(found.damaged);
                 response->set_used_here(found.used);
                 if (found.damaged) return absl::OkStatus();
                 const auto add = [&](const std::string& name, const std::string& text) {
                   v1::CacheFact* fact = response->add_facts();
                   fact->set_name(name);
                   fact->set_text(Printable(text));
                 };
                 for (const auto& [name, text] : engine::FactsOf(found.row)) add(name, text);
                 if (!found.facts.empty()) add("facts", found.facts);
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::VerifyCache(grpc::CallbackServerContext* context,
                                               const v1::VerifyCacheRequest* request,
                                               v1::VerifyCacheResponse* response) {
  return Serve(engine_, {context, Method::kVerifyCache, *request, *response, watch_}, kOnTaskPool,
               [=, this](RequestContext& call) -> absl::Status {
                 UOPD_ASSIGN(const CacheOperator::Verified found,
                             engine_.operate().cache.Verify(call, ToFilter(request->filter()),
                                                            request->run(), request->remove(),
                                                            request->page_token()));
                 response->set_checked(Count(found.checked));
                 response->set_removed(Count(found.removed));
                 response->set_next_page_token(found.next);
                 for (const CacheOperator::Verdict& verdict : found.verdicts) {
                   v1::CacheVerdict* out = response->add_verdicts();
                   out->set_key(verdict.address.Hex());
                   out->set_store(Printable(verdict.store));
                   out->set_outcome(Name(verdict.outcome));
                   out->set_detail(Printable(verdict.detail));
                 }
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::EvictCacheEntries(grpc::CallbackServerContext* context,
                                                     const v1::EvictCacheEntriesRequest* request,
                                                     v1::EvictCacheEntriesResponse* response) {
  return Serve(engine_, {context, Method::kEvictCacheEntries, *request, *response, watch_},
               kOnTaskPool, [=, this](RequestContext&) -> absl::Status {
                 UOPD_ASSIGN(const CacheOperator::Evicted gone,
                             engine_.operate().cache.Evict(
                                 ToFilter(request->filter()), request->with_pinned(),
                                 request->dry_run(), request->page_token()));
                 response->set_entries(Count(gone.entries));
                 response->set_bytes(Count(gone.bytes));
                 response->set_pinned(Count(gone.pinned));
                 response->set_next_page_token(gone.next);
                 return absl::OkStatus();
               });
}

grpc::ServerUnaryReactor* Service::PinCacheEntry(grpc::CallbackServerContext* context,
                                                 const v1::PinCacheEntryRequest* request,
                                                 v1::PinCacheEntryResponse* response) {
  return Serve(engine_, {context, Method::kPinCacheEntry, *request, *response, watch_}, kOnTaskPool,
               [=, this](RequestContext&) -> absl::Status {
                 UOPD_ASSIGN(const engine::EntryView view,
                             engine_.operate().cache.Pin(request->key_prefix(), !request->unpin()));
                 ToWire(view, response->mutable_entry());
                 return absl::OkStatus();
               });
}

}  // namespace uopd::rpc
