// SPDX-License-Identifier: MIT
// Clients: connecting, waiting, cancelling, settings, counters, and fork().
#include <nanobind/stl/map.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>

#include "native/client.h"
#include "native/registry.h"
#include "uopd/context.h"

namespace uopd::python {
namespace {

using client::Connection;

// All clients that were made, under a lock of its own: Ctrl-C must find them while the other lock
// is held.
struct Boxes {
  std::mutex mutex;
  std::vector<std::weak_ptr<Box>> all;
};
Boxes& AllBoxes() {
  static auto* const boxes = new Boxes;
  return *boxes;
}
std::vector<std::shared_ptr<Box>> LiveBoxes() {
  std::vector<std::shared_ptr<Box>> live;
  std::scoped_lock lock(AllBoxes().mutex);
  std::erase_if(AllBoxes().all, [&](const auto& weak) {
    live.push_back(weak.lock());
    if (live.back() != nullptr) return false;
    live.pop_back();
    return true;
  });
  return live;
}

// A scope with other settings.
struct Scope {
  std::shared_ptr<Box> box;
  std::unique_ptr<client::Context> context;
  void End() {
    Locked([&] { context.reset(); });
  }
};

std::unique_ptr<ClientHandle> Connect(const std::string& address, const std::string& token,
                                      double timeout, double ttl, uint64_t seed,
                                      const std::string& device) {
  auto connect = [&]() -> absl::StatusOr<std::shared_ptr<Box>> {
    client::ConnectOptions options;
    options.address = address;
    options.credentials.token = token;
    options.timeout = absl::Seconds(timeout);
    options.ttl = absl::Seconds(ttl);
    options.client_name = "uopd-python 0.1";
    client::ClientOptions settings;
    settings.seed = seed;
    settings.device = device;
    UOPD_ASSIGN(settings.execution, client::OptionsFromEnvironment());
    UOPD_ASSIGN(auto connection, Connection::Connect(std::move(options)));
    client::Client c(connection, settings);
    return std::make_shared<Box>(Box{connection, std::move(c)});
  };
  auto made = [&] {
    nb::gil_scoped_release no_gil;
    return connect();
  }();
  Check(made.status());
  auto handle = std::make_unique<ClientHandle>();
  handle->box = *std::move(made);
  std::scoped_lock lock(AllBoxes().mutex);
  AllBoxes().all.push_back(handle->box);
  return handle;
}

nb::dict ProgressOf(const client::Progress& p) {
  nb::dict d;
  d["calls"] = p.calls;
  d["upload_bytes"] = p.upload_bytes;
  d["uploaded_bytes"] = p.uploaded_bytes;
  d["download_bytes"] = p.download_bytes;
  d["downloaded_bytes"] = p.downloaded_bytes;
  if (!p.daemon) return d;
  d["programs"] = p.daemon->programs;
  d["kernels"] = p.daemon->kernels;
  d["kernels_ready"] = p.daemon->kernels_ready;
  d["kernels_to_tune"] = p.daemon->kernels_to_tune;
  return d;
}

std::unique_ptr<Scope> EnterContext(const ClientHandle& c, const nb::dict& changes) {
  client::ContextChanges wanted;
  auto number = [](nb::handle v) { return nb::cast<uint32_t>(v); };
  for (auto [key, v] : changes) {
    const auto name = nb::cast<std::string>(key);
    if (name == "BEAM")
      wanted.beam = number(v);
    else if (name == "DEBUG")
      wanted.debug = number(v);
    else if (name == "CACHELEVEL")
      wanted.cache_level = number(v);
    else if (name == "NOOPT")
      wanted.noopt = number(v) != 0;
    else if (name == "IGNORE_BEAM_CACHE")
      wanted.ignore_beam_cache = number(v) != 0;
    else if (name == "FAST_MATH")
      wanted.fast_math = number(v) != 0;
    else if (name == "ALLOW_BF16")
      wanted.allow_bf16 = number(v) != 0;
    else if (name == "ALLOW_F16")
      wanted.allow_f16 = number(v) != 0;
    else if (name == "ALLOW_TF32")
      wanted.allow_tf32 = number(v) != 0;
    else if (name == "REPRODUCIBLE")
      wanted.reproducible = number(v) != 0;
    else
      throw nb::value_error(("no setting " + name).c_str());
  }
  auto& client = c.get();
  auto scope = std::make_unique<Scope>();
  scope->box = c.box;
  Locked([&] { scope->context = std::make_unique<client::Context>(client, wanted); });
  return scope;
}

nb::dict Stats(const ClientHandle& c) {
  auto& client = c.get();
  const auto [s, nodes, traffic] =
      Locked([&] { return std::tuple(client.stats(), client.graph_nodes(), client.traffic()); });
  nb::dict d;
  d["executes"] = s.executes;
  d["graphs_sent"] = s.graphs_sent;
  d["uploaded_bytes"] = s.uploaded_bytes;
  d["downloads"] = s.downloads;
  d["kernels_compiled"] = s.kernels_compiled;
  d["kernels_disk"] = s.kernels_disk;
  d["kernels_cluster"] = s.kernels_cluster;
  d["kernels_shared"] = s.kernels_shared;
  d["kernels_memory"] = s.kernels_memory;
  d["last_run_us"] = s.last_run_us;
  d["run_us"] = s.run_us;
  d["graph_nodes"] = nodes;
  d["traffic_bytes"] = traffic.total();
  return d;
}

}  // namespace

void CancelAll() {
  for (const auto& box : LiveBoxes()) {
    if (box->epoch == Epoch()) box->client.Cancel();
  }
}

void ForgetCancelled() {
  LockedWithoutGil([] {
    for (const auto& box : LiveBoxes()) {
      if (box->epoch == Epoch()) box->client.Sync().IgnoreError();
    }
  });
}

bool AllHaveRoom(absl::Duration time) {
  for (const auto& box : LiveBoxes()) {
    if (box->epoch == Epoch() && !box->client.WaitForRoom(time)) return false;
  }
  return true;
}

void ClientHandle::Close() {
  if (box == nullptr) return;
  if (box->epoch != Epoch()) {
    new std::shared_ptr<Box>(std::move(box));  // never destroyed: gRPC's threads are the parent's
    return;
  }
  LockedWithoutGil([&] { box.reset(); });
}

void BindClient(nb::module_& m) {
  nb::class_<ClientHandle>(m, "Client")
      .def("close", &ClientHandle::Close)
      .def("sync",
           [](const ClientHandle& c) {
             auto& client = c.get();
             WaitFor([&] { return client.Sync(); });
           })
      .def("progress",
           [](const ClientHandle& c) {
             auto& client = c.get();
             return ProgressOf([&] {
               nb::gil_scoped_release no_gil;
               return client.progress();
             }());
           })
      .def("cancel",
           [](const ClientHandle& c) {
             auto& client = c.get();
             nb::gil_scoped_release no_gil;
             client.Cancel();
           })
      .def("stats", &Stats)
      .def("buffer_bytes",
           [](const ClientHandle& c) {
             auto& client = c.get();
             return LockedWithoutGil([&] { return client.BufferBytes(); });
           })
      .def("set_seed",
           [](const ClientHandle& c, uint64_t seed) {
             auto& client = c.get();
             Locked([&] { client.SetSeed(seed); });
           })
      .def("enter", &EnterContext)
      .def_prop_ro("closed", [](const ClientHandle& c) { return c.box == nullptr; })
      .def_prop_ro("address",
                   [](const ClientHandle& c) { return c.get(), c.box->connection->address(); })
      .def_prop_ro("server",
                   [](const ClientHandle& c) { return c.get(), c.box->connection->server(); })
      .def_prop_ro("devices", [](const ClientHandle& c) {
        c.get();
        std::vector<std::string> names;
        for (const auto& d : c.box->connection->devices()) names.push_back(d.name);
        return names;
      });
  nb::class_<Scope>(m, "Scope").def("end", &Scope::End);
  m.def("connect", &Connect);
  m.def("set_progress_hook", [](const nb::object& hook) { ProgressHook() = hook; });
  m.def("set_package_folder", [](const std::string& folder) { PackageFolder() = folder; });
  // For os.register_at_fork. No thread is inside of the client library while the process forks, so
  // that the child finds the lock in order. The child never touches the parent's clients.
  m.def("before_fork", [] {
    {
      nb::gil_scoped_release no_gil;
      Mutex().lock();
      PauseWatches();
      client::Connection::BeforeFork();
    }
    AllBoxes().mutex.lock();  // only now: threads wait for it while they hold the GIL
  });
  m.def("after_fork_in_parent", [] {
    client::Connection::AfterForkInParent();
    ContinueWatches();
    AllBoxes().mutex.unlock();
    Mutex().unlock();
  });
  m.def("after_fork_in_child", [] {
    client::Connection::AfterForkInChild();
    ForgetWatches();
    for (const auto& weak : AllBoxes().all) new std::shared_ptr<Box>(weak.lock());
    AllBoxes().all.clear();
    NewEpoch();
    AllBoxes().mutex.unlock();
    Mutex().unlock();
  });
}

}  // namespace uopd::python
