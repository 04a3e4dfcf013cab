// SPDX-License-Identifier: MIT
// uopctl cache export, import, diff: entries of the cache in signed files.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <optional>

#include "client/cli/cache/bundle_file.h"
#include "client/cli/cache/cache_flags.h"
#include "client/cli/command.h"
#include "core/base/output_file.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

using nlohmann::json;
using ull = unsigned long long;

absl::Status Export(Globals& globals, const std::string& bundle, const S3Flags& s3,
                    const CacheFilterFlags& filter) {
  constexpr int kTries = 3;  // an entry may change while it is exported
  std::string path = bundle;
  std::unique_ptr<TemporaryFile> copy;
  std::optional<s3::S3Client> maybe_client;
  s3::ObjectName name;
  if (s3::IsS3Url(bundle)) {  // what is wrong with the names is said before the daemon works
    UOPD_ASSIGN(name, s3::ParseS3Url(bundle));
    UOPD_ASSIGN(maybe_client, OpenS3(s3));
    UOPD_ASSIGN(copy, TemporaryFile::Make());
    path = copy->path();
  }
  UOPD_ASSIGN(const auto session, globals.Connect());
  v1::ExportCacheRequest request;
  *request.mutable_filter() = ToWire(filter);
  for (int i = 1;; ++i) {
    UOPD_ASSIGN(OutputFile file, OutputFile::Create(path, {.mode = 0600, .durable = true}));
    const auto exported =
        session->ExportCache(request, [&](std::string_view bytes) { return file.Write(bytes); });
    if (absl::IsAborted(exported.status()) && i < kTries) continue;
    UOPD_TRY(exported.status());
    UOPD_TRY(file.Keep());
    if (maybe_client) UOPD_TRY(maybe_client->Put(name, path));
    if (globals.json) {
      globals.data = {{"file", bundle},
                      {"entries", exported->entries},
                      {"left_out", exported->left_out},
                      {"file_bytes", file.bytes()}};
    } else {
      std::printf("%llu entries, %s in %s\n", static_cast<ull>(exported->entries),
                  BytesText(file.bytes()).c_str(), bundle.c_str());
      if (exported->left_out > 0) {
        std::printf("%llu entries are too large for a bundle and were left out\n",
                    static_cast<ull>(exported->left_out));
      }
    }
    return absl::OkStatus();
  }
}

struct ImportFlags {
  std::string bundle;
  S3Flags s3;
  bool dry_run = false, run = false, quiet = false;
};

json RecordJson(const v1::ImportedRecord& record) {
  json out = {{"number", record.number()}, {"key", record.key()},    {"outcome", record.outcome()},
              {"reason", record.reason()}, {"kind", record.store()}, {"title", record.title()}};
  if (record.seconds() > 0) out["winner_seconds"] = record.seconds();
  return out;
}

absl::Status Import(Globals& globals, const ImportFlags& flags) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  std::map<std::string, uint64_t> outcomes, proofs;
  json records = json::array();
  v1::ImportCacheResponse head;
  absl::Status status = SendBundle(
      *session, flags.bundle, flags.s3, flags.dry_run, [&](const v1::ImportCacheResponse& answer) {
        if (head.entries() == 0 && answer.entries() > 0) head = answer;
        for (const v1::ImportedRecord& record : answer.records()) {
          ++outcomes[record.outcome()];
          if (globals.json) {
            records.push_back(RecordJson(record));
          } else if (!flags.quiet && record.outcome() != "present") {
            std::printf("%6llu %.12s %-9s %-17s %s%s\n", static_cast<ull>(record.number()),
                        record.key().c_str(), record.store().c_str(), record.outcome().c_str(),
                        record.title().c_str(), record.reason().c_str());
          }
        }
      });
  if (status.ok() && flags.run && !flags.dry_run) {
    status = ProveWinners(*session,
                          [&](const v1::CacheVerdict& verdict) { ++proofs[verdict.outcome()]; });
  }
  if (!status.ok() && outcomes.empty()) return status;
  // What was imported and run is said, whatever ended it.
  const bool refused = outcomes["refused"] + outcomes["not_kept"] > 0;
  std::erase_if(outcomes, [](const auto& one) { return one.second == 0; });
  if (globals.json) {
    json out = {{"entries", head.entries()},
                {"created_unix_seconds", 1e-6 * static_cast<double>(head.created_unix_us())},
                {"environments", json::array()},
                {"outcomes", outcomes},
                {"proofs", proofs},
                {"records", records}};
    for (const std::string& one : head.environments()) out["environments"].push_back(one);
    globals.data = out;
  } else {
    std::printf("%llu entries of a bundle that is %s old:", static_cast<ull>(head.entries()),
                AgeText(head.created_unix_us()).c_str());
    for (const auto& [outcome, count] : outcomes)
      std::printf(" %llu %s", static_cast<ull>(count), outcome.c_str());
    if (!proofs.empty()) std::printf("; winners that were run:");
    for (const auto& [outcome, count] : proofs)
      std::printf(" %llu %s", static_cast<ull>(count), outcome.c_str());
    std::printf("\n");
  }
  if (refused) {
    globals.bad = "records were refused or not kept";
  } else if (proofs.contains("wrong_winner")) {
    globals.bad = "winners were wrong, and were removed";
  }
  return status;
}

// One side of a comparison: by key.
struct SideItem {
  std::string kind, title;
  double seconds = 0;
};
using SideItems = std::map<std::string, SideItem>;

