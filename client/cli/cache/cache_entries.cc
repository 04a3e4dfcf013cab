// SPDX-License-Identifier: MIT
// uopctl cache ls, top, show, verify, evict, pin, unpin: what operators do with single entries of
// the daemon's cache.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>

#include "client/cli/cache/cache_flags.h"
#include "client/cli/checks.h"
#include "client/cli/command.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;
using ull = unsigned long long;

constexpr uint32_t kLargestPage = 500;

struct ListFlags {
  CacheFilterFlags filter;
  v1::CacheOrder order = v1::CACHE_ORDER_UNSPECIFIED;
  uint64_t limit = 50;
};

const std::map<std::string, v1::CacheOrder> kOrders = {
    {"used", v1::CACHE_ORDER_LAST_USED}, {"bytes", v1::CACHE_ORDER_BYTES},
    {"cost", v1::CACHE_ORDER_COST},      {"created", v1::CACHE_ORDER_CREATED},
    {"key", v1::CACHE_ORDER_KEY},        {"hits", v1::CACHE_ORDER_HITS},
    {"saved", v1::CACHE_ORDER_SAVED}};

void PrintEntry(const v1::CacheEntry& entry) {
  std::printf("%-12.12s %-9s %9s %6llu %8s %8s %9s %9s  %s%s\n", entry.key().c_str(),
              entry.store().c_str(), BytesText(entry.bytes()).c_str(),
              static_cast<ull>(entry.hits()),
              TimeText(1e-6 * static_cast<double>(entry.cost_us())).c_str(),
              TimeText(1e-6 * static_cast<double>(entry.saved_us())).c_str(),
              AgeText(entry.used_unix_us()).c_str(), AgeText(entry.created_unix_us()).c_str(),
              entry.pinned() ? "[pinned] " : "", entry.title().c_str());
}

absl::Status List(Globals& globals, const ListFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::ListCacheEntriesRequest request;
  *request.mutable_filter() = ToWire(flags.filter);
  request.set_order(flags.order);
  json out = json::array();
  if (!globals.json) {
    std::printf("%-12s %-9s %9s %6s %8s %8s %9s %9s  %s\n", "key", "kind", "size", "hits", "cost",
                "saved", "used", "age", "what");
  }
  for (uint64_t left = flags.limit;;) {
    request.set_page_size(static_cast<uint32_t>(
        flags.limit == 0 ? kLargestPage : std::min<uint64_t>(left, kLargestPage)));
    UOPD_ASSIGN(const v1::ListCacheEntriesResponse page, session->ListCacheEntries(request));
    for (const v1::CacheEntry& entry : page.entries()) {
      if (globals.json) {
        out.push_back(ToJson(entry));
      } else {
        PrintEntry(entry);
      }
    }
    left -= std::min<uint64_t>(left, static_cast<uint64_t>(page.entries_size()));
    if (page.next_page_token().empty() || (flags.limit > 0 && left == 0)) break;
    request.set_page_token(page.next_page_token());
  }
  if (globals.json) globals.data = {{"entries", out}};
  return absl::OkStatus();
}

