// SPDX-License-Identifier: MIT
// Every call of the service, asked by every kind of caller: whoever has no token, the tenant to
// whom things belong, another tenant, an operator. The answers are those of the one table that
// decides (proto/methods.def).
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "absl/strings/str_replace.h"
#include "core/base/digest.h"
#include "core/base/text.h"
#include "server/rpc/call/audience.h"
#include "tests/e2e/client.h"
#include "tests/e2e/graphs.h"
#include "tests/support/eventually.h"
#include "tests/support/generated_section.h"

namespace uopd::e2e {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;
using rpc::Audience;
using ::testing::HasSubstr;
using ::testing::Not;

const ServiceDescriptor& Descriptor() {
  return *v1::HelloRequest::descriptor()->file()->FindServiceByName("UopdService");
}

// What requests name.
struct Names {
  std::string session, resume_token, tune, graph;
};

// Puts the names where a request has a place for them. Returns how many things of a tenant it
// names.
int Put(const Names& names, Message& request) {
  int put = 0;
  for (int i = 0; i < request.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = request.GetDescriptor()->field(i);
    const auto& reflection = *request.GetReflection();
    const auto set = [&](const std::string& value) {
      reflection.SetString(&request, field, value);
      ++put;
    };
    if (field->name() == "session_id") set(names.session);
    if (field->name() == "resume_token") set(names.resume_token);
    if (field->name() == "id") set(names.tune);
    if (field->name() == "dry_run") reflection.SetBool(&request, field, true);
    if (field->name() == "graph" && field->type() == FieldDescriptor::TYPE_BYTES)
      reflection.SetString(&request, field, names.graph);
    if (field->name() == "a" || (field->name() == "graph" && field->message_type() != nullptr))
      Put(names, *reflection.MutableMessage(&request, field));
  }
  return put;
}

struct Asked {
  std::string bytes;
  int names = 0;
};

// The requests of a call: one; or one for every call that a pipeline carries.
std::vector<Asked> RequestsOf(const MethodDescriptor& method, const Names& names) {
  const auto make = [&](const FieldDescriptor* inner) {
    const std::unique_ptr<Message> request(google::protobuf::MessageFactory::generated_factory()
                                               ->GetPrototype(method.input_type())
                                               ->New());
    Message* named = request.get();
    if (inner != nullptr) named = request->GetReflection()->MutableMessage(request.get(), inner);
    // The step of a loop.
    if (const auto* const step = named->GetDescriptor()->FindFieldByName("execute");
        inner != nullptr && step != nullptr)
      named = named->GetReflection()->MutableMessage(named, step);
    Asked out;
    out.names = Put(names, *named);
    out.bytes = request->SerializeAsString();
    return out;
  };
  const auto* const call = method.input_type()->FindOneofByName("call");
  if (call == nullptr) return {make(nullptr)};
  std::vector<Asked> out;
  for (int i = 0; i < call->field_count(); ++i) out.push_back(make(call->field(i)));
  return out;
}

struct Answer {
  grpc::Status status;
  std::string bytes;  // of all messages

  // Comparable: without the names that were asked for.
  std::string Text(const Names& names) const {
    return absl::StrReplaceAll(
        Cat(static_cast<int>(status.error_code()), " ", status.error_message(), " ",
            status.error_details(), bytes),
        {{names.session, "S"}, {names.resume_token, "R"}, {names.tune, "T"}});
  }
};

class AudienceTest : public ::testing::Test {
 protected:
  std::string TokenFile() { return WriteTokenFile(folder_.path(), {"alice", "bob", "carol"}); }

