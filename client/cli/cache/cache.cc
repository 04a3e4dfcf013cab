// SPDX-License-Identifier: MIT
// uopctl cache stats, uopctl cache explain: what the daemon's cache holds, and why it does not have
// a certain graph. The other commands of `uopctl cache` are in cache_entries.cc, cache_bundles.cc
// and cache_warm.cc.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "client/cli/command.h"
#include "client/cpp/net/wire_call.h"
#include "client/data/files.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"

namespace uopd::cli {
namespace {

using nlohmann::json;

absl::Status CacheStats(Globals& globals) {
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::GetCacheStatsResponse stats, session->GetCacheStats());
  if (globals.json) {
    json out = {{"state", stats.state()},
                {"reason", stats.reason()},
                {"file_bytes", stats.file_bytes()},
                {"max_bytes", stats.max_bytes()},
                {"stores", json::array()}};
    for (const v1::StoreStats& s : stats.stores()) {
      out["stores"].push_back({{"store", s.store()},
                               {"rows", s.rows()},
                               {"size_bytes", s.bytes()},
                               {"hits", s.hits()},
                               {"misses", s.misses()},
                               {"corrupt", s.corrupt()},
                               {"key_mismatches", s.key_mismatches()},
                               {"puts", s.puts()},
                               {"evictions", s.evictions()}});
    }
    globals.data = out;
    return absl::OkStatus();
  }
  std::printf("state %s%s%s, %.1f of %.1f MiB\n", stats.state().c_str(),
              stats.reason().empty() ? "" : ": ", stats.reason().c_str(),
              static_cast<double>(stats.file_bytes()) / (1 << 20),
              static_cast<double>(stats.max_bytes()) / (1 << 20));
  std::printf("%-12s %8s %12s %8s %8s %8s %8s %8s\n", "store", "rows", "bytes", "hits", "misses",
              "corrupt", "puts", "evicted");
  for (const v1::StoreStats& s : stats.stores()) {
    std::printf(
        "%-12s %8llu %12llu %8llu %8llu %8llu %8llu %8llu\n", s.store().c_str(),
        static_cast<unsigned long long>(s.rows()), static_cast<unsigned long long>(s.bytes()),
        static_cast<unsigned long long>(s.hits()), static_cast<unsigned long long>(s.misses()),
        static_cast<unsigned long long>(s.corrupt()), static_cast<unsigned long long>(s.puts()),
        static_cast<unsigned long long>(s.evictions()));
  }
  return absl::OkStatus();
}

std::string Hex(const std::string& digest) {
  Digest out;
  return out.FromBytes(digest) ? out.Hex() : "";
}

// Reads a graph key from `text`: a digest in hexadecimal, or the name of a file in the textual
// form.
absl::Status ReadGraphKey(const std::string& text, v1::GraphKey* out) {
  const bool is_digest = text.size() == 64 && std::ranges::all_of(text, [](unsigned char c) {
                           return std::isxdigit(c) != 0;
                         });
  if (is_digest) {
    std::string digest;
    for (size_t i = 0; i < text.size(); i += 2)
      digest.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
    out->set_digest(digest);
    return absl::OkStatus();
  }
  UOPD_ASSIGN(const std::string file, client::ReadFile(text, client::kMostGraphBytes));
  ir::UOpContext ctx;
  std::vector<ir::UOp> lines;
  auto sink = ir::Parse(ctx, file, lines);
  if (!sink.ok()) return WithFrame(sink.status(), Cat("parsing ", text));
  if (absl::Status s = ir::Verify(ctx, *sink, ir::Level::kTensor); !s.ok())
    return WithFrame(ir::NumberedAs(s, ir::Toposort(ctx, *sink), lines), Cat("verifying ", text));
  out->set_graph(ir::Encode(ctx, *sink));
  return absl::OkStatus();
}

absl::Status Explain(Globals& globals, const std::string& a, const std::string& b) {
  v1::ExplainCacheRequest request;
  *request.mutable_options() = client::ToWire(globals.execution);
  UOPD_TRY(ReadGraphKey(a, request.mutable_a()));
  if (!b.empty()) UOPD_TRY(ReadGraphKey(b, request.mutable_b()));
  UOPD_ASSIGN(const auto session, globals.Connect());
  UOPD_ASSIGN(const v1::ExplainCacheResponse found, session->ExplainCache(request));
  if (globals.json) {
    json out = {{"a", Hex(found.digest_a())},
                {"cached", found.cached()},
                {"search_refused", found.search_refused()},
                {"b", Hex(found.digest_b())},
                {"similarity", found.similarity()},
                {"differences", json::array()}};
    for (const v1::KeyDifference& d : found.differences()) {
      out["differences"].push_back({{"path", d.path()},
                                    {"field", d.field()},
                                    {"a", d.a()},
                                    {"b", d.b()},
                                    {"node_a", d.node_a()},
                                    {"node_b", d.node_b()}});
    }
    globals.data = out;
    return absl::OkStatus();
  }
  std::printf("a  %s  %s\n", Hex(found.digest_a()).c_str(),
              found.cached() ? "cached" : "not cached");
  if (found.digest_b().empty()) {
    if (found.search_refused()) {
      std::printf("only operators of the daemon learn of the nearest entry: give a second graph\n");
    } else if (!found.cached()) {
      std::printf("nothing in the cache resembles it\n");
    }
    return absl::OkStatus();
  }
  std::printf("b  %s  %.0f %% alike\n", Hex(found.digest_b()).c_str(), 100 * found.similarity());
  if (found.differences().empty()) std::printf("the keys are equal\n");
  for (const v1::KeyDifference& d : found.differences()) {
    std::printf("%s: %s\n  a  %s\n  b  %s\n", d.path().c_str(), d.field().c_str(), d.a().c_str(),
                d.b().c_str());
  }
  return absl::OkStatus();
}

}  // namespace

void AddCache(CLI::App& app, Globals& globals) {
  CLI::App* cache = app.add_subcommand("cache", "the daemon's kernel cache");
  cache->require_subcommand(1);
  cache->add_subcommand("stats", "rows, bytes, hits and misses by store")->callback([&globals] {
    globals.status = CacheStats(globals);
  });
  AddCacheEntries(*cache, globals);
  AddCacheBundles(*cache, globals);
  AddCacheWarm(*cache, globals);
  CLI::App* explain = cache->add_subcommand(
      "explain",
      "how the keys of two graphs differ, or the key of one from the nearest cached one");
  auto graphs = std::make_shared<std::pair<std::string, std::string>>();
  explain
      ->add_option("a", graphs->first,
                   "digest of a graph, or file in the textual form (docs/ir.md)")
      ->required();
  explain->add_option("b", graphs->second,
                      "a second graph; absent: the nearest cached graph (for operators)");
  AddExecution(*explain, globals);
  explain->callback(
      [&globals, graphs] { globals.status = Explain(globals, graphs->first, graphs->second); });
}

}  // namespace uopd::cli