absl::Status Show(Globals& globals, const std::string& key) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::GetCacheEntryRequest request;
  request.set_key_prefix(key);
  UOPD_ASSIGN(const v1::GetCacheEntryResponse found, session->GetCacheEntry(request));
  if (globals.json) {
    json out = ToJson(found.entry());
    out["environment"] = found.environment();
    out["semantic_sha256"] = found.semantic_sha256();
    out["semantic_bytes"] = found.semantic_bytes();
    out["value_bytes"] = found.value_bytes();
    out["fence"] = found.fence();
    out["checksum"] = found.checksum();
    out["damaged"] = found.damaged();
    out["used_here"] = found.used_here();
    out["facts"] = json::object();
    for (const v1::CacheFact& fact : found.facts()) out["facts"][fact.name()] = fact.text();
    globals.data = out;
    return absl::OkStatus();
  }
  const v1::CacheEntry& entry = found.entry();
  const auto line = [](const char* name, const std::string& text) {
    std::printf("%-16s %s\n", name, text.c_str());
  };
  line("key", entry.key());
  line("kind", entry.store());
  line("what", entry.title());
  line("size", BytesText(entry.bytes()) + ": " + std::to_string(found.semantic_bytes()) +
                   " bytes of question, " + std::to_string(found.value_bytes()) + " of value");
  line("question", "sha256 " + found.semantic_sha256());
  line("cost", TimeText(1e-6 * static_cast<double>(entry.cost_us())));
  line("hits", std::to_string(entry.hits()) + " since the daemon started");
  line("age", AgeText(entry.created_unix_us()));
  line("last used", AgeText(entry.used_unix_us()) + " ago");
  line("pinned", entry.pinned() ? "yes" : "no");
  line("fence", std::to_string(found.fence()));
  line("checksum", found.checksum() + (found.damaged() ? " DOES NOT MATCH" : " matches"));
  line("used here", found.used_here() ? "yes" : "no: of another device, version or setting");
  for (const v1::CacheFact& fact : found.facts()) line(fact.name().c_str(), fact.text());
  std::printf("environment\n");
  std::string_view rest = found.environment();
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    if (end > 0) std::printf("  %.*s\n", static_cast<int>(end), rest.data());
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return absl::OkStatus();
}

struct VerifyFlags {
  CacheFilterFlags filter;
  bool run = false, remove = false;
};

bool IsGood(const v1::CacheVerdict& verdict) {
  return verdict.outcome() == "right_winner" || verdict.outcome() == "promoted" ||
         verdict.outcome() == "not_run";
}

