// SPDX-License-Identifier: MIT
// rates ADDRESS [SIZE]: how fast the daemon multiplies matrices, and how fast numbers go there and
// back. While it waits it shows what for, as Client::progress says.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/time/clock.h"
#include "uopd/client.h"
#include "uopd/connection.h"
#include "uopd/jit.h"

namespace uopd::client {

// Waits, and shows progress after half a second.
absl::Status Watch(const Client& client, const Future& future) {
  for (bool shown = false; !future.WaitFor(absl::Milliseconds(500)); shown = true) {
    const Progress p = client.progress();
    std::fprintf(stderr, "%s%zu calls", shown ? "\r" : "", p.calls);
    if (p.upload_bytes > 0)
      std::fprintf(stderr, ", %.0f of %.0f MB sent", 1e-6 * double(p.uploaded_bytes),
                   1e-6 * double(p.upload_bytes));
    if (p.daemon && p.daemon->programs > 0)
      std::fprintf(stderr, ", %u of %u kernels ready", p.daemon->kernels_ready, p.daemon->kernels);
    std::fprintf(stderr, "   ");
  }
  return future.Wait();
}

absl::Status Rates(const std::string& address, int64_t n) {
  UOPD_ASSIGN(auto connection, Connection::Connect({.address = address}));
  Client client(connection);
  const auto size = static_cast<size_t>(n * n);
  std::vector<float> a(size), b(size), c(size);
  for (size_t i = 0; i < size; ++i) {
    a[i] = static_cast<float>(i % 13) - 6;
    b[i] = static_cast<float>(i % 7) - 3;
  }
  const std::span<char> out{reinterpret_cast<char*>(c.data()), size * sizeof(float)};
  Jit multiply(client, [](std::span<const Tensor> in) { return std::vector{in[0].MatMul(in[1])}; });
  double up = 1e30, compute = 1e30, down = 1e30;  // seconds; the best of some rounds
  for (int round = 0; round < 6; ++round) {
    const absl::Time begin = absl::Now();
    const Tensor x = client.FromHost(a, {n, n}), y = client.FromHost(b, {n, n});
    for (const Tensor& t : {x, y}) {  // numbers are sent when something needs them
      float corner = 0;
      const Tensor first = t.Narrow(0, 0, 1).Narrow(1, 0, 1);
      UOPD_TRY(Watch(client, first.ReadInto({reinterpret_cast<char*>(&corner), sizeof corner})));
    }
    const absl::Time sent = absl::Now();
    UOPD_ASSIGN(const std::vector<Tensor> product, multiply({x, y}));
    UOPD_TRY(client.Sync());
    const absl::Time computed = absl::Now();
    UOPD_TRY(Watch(client, product[0].ReadInto(out)));
    up = std::min(up, absl::ToDoubleSeconds(sent - begin));
    compute = std::min(compute, absl::ToDoubleSeconds(computed - sent));
    down = std::min(down, absl::ToDoubleSeconds(absl::Now() - computed));
  }
  double want = 0;  // the last element; small integers, so that sums are exact
  for (int64_t k = 0; k < n; ++k)
    want += double{a[static_cast<size_t>((n - 1) * n + k)]} *
            double{b[static_cast<size_t>(k * n + n - 1)]};
  if (std::abs(c.back() - want) > 1e-3)
    return absl::InternalError("the last element is " + std::to_string(c.back()));
  const double bytes = static_cast<double>(out.size());
  std::printf("%lld x %lld: %.1f GFLOPS, up %.0f MB/s, down %.0f MB/s\n", static_cast<long long>(n),
              static_cast<long long>(n), 2e-9 * std::pow(double(n), 3) / compute, 2e-6 * bytes / up,
              1e-6 * bytes / down);
  return absl::OkStatus();
}

}  // namespace uopd::client

int main(int argc, char** argv) {
  const absl::Status status = uopd::client::Rates(argc > 1 ? argv[1] : "127.0.0.1:50510",
                                                  argc > 2 ? std::max(1, std::atoi(argv[2])) : 512);
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
