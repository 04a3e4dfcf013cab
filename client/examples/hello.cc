// SPDX-License-Identifier: MIT
// The program of README.md: hello ADDRESS
#include <cstdio>
#include <iostream>

#include "uopd/client.h"
#include "uopd/connection.h"

namespace uopd::client {

absl::Status Hello(const std::string& address) {
  UOPD_ASSIGN(auto connection, Connection::Connect({.address = address}));
  Client client(connection);
  Tensor x = client.FromHost(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  Tensor n = client.Variable("n", 1, 3, 2);             // a size that is no part of the graph
  Tensor y = (x * 0.5).Narrow(1, 0, n).Exp().Sum({1});  // nothing has been sent yet
  UOPD_ASSIGN(std::vector<float> sums, y.ToHost<float>());
  std::printf("%.4f %.4f\n", sums[0], sums[1]);
  Tensor wrong = x + client.FromHost(std::vector<float>{1, 2}, {2});
  std::printf("%s\n", wrong.status().ToString().c_str());
  return absl::OkStatus();
}

}  // namespace uopd::client

int main(int argc, char** argv) {
  const absl::Status status = uopd::client::Hello(argc > 1 ? argv[1] : "127.0.0.1:50510");
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
