// SPDX-License-Identifier: MIT
#include "server/engine/operate/entry_view.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "core/base/text.h"
#include "server/engine/compile/kernel/kernel_keys.h"
#include "server/engine/compile/source/kernel_record.h"
#include "server/engine/tune/tuning_service.h"

namespace uopd::engine {
namespace {

constexpr size_t kDigits = 12;  // of a digest in a title

bool IsKernel(const cache::Row& row) {
  return row.store == kOptimisedStores.kernel || row.store == kDraftStores.kernel;
}

bool IsChoice(const cache::Row& row) {
  return row.store == kOptimisedStores.choice || row.store == kDraftStores.choice;
}

// A graph, its schedule and a choice lie under the digest of the graph. A tuned kernel lies under
// the bytes of its own graph.
std::string GraphDigest(const cache::Row& row) {
  const bool by_digest = row.store == "graph" || row.store == "schedule" || IsChoice(row);
  return by_digest ? absl::BytesToHexString(row.semantic) : HashBytes(row.semantic).Hex();
}

std::string GraphName(const cache::Row& row) {
  return Cat("graph ", GraphDigest(row).substr(0, kDigits));
}

}  // namespace

std::string Microseconds(double seconds) { return absl::StrFormat("%.4g us", seconds * 1e6); }

absl::StatusOr<TuningRecord> WinnerOf(const cache::Row& row) {
  if (row.store != "tuning" && row.store != cache::kUnprovenStore)
    return absl::NotFoundError(Cat("entries of ", row.store, " have no winner"));
  return TuningRecord::Decode(row.value);
}

std::string TitleOf(const cache::Row& row) {
  if (IsKernel(row)) {
    const auto kernel = KernelRecord::Decode(row.value);
    return kernel.ok() ? kernel->name : "";
  }
  if (IsChoice(row)) {
    const auto source = DecodeChoice(row.value);
    return source ? Cat("source ", source->Hex().substr(0, kDigits)) : "";
  }
  if (const auto winner = WinnerOf(row); winner.ok()) return Text(winner->opts);
  return row.store == "graph" || row.store == "schedule" ? GraphName(row) : "";
}

std::vector<std::pair<std::string, std::string>> FactsOf(const cache::Row& row) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&](const char* name, std::string text) {
    out.emplace_back(name, std::move(text));
  };
  if (IsKernel(row)) {
    const auto kernel = KernelRecord::Decode(row.value);
    if (!kernel.ok()) return out;
    add("kernel", kernel->name);
    add("opts", Text(kernel->opts));
    add("code_bytes", Cat(kernel->object.size()));
    add("buffers", Cat(kernel->buffers.size()));
    add("variables", Cat(kernel->variables.size()));
    add("flops", Cat(kernel->flops));
    add("memory_bytes", Cat(kernel->bytes));
  } else if (IsChoice(row)) {
    add("kernel_graph", GraphDigest(row));
    if (const auto source = DecodeChoice(row.value)) add("source", source->Hex());
  } else if (const auto winner = WinnerOf(row); winner.ok()) {
    add("opts", Text(winner->opts));
    add("time", Microseconds(winner->seconds));
    add("heuristic_time", Microseconds(winner->heuristic_seconds));
    add("measured", Cat(winner->measured));
    add("failed", Cat(winner->failed));
    if (row.store != "tuning")
      add("proven", "no: it is run against the reference before it is used");
  } else if (row.store == "graph" || row.store == "schedule") {
    add("graph", GraphDigest(row));
  }
  return out;
}

}  // namespace uopd::engine
