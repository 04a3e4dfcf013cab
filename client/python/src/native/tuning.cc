// SPDX-License-Identifier: MIT
// Tuning operations in the steps that uopd/tuning.py calls. Messages become dicts, whose keys are
// the fields of the classes there.
#include "native/tuning.h"

#include <nanobind/stl/unique_ptr.h>

#include <cmath>

#include "client/cpp/net/session.h"
#include "client/cpp/net/wire_call.h"
#include "core/base/digest.h"
#include "core/ir/context.h"
#include "core/ir/graph.h"
#include "core/ir/io/print.h"
#include "core/ir/io/wire.h"
#include "core/ir/verify/spec.h"
#include "native/registry.h"
#include "native/tune_watch.h"

namespace uopd::python {
namespace {

using All = const std::vector<const Handle*>&;

constexpr auto kTuneSlice = absl::Milliseconds(50);

nb::dict ToDict(const v1::Tune& tune) {
  Digest graph;
  nb::dict d;
  d["id"] = tune.id();
  d["title"] = tune.title();
  d["tenant"] = tune.tenant();
  d["state"] = tune.state();
  d["error"] = tune.error();
  d["waits_for"] = tune.waits_for();
  d["host"] = tune.host();
  d["graph"] = graph.FromBytes(tune.graph()) ? graph.Hex() : "";
  d["beam"] = tune.beam();
  d["budget_ms"] = tune.budget_ms();
  d["budget_candidates"] = tune.budget_candidates();
  d["spent_ms"] = tune.spent_ms();
  d["candidates"] = tune.candidates();
  d["pruned"] = tune.pruned();
  d["duplicates"] = tune.duplicates();
  d["created_unix_us"] = tune.created_unix_us();
  d["ended_unix_us"] = tune.ended_unix_us();
  d["attempts"] = tune.attempts();
  d["kernels"] = tune.kernels();
  d["kernels_searching"] = tune.kernels_searching();
  d["kernels_tuned"] = tune.kernels_tuned();
  d["kernels_found"] = tune.kernels_found();
  d["kernels_failed"] = tune.kernels_failed();
  d["kernels_skipped"] = tune.kernels_skipped();
  return d;
}

bool IsTime(double seconds) { return std::isfinite(seconds) && seconds > 0; }

nb::dict ToDict(const v1::TunedKernel& kernel) {
  const auto time = [](double seconds) -> nb::object {
    if (!IsTime(seconds)) return nb::none();
    return nb::float_(seconds);
  };
  nb::list points;
  for (const v1::TunePoint& point : kernel.points()) {
    if (IsTime(point.seconds())) points.append(nb::make_tuple(point.candidate(), point.seconds()));
  }
  nb::dict d;
  d["number"] = kernel.number();
  d["name"] = kernel.name();
  d["device"] = kernel.device();
  d["launches"] = kernel.launches();
  d["state"] = kernel.state();
  d["detail"] = kernel.detail();
  d["opts"] = kernel.opts();
  d["trying"] = kernel.trying();
  d["best_seconds"] = time(kernel.best_seconds());
  d["heuristic_seconds"] = time(kernel.heuristic_seconds());
  d["measured"] = kernel.measured();
  d["failed"] = kernel.failed();
  d["pruned"] = kernel.pruned();
  d["duplicates"] = kernel.duplicates();
  d["search_ms"] = kernel.search_ms();
  d["limited"] = kernel.limited();
  d["points"] = points;
  return d;
}

// The answer of one call, without the GIL.
template <class Response>
Response Ask(const ClientHandle& c,
             const std::function<absl::StatusOr<Response>(client::Session&)>& f) {
  c.get();  // raises if it is closed
  client::Session& session = c.box->connection->session();
  Response out;
  WaitFor([&]() -> absl::Status {
    UOPD_ASSIGN(out, f(session));
    return absl::OkStatus();
  });
  return out;
}

absl::StatusOr<std::string> GraphOfText(const std::string& text) {
  ir::UOpContext ctx;
  std::vector<ir::UOp> lines;
  const auto sink = ir::Parse(ctx, text, lines);
  if (!sink.ok()) return WithFrame(sink.status(), "reading the text of a graph");
  if (absl::Status s = ir::Verify(ctx, *sink, ir::Level::kTensor); !s.ok())
    return ir::NumberedAs(s, ir::Toposort(ctx, *sink), lines);
  return ir::Encode(ctx, *sink);
}

nb::dict StartTune(const ClientHandle& c, const TuneGraph& graph, std::optional<uint32_t> beam,
                   bool again, uint64_t budget_ms, uint64_t budget_candidates,
                   const std::string& request_id, const std::string& title) {
  v1::StartTuneRequest request;
  request.mutable_graph()->set_graph(graph.bytes);
  client::ExecutionOptions options = graph.options;
  options.debug = 0;
  options.profile = false;
  if (beam) options.beam = *beam;
  options.ignore_beam_cache |= again;
  *request.mutable_options() = client::ToWire(options);
  request.set_budget_ms(budget_ms);
  request.set_budget_candidates(budget_candidates);
  request.set_request_id(request_id);
  request.set_title(title);
  return ToDict(Ask<v1::StartTuneResponse>(c, [&](client::Session& session) {
                  return session.StartTune(request);
                }).tune());
}

nb::list ListTunes(const ClientHandle& c) {
  const auto answer =
      Ask<v1::ListTunesResponse>(c, [](client::Session& session) { return session.ListTunes(); });
  nb::list out;
  for (const v1::Tune& tune : answer.tunes()) out.append(ToDict(tune));
  return out;
}

nb::dict CancelTune(const ClientHandle& c, const std::string& id) {
  v1::CancelTuneRequest request;
  request.set_id(id);
  return ToDict(Ask<v1::CancelTuneResponse>(c, [&](client::Session& session) {
                  return session.CancelTune(request);
                }).tune());
}

nb::dict ResumeTune(const ClientHandle& c, const std::string& id, uint64_t more_budget_ms,
                    uint64_t more_candidates) {
  v1::ResumeTuneRequest request;
  request.set_id(id);
  request.set_more_budget_ms(more_budget_ms);
  request.set_more_candidates(more_candidates);
  return ToDict(Ask<v1::ResumeTuneResponse>(c, [&](client::Session& session) {
                  return session.ResumeTune(request);
                }).tune());
}

// What Python holds of a watch.
struct WatchHandle {
  std::unique_ptr<TuneWatch> watch;

