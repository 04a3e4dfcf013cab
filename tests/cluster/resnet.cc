// SPDX-License-Identifier: MIT
#include "tests/cluster/resnet.h"

#include "client/cpp/net/session.h"
#include "core/base/status.h"
#include "tests/support/models/models.h"

namespace uopd::cluster {

absl::StatusOr<std::string> ResNet50Graph(const std::string& address) {
  UOPD_ASSIGN(const auto connection, client::Connection::Connect({.address = address}));
  client::Client client(connection);
  test::ResNet model(client, test::ResNet::Shape50());
  test::Unmaterialise(client, model.parameters());
  test::Unmaterialise(client, model.state());
  const client::Tensor logits = model.Forward(client.Empty({1, 3, 224, 224}), false);
  UOPD_ASSIGN(client::Exported exported, client::Export({&logits, 1}));
  return std::move(exported.graph);
}

}  // namespace uopd::cluster