absl::StatusOr<SideItems> ItemsOf(client::Session& session, const std::string& bundle,
                                  const S3Flags& s3) {
  SideItems out;
  if (!bundle.empty()) {
    bool sound = true;
    UOPD_TRY(SendBundle(session, bundle, s3, true, [&](const v1::ImportCacheResponse& answer) {
      for (const v1::ImportedRecord& record : answer.records()) {
        sound = sound && record.outcome() != "refused";
        out[record.key()] = {record.store(), record.title(), record.seconds()};
      }
    }));
    if (!sound)
      return absl::DataLossError(Cat("the bundle ", bundle, " has records that are not sound"));
    return out;
  }
  for (const char* kind : {"graph", "schedule", "tuning", "kernel", "choice"}) {
    v1::ListCacheEntriesRequest request;
    request.mutable_filter()->set_store(kind);
    request.set_order(v1::CACHE_ORDER_KEY);
    request.set_page_size(500);
    do {
      UOPD_ASSIGN(const v1::ListCacheEntriesResponse page, session.ListCacheEntries(request));
      for (const v1::CacheEntry& entry : page.entries())
        out[entry.key()] = {entry.store(), entry.title(), entry.seconds()};
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
  }
  return out;
}

json OnlyIn(const SideItems& here, const SideItems& there) {
  json out = json::array();
  for (const auto& [key, item] : here) {
    if (!there.contains(key))
      out.push_back({{"key", key},
                     {"kind", item.kind},
                     {"title", item.title},
                     {"winner_seconds", item.seconds}});
  }
  return out;
}

absl::Status Diff(Globals& globals, const std::string& a, const std::string& b, const S3Flags& s3) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const SideItems left, ItemsOf(*session, a, s3));
  UOPD_ASSIGN(const SideItems right, ItemsOf(*session, b, s3));
  const json only_a = OnlyIn(left, right), only_b = OnlyIn(right, left);
  json winners = json::array();
  for (const auto& [key, x] : left) {
    const auto y = right.find(key);
    if (x.kind != "tuning" || y == right.end()) continue;
    if (x.title == y->second.title) continue;  // the same opts; each machine measures another time
    winners.push_back({{"key", key},
                       {"a", {{"opts", x.title}, {"winner_seconds", x.seconds}}},
                       {"b", {{"opts", y->second.title}, {"winner_seconds", y->second.seconds}}}});
  }
  if (globals.json) {
    globals.data = {{"only_a", only_a},
                    {"only_b", only_b},
                    {"winners", winners},
                    {"both", left.size() - only_a.size()}};
    return absl::OkStatus();
  }
  const auto print = [](const char* sign, const json& items) {
    for (const json& item : items) {
      std::printf("%s %.12s %-9s %s\n", sign, item["key"].get<std::string>().c_str(),
                  item["kind"].get<std::string>().c_str(),
                  item["title"].get<std::string>().c_str());
    }
  };
  print("<", only_a);
  print(">", only_b);
  for (const json& item : winners) {
    const auto side = [](const json& one) {
      return one["opts"].get<std::string>() + " " + TimeText(one["winner_seconds"].get<double>());
    };
    std::printf("! %.12s tuning    %s | %s\n", item["key"].get<std::string>().c_str(),
                side(item["a"]).c_str(), side(item["b"]).c_str());
  }
  std::printf("%zu only in %s, %zu only in %s, %zu in both; %zu winners differ\n", only_a.size(),
              a.c_str(), only_b.size(), b.empty() ? "the daemon" : b.c_str(),
              left.size() - only_a.size(), winners.size());
  return absl::OkStatus();
}

}  // namespace

void AddCacheBundles(CLI::App& cache, Globals& globals) {
  CLI::App* exports = cache.add_subcommand(
      "export", "write graphs, schedules, kernels and winners into a file that the daemon signs");
  auto path = std::make_shared<std::string>();
  auto filter = std::make_shared<CacheFilterFlags>();
  exports->add_option("file", *path, "the bundle to write: a file or s3://BUCKET/KEY")->required();
  AddCacheFilter(*exports, *filter);
  auto export_s3 = std::make_shared<S3Flags>();
  AddS3Flags(*exports, *export_s3);
  exports->callback([&globals, path, export_s3, filter] {
    globals.status = Export(globals, *path, *export_s3, *filter);
  });

  CLI::App* imports =
      cache.add_subcommand("import",
                           "take a signed bundle; winners in it are used after a run against the "
                           "reference. Exit status 1 if something is refused");
  auto flags = std::make_shared<ImportFlags>();
  imports->add_option("file", flags->bundle, "the bundle: a file or s3://BUCKET/KEY")->required();
  AddS3Flags(*imports, flags->s3);
  imports->add_flag("--dry-run", flags->dry_run, "check everything, keep nothing");
  imports->add_flag("--run", flags->run, "run the winners now, and remove those that are wrong");
  imports->add_flag("--quiet", flags->quiet, "no line for each record");
  imports->callback([&globals, flags] { globals.status = Import(globals, *flags); });

  CLI::App* diff = cache.add_subcommand(
      "diff", "what is in one bundle and not in another, and winners that differ");
  auto sides = std::make_shared<std::pair<std::string, std::string>>();
  diff->add_option("a", sides->first, "a bundle")->required();
  diff->add_option("b", sides->second, "a second bundle; absent: the daemon's cache");
  auto diff_s3 = std::make_shared<S3Flags>();
  AddS3Flags(*diff, *diff_s3);
  diff->callback([&globals, sides, diff_s3] {
    globals.status = Diff(globals, sides->first, sides->second, *diff_s3);
  });
}

}  // namespace uopd::cli
