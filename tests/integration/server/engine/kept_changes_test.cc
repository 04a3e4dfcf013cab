// SPDX-License-Identifier: MIT
// Whatever happens between the runs, they give the bits of a daemon that keeps nothing: the same
// steps go to an engine that keeps values, with drafts that are upgraded or without, and to one
// that does not.
//
// The steps: runs; weights that are written in part, by an upload or by the data of a call; calls
// that are cancelled at any moment, also those that bring data; request ids that come again;
// sessions that need the memory. UOPD_FUZZ_KEPT_CHANGES sets how many programs, UOPD_FUZZ_SEED the
// first one, UOPD_FUZZ_DEVICE the device.
#include <gtest/gtest.h>

#include "tests/support/environment.h"
#include "tests/unit/server/engine/kept/random_products.h"

namespace uopd::engine::random_products {
namespace {

// One client of both engines.
class BothEngines {
 public:
  BothEngines(Engine& keeping, Engine& plain, uint64_t seed)
      : keeping_(keeping),
        plain_(plain),
        author_(seed),
        graph_(author_.Write()),
        options_(author_.Options()),
        kept_session_(*keeping.sessions().Open(std::chrono::minutes(5), {})),
        plain_session_(*plain.sessions().Open(std::chrono::minutes(5), {})) {
    for (size_t i = 0; i < author_.slots.size(); ++i) {
      data_.push_back(author_.Data(author_.slots[i]));
      Argument& argument = arguments_.emplace_back();
      if (i + 1 == author_.slots.size()) {
        argument.return_data = true;
      } else if (author_.slots[i].weight) {
        argument.buffer = i + 1;
        weights_.push_back(i);
        Upload(i);
      } else {
        argument.data = data_[i];
      }
    }
  }
  ~BothEngines() {
    EXPECT_TRUE(keeping_.sessions().Close(kept_session_->id(), "").ok());
    EXPECT_TRUE(plain_.sessions().Close(plain_session_->id(), "").ok());
  }

  std::string Print() { return Cat(options_.Text(), "\n", author_.Print()); }
  int Pick(uint64_t n) { return author_.Pick(n); }

  void Run() {
    const uint64_t id = Pick(2) == 0 ? 0 : ++last_id_;
    const auto got = Execute(keeping_, kept_session_, graph_, options_, arguments_, id);
    ASSERT_TRUE(got.ok()) << StatusText(got.status());
    ExpectAsPlain(*got);
    if (id == 0) return;
    // A repeated id is answered, or what it answered is no longer known. It runs nothing.
    const auto again = Execute(keeping_, kept_session_, graph_, options_, arguments_, id);
    if (again.ok()) {
      EXPECT_TRUE(again->data == got->data);
    }
  }
  void WritePart() {
    const size_t i = AnyWeight();
    std::string& all = data_[i];
    const std::string fresh = author_.Data(author_.slots[i]);
    const size_t size = ElementSize(i);
    const size_t from = static_cast<size_t>(Pick(all.size() / size)) * size;
    const size_t bytes = std::min(all.size() - from, size * static_cast<size_t>(1 + Pick(64)));
    all.replace(from, bytes, fresh, from, bytes);
    const std::string_view part = std::string_view(all).substr(from, bytes);
    ASSERT_TRUE(keeping_.buffers().Write(*kept_session_, i + 1, from, part).ok());
    ASSERT_TRUE(plain_.buffers().Write(*plain_session_, i + 1, from, part).ok());
  }
  // A run that brings a weight.
  void RunWithData() {
    const size_t i = AnyWeight();
    data_[i] = author_.Data(author_.slots[i]);
    arguments_[i].data = data_[i];
    Run();
    arguments_[i].data = std::nullopt;
  }
  // A run that ends at any moment, perhaps with data for a weight. What the weight has then, it
  // keeps.
  void Cancel() {
    const size_t i = AnyWeight();
    const std::string before = data_[i];
    const bool brings = Pick(2) == 0;
    if (brings) {
      data_[i] = author_.Data(author_.slots[i]);
      arguments_[i].data = data_[i];
    }
    auto left = std::make_shared<std::atomic<int>>(Pick(12));
    const uint64_t id = Pick(2) == 0 ? 0 : ++last_id_;
    const auto got = Execute(keeping_, kept_session_, graph_, options_, arguments_, id,
                             [left] { return (*left)-- <= 0; });
    arguments_[i].data = std::nullopt;
    if (brings) {
      std::string now(data_[i].size(), '\0');
      if (keeping_.buffers().Read(*kept_session_, i + 1, 0, std::span(now)).ok()) {
        EXPECT_TRUE(now == before || now == data_[i]);
        data_[i] = now;
        ASSERT_TRUE(plain_.buffers().Write(*plain_session_, i + 1, 0, now).ok());
      } else {
        Upload(i);
      }
    }
    if (got.ok()) ExpectAsPlain(*got);
  }
  // Another session takes what it can get.
  void TakeMemory() {
    const SessionUse other = *keeping_.sessions().Open(std::chrono::minutes(1), {});
    for (uint64_t handle = 1; handle < 64; ++handle) {
      if (!keeping_.buffers().Create(*other, handle, 32 << 20, "").ok()) break;
    }
    EXPECT_TRUE(keeping_.sessions().Close(other->id(), "").ok());
  }