  // An empty token sends none.
  static Answer Ask(const DaemonProcess& daemon, const std::string& token,
                    const MethodDescriptor& method, const std::string& request) {
    grpc::GenericStub stub(
        grpc::CreateChannel(daemon.listen(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
    grpc::CompletionQueue queue;
    const auto done = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call =
        stub.PrepareCall(&context, Cat("/", Descriptor().full_name(), "/", method.name()), &queue);
    Answer out;
    call->StartCall(nullptr);
    if (done()) {
      const grpc::Slice slice(request);
      call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
      if (done()) {
        call->WritesDone(nullptr);
        done();
      }
      for (;;) {
        grpc::ByteBuffer message;
        call->Read(&message, nullptr);
        if (!done()) break;
        std::vector<grpc::Slice> slices;
        EXPECT_TRUE(message.Dump(&slices).ok());
        for (const grpc::Slice& one : slices)
          out.bytes.append(reinterpret_cast<const char*>(one.begin()), one.size());
      }
    }
    call->Finish(&out.status, nullptr);
    done();
    return out;
  }
  template <class Response>
  Response AsAlice(const char* method, const Message& request) {
    const Answer answer = Ask(daemon_, "alice's", *Descriptor().FindMethodByName(method),
                              request.SerializeAsString());
    EXPECT_TRUE(answer.status.ok()) << method << ": " << answer.status.error_message();
    Response out;
    EXPECT_TRUE(out.ParseFromString(answer.bytes)) << method;
    return out;
  }

  // A session of alice, and her tuning operation.
  Names Alices() {
    Names out{.tune = tune_, .graph = ScaleGraph(16, 3)};
    const auto session = AsAlice<v1::OpenSessionResponse>("OpenSession", v1::OpenSessionRequest());
    out.session = session.session_id(), out.resume_token = session.resume_token();
    return out;
  }
  // Alice has prepared and tuned a graph of 12345 elements with the factor 0.4375.
  void Work() {
    v1::PrepareRequest prepare;
    prepare.set_graph(secret_graph_);
    digest_ = AsAlice<v1::PrepareResponse>("Prepare", prepare).digest();
    v1::StartTuneRequest start;
    start.mutable_graph()->set_digest(digest_);
    start.mutable_options()->set_beam(1);
    start.set_budget_candidates(4);
    start.set_title("alices-model");
    tune_ = AsAlice<v1::StartTuneResponse>("StartTune", start).tune().id();
    EXPECT_TRUE(test::Eventually([&] {
      const auto tunes = AsAlice<v1::ListTunesResponse>("ListTunes", v1::ListTunesRequest());
      return tunes.tunes(0).ended_unix_us() > 0;
    }));
  }
  void ExpectNothingOfAlice(const Answer& answer, const Names& asked) const {
    const std::string text = answer.Text(asked);
    for (const std::string& secret :
         {std::string("alices"), std::string("12345"), std::string("0.4375"), digest_,
          HashBytes(secret_graph_).Hex().substr(0, 12), tune_}) {
      EXPECT_THAT(text, Not(HasSubstr(secret)));
    }
  }

  const std::string secret_graph_ = ScaleGraph(12345, 0.4375);
  TemporaryFolder folder_;
  DaemonProcess daemon_{folder_.path(),
                        {"--server-token-file=" + TokenFile(), "--server-operators=carol"}};
  std::string digest_, tune_;
};

TEST(AudienceTableTest, HasEveryCallOfTheServiceOnce) {
  struct Row {
    const char* name;
    bool streams;
  };
  constexpr auto kRows = std::to_array<Row>({
#define UOPD_UNARY(name, audience) {#name, false},
#define UOPD_QUERY(name, audience) {#name, false},
#define UOPD_STREAM(name, audience) {#name, true},
#include "proto/methods.def"
#undef UOPD_UNARY
#undef UOPD_QUERY
#undef UOPD_STREAM
  });
  ASSERT_EQ(Descriptor().method_count(), static_cast<int>(rpc::kMethods.size()));
  for (int i = 0; i < Descriptor().method_count(); ++i) {
    const MethodDescriptor& method = *Descriptor().method(i);
    EXPECT_EQ(method.name(), rpc::kMethods[static_cast<size_t>(i)].name);
    EXPECT_EQ(method.name(), kRows[static_cast<size_t>(i)].name);
    EXPECT_EQ(method.client_streaming() || method.server_streaming(),
              kRows[static_cast<size_t>(i)].streams)
        << method.name();
  }
}

TEST(AudienceTableTest, IsInTheDocs) {
  std::string text = "| calls | a tenant | an operator |\n|---|---|---|\n";
  constexpr std::array<std::pair<Audience, const char*>, 4> kGroups = {{
      {Audience::kEveryone, "answered; the same for all tenants"},
      {Audience::kTenant, "things of this tenant; those of others do not exist | the same |"},
      {Audience::kTenantOrOperator,
       "things of this tenant; those of others do not exist | things of all tenants |"},
      {Audience::kOperator, "`PERMISSION_DENIED` | things of all tenants |"},
  }};
  for (const auto& [audience, rights] : kGroups) {
    std::string calls;
    for (const rpc::MethodInfo& method : rpc::kMethods)
      if (method.audience == audience) Append(calls, calls.empty() ? "" : ", ", method.name);
    Append(text, "| ", calls, " | ", rights, audience == Audience::kEveryone ? " | the same |" : "",
           "\n");
  }
  test::ExpectGenerated("security.md", "calls", text);
}

TEST_F(AudienceTest, EveryCallIsAnsweredAsTheTableSays) {
  Work();
  const Names unknown{.session = std::string(32, 'e'),
                      .resume_token = std::string(32, 'd'),
                      .tune = std::string(32, 'f'),
                      .graph = ScaleGraph(16, 3)};
  for (const rpc::MethodInfo& row : rpc::kMethods) {
    SCOPED_TRACE(row.name);
    const MethodDescriptor* method = Descriptor().FindMethodByName(std::string(row.name));
    ASSERT_NE(method, nullptr);
    const Names alices = Alices();
    const std::vector<Asked> hers = RequestsOf(*method, alices),
                             nobodys = RequestsOf(*method, unknown);
    for (size_t i = 0; i < hers.size(); ++i) {
      SCOPED_TRACE(i);
      for (const char* token : {"", "wrong"}) {
        const Answer refused = Ask(daemon_, token, *method, hers[i].bytes);
        EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
        EXPECT_EQ(refused.bytes, "");
        ExpectNothingOfAlice(refused, alices);
      }
      const Answer bob = Ask(daemon_, "bob's", *method, hers[i].bytes);
      ExpectNothingOfAlice(bob, alices);
      const Answer carol = Ask(daemon_, "carol's", *method, hers[i].bytes);
      EXPECT_NE(carol.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      EXPECT_NE(carol.status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
      if (row.audience == Audience::kOperator) {
        for (const Answer& one : {bob, Ask(daemon_, "alice's", *method, hers[i].bytes)}) {
          EXPECT_EQ(one.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
          EXPECT_EQ(one.bytes, "");
        }
        continue;
      }
      EXPECT_NE(bob.status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
      const bool names_things = row.name != "ExplainCache" && row.name != "StartTune" &&
                                row.name != "ListTunes" && row.audience != Audience::kEveryone;
      EXPECT_EQ(hers[i].names > 0, names_things);
      if (!names_things) continue;
      // To others, what alice has is as unknown as what nobody has.
      const auto unknown_to = [&](const char* token) {
        return Ask(daemon_, token, *method, nobodys[i].bytes).Text(unknown);
      };
      const std::string nothing = unknown_to("bob's");
      EXPECT_EQ(bob.Text(alices), nothing);
      const bool operators_see = row.audience == Audience::kTenantOrOperator;
      EXPECT_EQ(carol.Text(alices) != unknown_to("carol's"), operators_see);
      // She herself has it.
      EXPECT_NE(Ask(daemon_, "alice's", *method, hers[i].bytes).Text(alices), nothing);
    }
  }
}

// Where there are no tokens, there is one tenant, who is an operator.
TEST_F(AudienceTest, WithoutTokensEverybodyMayEverything) {
  std::filesystem::create_directories(folder_.path() / "open");
  const DaemonProcess open(folder_.path() / "open");
  const Names unknown{.session = std::string(32, 'e'),
                      .resume_token = std::string(32, 'd'),
                      .tune = std::string(32, 'f'),
                      .graph = ScaleGraph(16, 3)};
  for (int i = 0; i < Descriptor().method_count(); ++i) {
    const MethodDescriptor& method = *Descriptor().method(i);
    for (const Asked& asked : RequestsOf(method, unknown)) {
      const grpc::StatusCode code = Ask(open, "", method, asked.bytes).status.error_code();
      EXPECT_NE(code, grpc::StatusCode::UNAUTHENTICATED) << method.name();
      EXPECT_NE(code, grpc::StatusCode::PERMISSION_DENIED) << method.name();
    }
  }
}

// The nearest entry of the cache is for operators. Others compare what they name; and a digest is
// known only to whoever has the graph, so it is as good as the graph.
TEST_F(AudienceTest, OnlyOperatorsGetTheNearestEntry) {
  Work();
  const MethodDescriptor& explain = *Descriptor().FindMethodByName("ExplainCache");
  v1::ExplainCacheRequest request;
  request.mutable_a()->set_graph(ScaleGraph(16, 3));
  const auto ask = [&](const char* token) {
    const Answer answer = Ask(daemon_, token, explain, request.SerializeAsString());
    EXPECT_TRUE(answer.status.ok()) << answer.status.error_message();
    v1::ExplainCacheResponse out;
    EXPECT_TRUE(out.ParseFromString(answer.bytes));
    return out;
  };
  EXPECT_EQ(ask("carol's").digest_b(), digest_);
  const v1::ExplainCacheResponse bobs = ask("bob's");
  EXPECT_TRUE(bobs.search_refused());
  EXPECT_EQ(bobs.digest_b(), "");
  EXPECT_EQ(bobs.differences_size(), 0);
  EXPECT_TRUE(ask("alice's").search_refused());  // the cache does not know whose an entry is
  request.mutable_b()->set_graph(ScaleGraph(16, 5));
  EXPECT_EQ(ask("bob's").differences_size(), 1);
}

}  // namespace
}  // namespace uopd::e2e
