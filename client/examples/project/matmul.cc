// SPDX-License-Identifier: MIT
// matmul ADDRESS: multiplies two matrices on the daemon and compares some elements with sums here.
#include <uopd/client.h>
#include <uopd/connection.h>
#include <uopd/version.h>

#include <cmath>
#include <cstdio>
#include <iostream>

namespace {

using namespace uopd::client;

constexpr int64_t kN = 300;

absl::Status Multiply(const std::string& address) {
  UOPD_ASSIGN(auto connection, Connection::Connect({.address = address}));
  Client client(connection, {.seed = 1});
  const Tensor a = client.Rand({kN, kN}), b = client.Rand({kN, kN});
  const Tensor c = a.MatMul(b);
  UOPD_ASSIGN(const std::vector<float> x, a.ToHost<float>());
  UOPD_ASSIGN(const std::vector<float> y, b.ToHost<float>());
  UOPD_ASSIGN(const std::vector<float> z, c.ToHost<float>());
  for (int64_t i = 0; i < kN; i += 7) {
    double sum = 0;
    for (int64_t k = 0; k < kN; ++k)
      sum += double{x[size_t(i * kN + k)]} * double{y[size_t(k * kN + i)]};
    const double got = z[size_t(i * kN + i)];
    if (std::abs(got - sum) > 1e-4 * sum) {
      return absl::InternalError("element " + std::to_string(i) + " is " + std::to_string(got) +
                                 " and not " + std::to_string(sum));
    }
  }
  std::printf("libuopd-client %s, daemon %s: %s\n", LibraryVersion(), connection->server().c_str(),
              "the product is right");
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Multiply(argc > 1 ? argv[1] : "127.0.0.1:50510");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