 private:
  size_t ElementSize(size_t i) const {
    return static_cast<size_t>(ir::ByteSize(author_.slots[i].dtype));
  }
  size_t AnyWeight() { return weights_[static_cast<size_t>(Pick(weights_.size()))]; }
  void Upload(size_t i) {
    for (auto* to : {&keeping_, &plain_}) {
      Session& session = to == &keeping_ ? *kept_session_ : *plain_session_;
      ASSERT_TRUE(to->buffers().OpenUpload(session, i + 1, data_[i].size(), "").ok());
      ASSERT_TRUE(to->buffers().Write(session, i + 1, 0, data_[i]).ok());
    }
  }
  void ExpectAsPlain(const ExecuteResult& got) {
    const auto want = Execute(plain_, plain_session_, graph_, options_, arguments_);
    ASSERT_TRUE(want.ok()) << StatusText(want.status());
    EXPECT_TRUE(Result(got.data, author_.slots) == Result(want->data, author_.slots));
  }

  Engine &keeping_, &plain_;
  Author author_;
  const std::string graph_;
  const CompileOptions options_;
  const SessionUse kept_session_, plain_session_;
  std::vector<std::string> data_;  // by slot: what the buffers have, and the data of the others
  std::vector<Argument> arguments_;
  std::vector<size_t> weights_;  // slots
  uint64_t last_id_ = 0;
};

TEST(KeptChangesTest, AreFollowed) {
  constexpr int kSteps = 30;
  const auto programs = static_cast<int>(test::CasesFromEnvironment("UOPD_FUZZ_KEPT_CHANGES", 4));
  const auto start = static_cast<int>(test::FromEnvironment("UOPD_FUZZ_SEED", 0));
  const std::string device = test::NamedDevice("CPU");
  const auto plain = KeepingEngine(device, "0");
  const std::unique_ptr<Engine> keeping[] = {KeepingEngine(device),
                                             KeepingEngine(device, "64MiB", /*drafts=*/true)};
  const double used = KeptRunsOf("used");
  for (int seed = start; seed < start + programs; ++seed) {
    BothEngines both(*keeping[seed % 2], *plain, static_cast<uint64_t>(seed));
    SCOPED_TRACE(::testing::Message() << "seed " << seed << "\n" << both.Print());
    for (int step = 0; step < kSteps && !::testing::Test::HasFailure(); ++step) {
      const int action = both.Pick(12);
      SCOPED_TRACE(::testing::Message() << "step " << step << " action " << action);
      if (action == 0) both.WritePart();
      if (action == 1) both.RunWithData();
      if (action == 2) both.Cancel();
      if (action == 3) both.TakeMemory();
      // Values are made behind the answers, of weights that stay for some runs.
      for (int runs = both.Pick(8); runs >= 0 && !::testing::Test::HasFailure(); --runs) both.Run();
    }
    if (::testing::Test::HasFailure()) return;
  }
  std::printf("%.0f runs used kept values\n", KeptRunsOf("used") - used);
  if (programs >= 8) {
    EXPECT_GT(KeptRunsOf("used"), used);
  }
}

}  // namespace
}  // namespace uopd::engine::random_products