  ~WatchHandle() {
    if (watch == nullptr) return;
    if (watch->epoch() == Epoch())
      LockedWithoutGil([&] { watch.reset(); });
    else
      watch.reset();  // it has no thread here
  }
  void CheckEpoch() const {
    if (watch->epoch() == Epoch()) return;
    throw StatusError{absl::FailedPreconditionError("the watch belongs to the parent process")};
  }
};

// News, or None: it is over. Ctrl-C ends the wait and not the watch.
std::optional<nb::dict> NextNews(const WatchHandle& w, std::optional<double> seconds) {
  w.CheckEpoch();
  const absl::Time limit = seconds ? absl::Now() + absl::Seconds(*seconds) : absl::InfiniteFuture();
  for (bool came = false; !came;) {
    const absl::Duration slice =
        std::max(std::min(kTuneSlice, limit - absl::Now()), absl::ZeroDuration());
    {
      nb::gil_scoped_release no_gil;
      came = w.watch->WaitFor(slice);
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!came && absl::Now() >= limit)
      throw StatusError{absl::DeadlineExceededError("the tuning operation is not over")};
  }
  const TuneWatch::Taken taken = w.watch->Take();
  if (!taken.news) {
    Check(taken.end);
    return std::nullopt;
  }
  nb::dict d;
  d["tune"] = ToDict(taken.news->tune);
  nb::list kernels;
  for (const v1::TunedKernel& kernel : taken.news->kernels) kernels.append(ToDict(kernel));
  d["kernels"] = kernels;
  d["replaced"] = taken.news->replaced;
  return d;
}

}  // namespace

void BindTuning(nb::module_& m) {
  nb::class_<TuneGraph>(m, "TuneGraph").def_prop_ro("bytes", [](const TuneGraph& g) {
    return nb::bytes(g.bytes.data(), g.bytes.size());
  });
  // Graphs with the settings of the client's requests.
  m.def("tune_tensors", [](const ClientHandle& c, All tensors) {
    internal::CheckOwn(tensors);
    auto& client = c.get();
    auto made = LockedWithoutGil([&]() -> absl::StatusOr<TuneGraph> {
      UOPD_ASSIGN(client::Exported exported, client::Export(Tensors(tensors)));
      return TuneGraph{std::move(exported.graph), client.execution()};
    });
    Check(made.status());
    return *std::move(made);
  });
  m.def("tune_text", [](const ClientHandle& c, const std::string& text) {
    auto& client = c.get();
    auto made = LockedWithoutGil([&]() -> absl::StatusOr<TuneGraph> {
      UOPD_ASSIGN(std::string bytes, GraphOfText(text));
      return TuneGraph{std::move(bytes), client.execution()};
    });
    Check(made.status());
    return *std::move(made);
  });
  m.def("tune_bytes", [](const ClientHandle& c, const nb::bytes& bytes) {
    auto& client = c.get();
    return TuneGraph{std::string(bytes.c_str(), bytes.size()),
                     Locked([&] { return client.execution(); })};
  });
  m.def("tune_start", &StartTune, nb::arg("client"), nb::arg("graph"), nb::arg("beam").none(),
        nb::arg("again"), nb::arg("budget_ms"), nb::arg("budget_candidates"), nb::arg("request_id"),
        nb::arg("title"));
  m.def("tune_list", &ListTunes);
  m.def("tune_cancel", &CancelTune);
  m.def("tune_resume", &ResumeTune);
  nb::class_<WatchHandle>(m, "TuneWatch")
      .def("next", &NextNews, nb::arg("seconds").none() = nb::none())
      .def("close", [](const WatchHandle& w) {
        if (w.watch->epoch() == Epoch()) LockedWithoutGil([&] { w.watch->Close(); });
      });
  m.def("tune_watch", [](const ClientHandle& c, const std::string& id) {
    c.get();
    auto handle = std::make_unique<WatchHandle>();
    handle->watch = Locked([&] { return std::make_unique<TuneWatch>(c.box, id); });
    return handle;
  });
  // At the end of the process: threads of watches must not outlive what they use.
  m.def("tune_close_watches", [] { LockedWithoutGil([] { CloseWatches(); }); });
}

}  // namespace uopd::python
