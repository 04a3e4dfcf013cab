// SPDX-License-Identifier: MIT
#include "core/rewrite/rewrite_trace.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/config/debug_flags.h"
#include "core/base/mutex.h"
#include "core/base/output_file.h"
#include "core/base/telemetry/log.h"
#include "core/base/text.h"
#include "core/ir/io/print.h"
#include "core/ir/io/render_expr.h"
#include "core/rewrite/match_stats.h"

namespace uopd::rewrite {
namespace {

constexpr int64_t kMaxBytes = int64_t{4} << 30;

struct Group {
  std::string name;
  std::vector<std::string> notes = {};  // not written yet
};
thread_local std::vector<Group> groups;
thread_local int64_t running_pass = 0;  // the innermost Run of this thread

// Not closed at the end: rewrites may still run while the process exits. Every write is flushed.
std::atomic<TraceFile*> the_file{nullptr};

// The names of the groups that are open: "codegen r_16_16/unroll".
std::string NameOfGroups() {
  std::string out;
  for (const Group& group : groups) Append(out, out.empty() ? "" : "/", group.name);
  return out;
}

std::string NoteLine(std::string_view text) {
  return Cat("{\"note\":", JsonString(text), ",\"name\":", JsonString(NameOfGroups()), "}\n");
}

std::string FileFromFlags() {
  const DebugFlags& flags = Debug();
  if (!flags.trace_rewrites.empty()) return flags.trace_rewrites;
  if (flags.viz == 0 && flags.track_match_stats < 2) return "";
  const char* folder = std::getenv("TMPDIR");
  return Cat(folder != nullptr && *folder != '\0' ? folder : "/tmp", "/uopd_rewrites.",
             static_cast<int64_t>(getpid()), ".jsonl");
}

}  // namespace

struct TraceFile::State {
  std::atomic<int64_t> passes{0};
  std::atomic<uint32_t> nodes{0};
  Mutex mu;
  std::FILE* file UOPD_GUARDED_BY(mu) = nullptr;  // null: closed
  absl::flat_hash_map<const Rule*, uint32_t> rules UOPD_GUARDED_BY(mu);
  int64_t bytes UOPD_GUARDED_BY(mu) = 0;
};

TraceFile::TraceFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceFile::~TraceFile() = default;

absl::Status TraceFile::Open(const std::string& path) {
  auto state = std::make_unique<State>();
  // The file has its name at once, so that it can be read while it grows.
  auto made = OutputFile::Create(path);
  absl::Status status = made.ok() ? made->Keep() : made.status();
  if (status.ok()) {
    UniqueFd fd = made->Release();
    const MutexLock lock(state->mu);
    state->file = fdopen(fd.get(), "w");
    if (state->file != nullptr)
      fd.Release();
    else
      status = absl::ErrnoToStatus(errno, "opening a stream");
  }
  if (!status.ok())
    return absl::UnavailableError(
        Cat("cannot record rewrites in ", path, ": ", StatusText(status)));
  Use(new TraceFile(std::move(state)));
  return absl::OkStatus();
}

void TraceFile::Close() { Use(nullptr); }

// No object is deleted, since a Rewriter may still write to an old one, which drops what comes.
void TraceFile::Use(TraceFile* next) {
  static auto* const old_files = new std::vector<TraceFile*>;
  static auto* const mu = new Mutex;
  const MutexLock lock(*mu);
  TraceFile* const old = the_file.exchange(next);
  if (old == nullptr) return;
  old_files->push_back(old);
  const MutexLock old_lock(old->state_->mu);
  std::fclose(std::exchange(old->state_->file, nullptr));
}

TraceFile* TraceFile::MaybeGet() {
  static const bool opened = [] {
    const std::string path = FileFromFlags();
    if (path.empty() || the_file != nullptr) return false;
    if (absl::Status s = Open(path); !s.ok()) {
      UOPD_LOG(kWarn, "rewrites are not recorded", {"error", s});
      return false;
    }
    UOPD_LOG(kInfo, "rewrites are recorded; uopctl viz shows them", {"file", path});
    return true;
  }();
  (void)opened;
  return the_file.load();
}

int64_t TraceFile::NextPass() { return ++state_->passes; }
uint32_t TraceFile::NextNodes(uint32_t n) { return state_->nodes.fetch_add(n) + 1; }

uint32_t TraceFile::RuleNumber(const Rule& rule) {
  std::string line;
  uint32_t number;
  {
    const MutexLock lock(state_->mu);
    auto [it, fresh] =
        state_->rules.try_emplace(&rule, static_cast<uint32_t>(state_->rules.size() + 1));
    number = it->second;
    if (fresh) {
      line = Cat("{\"rule\":", number, ",\"set\":", JsonString(rule.set),
                 ",\"name\":", JsonString(rule.name),
                 ",\"file\":", JsonString(SourcePath(rule.where.file_name())),
                 ",\"line\":", rule.where.line(), "}\n");
    }
  }
  if (!line.empty()) Write(line);
  return number;
}

void TraceFile::Write(std::string_view lines) {
  const MutexLock lock(state_->mu);
  if (state_->file == nullptr || state_->bytes > kMaxBytes) return;
  state_->bytes += static_cast<int64_t>(lines.size());
  if (state_->bytes > kMaxBytes) lines = "{\"truncated\":true}\n";
  std::fwrite(lines.data(), 1, lines.size(), state_->file);
  std::fflush(state_->file);
}

TraceGroup::TraceGroup(std::string name) : place_(groups.size()) {
  groups.push_back({std::move(name)});
}
TraceGroup::~TraceGroup() {
  TraceFile* file = TraceFile::MaybeGet();
  for (const std::string& text : groups.back().notes) {
    if (file != nullptr) file->Write(NoteLine(text));
  }
  groups.pop_back();
}
void TraceGroup::Rename(std::string name) { groups[place_].name = std::move(name); }

bool TracesNotes() { return TraceFile::MaybeGet() != nullptr; }

void TraceNote(std::string_view text) {
  TraceFile* file = TraceFile::MaybeGet();
  if (file == nullptr) return;
  if (groups.empty()) return file->Write(NoteLine(text));
  groups.back().notes.emplace_back(text);
}

void TraceRecorder::Begin(std::string_view pass, UOp root) {
  pass_ = groups.empty() ? std::string(pass) : Cat(NameOfGroups(), "/", pass);
  root_ = root;
  steps_ = 0;
  parent_ = running_pass;
  running_pass = pass_number_ = file_.NextPass();
}

void TraceRecorder::Step(UOp before, UOp after, const Rule& rule) {
  if (steps_++ == 0) {
    const uint32_t root = Number(root_);
    Append(lines_, "{\"pass\":", pass_number_, ",\"parent\":", parent_,
           ",\"name\":", JsonString(pass_), ",\"root\":", root, "}\n");
  }
  const uint32_t from = Number(before), to = Number(after);
  Append(lines_, "{\"step\":", steps_, ",\"pass\":", pass_number_, ",\"before\":", from,
         ",\"after\":", to, ",\"rule\":", file_.RuleNumber(rule),
         ",\"from\":", JsonString(ir::RenderExpr(before)),
         ",\"to\":", JsonString(ir::RenderExpr(after)), "}\n");
}

void TraceRecorder::End(UOp result) {
  if (steps_ > 0) {
    const uint32_t number = Number(result);
    Append(lines_, "{\"end\":", pass_number_, ",\"result\":", number, "}\n");
    file_.Write(lines_);
    lines_.clear();
  }
  running_pass = parent_;
}

uint32_t TraceRecorder::Number(UOp root) {
  auto number = [&](UOp u) -> uint32_t& {
    if (u.id() >= numbers_.size())
      numbers_.resize(std::max<size_t>(u.id() + 1, numbers_.size() * 2));
    return numbers_[u.id()];
  };
  std::vector<UOp> stack = {root};
  while (!stack.empty()) {
    const UOp u = stack.back();
    bool ready = number(u) == 0;
    if (!ready) {
      stack.pop_back();
      continue;
    }
    for (size_t i = u.n_src(); i-- > 0;) {
      if (number(u.src(i)) == 0) {
        stack.push_back(u.src(i));
        ready = false;
      }
    }
    if (!ready) continue;
    stack.pop_back();
    number(u) = file_.NextNodes(1);
    Append(lines_, "{\"node\":", number(u), ",\"op\":", JsonString(ir::PrintHead(u)), ",\"src\":[");
    for (size_t i = 0; i < u.n_src(); ++i) Append(lines_, i > 0 ? "," : "", number(u.src(i)));
    lines_ += ']';
    if (const std::string arg = ir::PrintArg(u); !arg.empty())
      Append(lines_, ",\"arg\":", JsonString(arg));
    lines_ += "}\n";
  }
  return number(root);
}

std::string JsonString(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out = "\"";
  for (char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7f) {
      out += "\\u00";
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    } else
      out += c;
  }
  return out + "\"";
}

}  // namespace uopd::rewrite