absl::Status Verify(Globals& globals, const VerifyFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::VerifyCacheRequest request;
  *request.mutable_filter() = ToWire(flags.filter);
  request.set_run(flags.run);
  request.set_remove(flags.remove);
  uint64_t checked = 0, removed = 0, bad = 0;
  json verdicts = json::array();
  do {
    UOPD_ASSIGN(const v1::VerifyCacheResponse page, session->VerifyCache(request));
    checked += page.checked();
    removed += page.removed();
    for (const v1::CacheVerdict& verdict : page.verdicts()) {
      if (!IsGood(verdict)) ++bad;
      if (globals.json) {
        verdicts.push_back({{"key", verdict.key()},
                            {"kind", verdict.store()},
                            {"outcome", verdict.outcome()},
                            {"detail", verdict.detail()}});
      } else {
        std::printf("%.12s %-9s %-12s %s\n", verdict.key().c_str(), verdict.store().c_str(),
                    verdict.outcome().c_str(), verdict.detail().c_str());
      }
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (globals.json) {
    globals.data = {
        {"checked", checked}, {"bad", bad}, {"removed", removed}, {"verdicts", verdicts}};
  } else {
    std::printf("%llu checked, %llu bad, %llu removed\n", static_cast<ull>(checked),
                static_cast<ull>(bad), static_cast<ull>(removed));
  }
  if (bad > removed) globals.bad = Cat(bad - removed, " bad entries stay");
  return absl::OkStatus();
}

struct EvictFlags {
  CacheFilterFlags filter;
  bool all = false, with_pinned = false, dry_run = false;
};

absl::Status Evict(Globals& globals, const EvictFlags& flags) {
  if (flags.filter.empty() && !flags.all) {
    return absl::InvalidArgumentError(
        "choose entries by --kind, --key, --environment, --unused-hours or --pinned, or all of "
        "them by --all");
  }
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::EvictCacheEntriesRequest request;
  *request.mutable_filter() = ToWire(flags.filter);
  request.set_with_pinned(flags.with_pinned || flags.filter.pinned);
  request.set_dry_run(flags.dry_run);
  uint64_t entries = 0, bytes = 0, pinned = 0;
  do {
    UOPD_ASSIGN(const v1::EvictCacheEntriesResponse page, session->EvictCacheEntries(request));
    entries += page.entries();
    bytes += page.bytes();
    pinned += page.pinned();
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  if (globals.json) {
    globals.data = {{"entries", entries},
                    {"removed_bytes", bytes},
                    {"pinned", pinned},
                    {"dry_run", flags.dry_run}};
    return absl::OkStatus();
  }
  std::printf("%llu entries of %s %s%s\n", static_cast<ull>(entries), BytesText(bytes).c_str(),
              flags.dry_run ? "would be removed" : "removed",
              pinned > 0 ? (", " + std::to_string(pinned) + " pinned ones stay").c_str() : "");
  return absl::OkStatus();
}

absl::Status Pin(Globals& globals, const std::string& key, bool unpin) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::PinCacheEntryRequest request;
  request.set_key_prefix(key);
  request.set_unpin(unpin);
  UOPD_ASSIGN(const v1::PinCacheEntryResponse response, session->PinCacheEntry(request));
  if (globals.json) {
    globals.data = ToJson(response.entry());
  } else {
    PrintEntry(response.entry());
  }
  return absl::OkStatus();
}

void AddPin(CLI::App& cache, Globals& globals, bool unpin) {
  CLI::App* command = cache.add_subcommand(
      unpin ? "unpin" : "pin",
      unpin ? "let the cache remove an entry again" : "keep an entry when the cache makes room");
  auto key = std::make_shared<std::string>();
  command->add_option("key", *key, "the first digits of its key")->required()->check(HexDigits());
  command->callback([&globals, key, unpin] { globals.status = Pin(globals, *key, unpin); });
}

void AddList(CLI::App& cache, Globals& globals, const char* name, const char* help,
             v1::CacheOrder order, uint64_t limit) {
  CLI::App* command = cache.add_subcommand(name, help);
  auto flags = std::make_shared<ListFlags>();
  flags->order = order;
  flags->limit = limit;
  AddCacheFilter(*command, flags->filter);
  std::vector<std::string> orders;
  for (const auto& [order_name, wire] : kOrders) orders.push_back(order_name);
  command
      ->add_option_function<std::string>(
          "--by", [flags](const std::string& order_name) { flags->order = kOrders.at(order_name); },
          "what the order is by")
      ->check(OneOf(std::move(orders)));
  command->add_option("--limit", flags->limit, "entries to show; 0: all")
      ->capture_default_str()
      ->check(NumberIn(0, 1e9));
  command->callback([&globals, flags] { globals.status = List(globals, *flags); });
}

}  // namespace

void AddCacheEntries(CLI::App& cache, Globals& globals) {
  AddList(cache, globals, "ls", "entries, the last used ones first", v1::CACHE_ORDER_LAST_USED, 50);
  AddList(cache, globals, "top", "the entries that were found most since the daemon started",
          v1::CACHE_ORDER_HITS, 20);

  CLI::App* show = cache.add_subcommand("show", "everything about one entry");
  auto key = std::make_shared<std::string>();
  show->add_option("key", *key, "the first digits of its key")->required()->check(HexDigits());
  show->callback([&globals, key] { globals.status = Show(globals, *key); });

  CLI::App* verify = cache.add_subcommand(
      "verify", "check keys and checksums of entries; exit status 1 if something bad stays");
  auto checks = std::make_shared<VerifyFlags>();
  AddCacheFilter(*verify, checks->filter);
  verify->add_flag("--run", checks->run,
                   "also run winners of tuning against the kernel without opts, and use imported "
                   "ones that are right");
  verify->add_flag("--remove", checks->remove, "remove what is bad");
  verify->callback([&globals, checks] { globals.status = Verify(globals, *checks); });

  CLI::App* evict = cache.add_subcommand("evict", "remove entries");
  auto victims = std::make_shared<EvictFlags>();
  AddCacheFilter(*evict, victims->filter);
  evict->add_flag("--all", victims->all, "without any other choice: all entries");
  evict->add_flag("--with-pinned", victims->with_pinned, "pinned ones, too");
  evict->add_flag("--dry-run", victims->dry_run, "only count");
  evict->callback([&globals, victims] { globals.status = Evict(globals, *victims); });

  AddPin(cache, globals, false);
  AddPin(cache, globals, true);
}

}  // namespace uopd::cli
