// SPDX-License-Identifier: MIT
#include "tests/e2e/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "google/rpc/status.pb.h"
#include "tests/e2e/graphs.h"

namespace uopd::e2e {
namespace {

template <class Message>
std::optional<Message> DetailOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const auto& any : details.details()) {
    Message out;
    if (any.UnpackTo(&out)) return out;
  }
  return std::nullopt;
}

}  // namespace

v1::Argument Data(std::string bytes) {
  v1::Argument out;
  out.set_data(std::move(bytes));
  return out;
}

v1::Argument Returned(uint64_t buffer) {
  v1::Argument out;
  out.set_buffer(buffer);
  out.set_return_data(true);
  return out;
}

v1::Argument Buffer(uint64_t handle) {
  v1::Argument out;
  out.set_buffer(handle);
  return out;
}

std::optional<v1::NodeError> NodeOf(const grpc::Status& status) {
  return DetailOf<v1::NodeError>(status);
}

std::string MissingOf(const grpc::Status& status) {
  const auto error = DetailOf<v1::MissingError>(status);
  return error ? error->kind() : "";
}

Client::Client(const DaemonProcess& daemon) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(-1);
  args.SetMaxSendMessageSize(-1);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  stub_ = v1::UopdService::NewStub(
      grpc::CreateCustomChannel(daemon.listen(), grpc::InsecureChannelCredentials(), args));
}

grpc::Status Client::OpenSession(uint64_t ttl_ms) {
  grpc::ClientContext context;
  v1::OpenSessionRequest request;
  request.set_ttl_ms(ttl_ms);
  v1::OpenSessionResponse response;
  grpc::Status status = stub_->OpenSession(&context, request, &response);
  session_ = response.session_id();
  return status;
}

Executed Client::Execute(const std::string& digest, const std::string& graph,
                         const std::vector<v1::Argument>& arguments, uint64_t request_id) {
  grpc::ClientContext context;
  v1::ExecuteRequest request;
  request.set_session_id(session_);
  request.set_request_id(request_id);
  request.set_digest(digest);
  request.set_graph(graph);
  for (const v1::Argument& argument : arguments) *request.add_arguments() = argument;
  Executed out;
  out.status = stub_->Execute(&context, request, &out.response);
  return out;
}

grpc::Status Client::Upload(uint64_t handle, const std::string& data, uint64_t chunk_bytes) {
  grpc::ClientContext context;
  v1::UploadResponse response;
  auto writer = stub_->Upload(&context, &response);
  v1::UploadRequest message;
  message.set_session_id(session_);
  message.mutable_buffer()->set_handle(handle);
  message.mutable_buffer()->set_bytes(data.size());
  size_t at = 0;
  do {
    message.set_data(data.substr(at, chunk_bytes));
    at += message.data().size();
    if (!writer->Write(message)) break;
    message.Clear();
  } while (at < data.size());
  writer->WritesDone();
  grpc::Status status = writer->Finish();
  if (status.ok()) {
    EXPECT_EQ(response.bytes(), data.size());
  }
  return status;
}

grpc::Status Client::Download(uint64_t handle, std::string* out, uint64_t offset, uint64_t bytes) {
  grpc::ClientContext context;
  v1::DownloadRequest request;
  request.set_session_id(session_);
  request.set_handle(handle);
  request.set_offset(offset);
  request.set_bytes(bytes);
  auto reader = stub_->Download(&context, request);
  out->clear();
  for (v1::DownloadResponse chunk; reader->Read(&chunk);) {
    EXPECT_LE(chunk.data().size(), size_t{1} << 20);
    *out += chunk.data();
  }
  return reader->Finish();
}

grpc::Status Client::Create(uint64_t handle, uint64_t bytes, const std::string& device) {
  grpc::ClientContext context;
  v1::CreateBuffersRequest request;
  request.set_session_id(session_);
  v1::BufferSpec* spec = request.add_buffers();
  spec->set_handle(handle);
  spec->set_bytes(bytes);
  spec->set_device(device);
  v1::CreateBuffersResponse response;
  return stub_->CreateBuffers(&context, request, &response);
}

v1::PrepareResponse Client::Prepare(const std::string& graph, grpc::Status* status) {
  grpc::ClientContext context;
  v1::PrepareRequest request;
  request.set_session_id(session_);
  request.set_graph(graph);
  v1::PrepareResponse response;
  const grpc::Status result = stub_->Prepare(&context, request, &response);
  if (status != nullptr) {
    *status = result;
  } else {
    EXPECT_TRUE(result.ok()) << result.error_message();
  }
  return response;
}

v1::ExecuteResponse ExpectAdds(Client& client, int64_t n, const v1::Options& options,
                               uint64_t request_id) {
  const std::vector<float> a = Scattered(n, 1), b = Scattered(n, 2);
  v1::ExecuteRequest request;
  request.set_session_id(client.session());
  request.set_request_id(request_id);
  request.set_graph(AddGraph(n));
  *request.add_arguments() = Returned();
  *request.add_arguments() = Data(Bytes(a));
  *request.add_arguments() = Data(Bytes(b));
  *request.mutable_options() = options;
  v1::ExecuteResponse response;
  grpc::ClientContext context;
  const grpc::Status status = client.stub().Execute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  if (!status.ok()) return response;
  std::vector<float> want;
  for (size_t i = 0; i < a.size(); ++i) want.push_back(a[i] + b[i]);
  EXPECT_EQ(Floats(response.data(0)), want);
  return response;
}

void ExpectServes(const DaemonProcess& daemon) {
  Client client(daemon);
  const grpc::Status opened = client.OpenSession();
  ASSERT_TRUE(opened.ok()) << opened.error_message();
  const Executed added = client.Execute(
      "", AddGraph(3), {Returned(), Data(Bytes({1, 2, 3})), Data(Bytes({10, 20, 30}))});
  ASSERT_TRUE(added.status.ok()) << added.status.error_message();
  ASSERT_EQ(added.response.data_size(), 1);
  EXPECT_THAT(Floats(added.response.data(0)), ::testing::ElementsAre(11, 22, 33));
}

uint64_t RowsOf(const DaemonProcess& daemon, const std::string& store) {
  Client client(daemon);
  grpc::ClientContext context;
  v1::GetCacheStatsResponse response;
  EXPECT_TRUE(client.stub().GetCacheStats(&context, {}, &response).ok());
  for (const v1::StoreStats& stats : response.stores()) {
    if (stats.store() == store) return stats.rows();
  }
  return 0;
}

}  // namespace uopd::e2e
