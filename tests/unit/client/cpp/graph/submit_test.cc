// SPDX-License-Identifier: MIT
// Requests that nobody waits for: what a failure changes, and who is told of it.
#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers when it is told to.
class LateExecutor final : public Executor {
 public:
  explicit LateExecutor(std::shared_ptr<InterpreterExecutor> to) : to_(std::move(to)) {}

  Answer Submit(Call call) override {
    auto result = std::make_shared<CallResult>();
    Later([this, call = std::move(call), result] {
      const Answer answer = to_->Submit(call);
      if (answer.result != nullptr) *result = *answer.result;
      return answer.future.Wait();
    });
    const Future future = waiting_.back().first.future();
    if (std::exchange(answers_while_sending, false)) Answer_();
    return {future, result};
  }
  Future Upload(uint64_t handle, std::string_view device,
                std::shared_ptr<const std::string> bytes) override {
    Later([this, handle, device = std::string(device), bytes] {
      return to_->Upload(handle, device, bytes).Wait();
    });
    return waiting_.back().first.future();
  }
  Future Download(uint64_t handle, std::span<char> out) override {
    Later([this, handle, out] { return to_->Download(handle, out).Wait(); });
    return waiting_.back().first.future();
  }

  // The next call is sent, and at the same time the answer of what waits longest comes.
  bool answers_while_sending = false;
  size_t waiting() const { return waiting_.size(); }
  void Answer_() {
    auto [promise, work] = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    promise.Set(work());
  }
  void AnswerAll() {
    while (!waiting_.empty()) Answer_();
  }

 private:
  void Later(std::function<absl::Status()> work) { waiting_.emplace_back(Promise(), work); }

  const std::shared_ptr<InterpreterExecutor> to_;
  std::vector<std::pair<Promise, std::function<absl::Status()>>> waiting_;
};

class SubmitTest : public ClientTest {
 protected:
  // The values of a tensor whose contents are asked for now and come later.
  struct Reading {
    Tensor tensor;
    std::string bytes;
    Future future;
    std::vector<double> Values() const {
      EXPECT_TRUE(future.Done());
      EXPECT_TRUE(future.Wait().ok()) << future.Wait();
      return test::HostArray::FromBytes(tensor.dtype(), tensor.dims(), bytes).ToDoubles();
    }
  };
  static std::unique_ptr<Reading> Read(const Tensor& t) {
    auto out = std::make_unique<Reading>();
    out->tensor = t;
    out->bytes.resize(static_cast<size_t>(t.size() * ir::ByteSize(t.dtype())));
    out->future = t.ReadInto(out->bytes);
    return out;
  }
  Tensor Late(Dims dims, std::vector<double> values) {
    return late_.FromBytes(Dtype::F32, dims,
                           test::HostArray::Of(Dtype::F32, dims, values).ToBytes());
  }

  std::shared_ptr<LateExecutor> executor_ = std::make_shared<LateExecutor>(daemon_);
  Client late_{executor_, ClientOptions{.seed = 7}};
};

TEST_F(SubmitTest, NothingWaits) {
  Tensor w = Late({2}, {1, 2});
  for (int i = 0; i < 3; ++i) {
    w.Assign(w * 2.0);
    ASSERT_TRUE(w.Submit().ok());
    EXPECT_TRUE(w.is_realized());
  }
  const auto small = Read(w),
             large = Read((w.Unsqueeze(1) + Late({2, 1}, {0, 1})).Expand({2, 40000}));
  EXPECT_FALSE(small->future.Done());
  EXPECT_FALSE(small->future.WaitFor(absl::Milliseconds(1)));
  EXPECT_EQ(late_.stats().executes, 0u);
  executor_->AnswerAll();
  EXPECT_THAT(small->Values(), ElementsAre(8, 16));
  EXPECT_EQ(large->Values()[0], 8);
  EXPECT_EQ(large->Values()[79999], 17);
  EXPECT_EQ(late_.stats().executes, 4u);
  EXPECT_TRUE(late_.Sync().ok());
}

TEST_F(SubmitTest, ANewTensorCarriesTheErrorAndAnAssignedOneItsOldValue) {
  Tensor w = Late({2}, {1, 2});
  ASSERT_TRUE((w + 0.0).Submit().ok());
  executor_->AnswerAll();
  w.Assign(w + 1.0);
  const Tensor y = w * 3.0;
  ASSERT_TRUE(Submit({w, y}).ok());
  daemon_->fail_with = absl::ResourceExhaustedError("full");
  executor_->AnswerAll();
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(late_.Sync().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(late_.Sync().ok()) << "an error is returned once";
  EXPECT_EQ(Read(y)->future.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ((y + 1.0).Submit().code(), absl::StatusCode::kResourceExhausted);
  const auto old = Read(w);
  executor_->AnswerAll();
  EXPECT_THAT(old->Values(), ElementsAre(1, 2));
}

TEST_F(SubmitTest, InputsOfAFailedRequestAreSentAgain) {
  const Tensor x = Late({2}, {1, 2});
  Tensor large = late_.FromBytes(Dtype::F32, {400000}, std::string(1600000, '\0'));
  ASSERT_TRUE((x + large.Sum()).Submit().ok());
  EXPECT_EQ(executor_->waiting(), 2u) << "an upload and a call";
  daemon_->fail_with = absl::ResourceExhaustedError("full");
  executor_->AnswerAll();
  daemon_->fail_with = absl::OkStatus();
  EXPECT_FALSE(late_.Sync().ok());
  const auto again = Read(x + large.Sum());
  executor_->AnswerAll();
  EXPECT_THAT(again->Values(), ElementsAre(1, 2));
}

TEST_F(SubmitTest, WhoeverReadsIsToldAndNobodyElse) {
  const Tensor x = Late({2}, {1, 2});
  const auto reading = Read(x + 1.0);
  daemon_->fail_with = absl::ResourceExhaustedError("full");
  executor_->AnswerAll();
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(reading->future.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(late_.Sync().ok());
}

TEST_F(SubmitTest, AnErrorThatComesWhileAReadIsSentIsToldToTheReaderAlone) {
  Tensor w = Late({2}, {1, 2});
  ASSERT_TRUE((w + 0.0).Submit().ok());
  executor_->AnswerAll();
  for (const bool depends : {true, false}) {
    w.Assign(w + 1.0);
    ASSERT_TRUE(w.Submit().ok());
    daemon_->fail_with = absl::ResourceExhaustedError("full");
    executor_->answers_while_sending = true;
    const auto reading = Read(depends ? w * 5.0 : Late({2}, {1, 2}) * 5.0);
    executor_->AnswerAll();
    daemon_->fail_with = absl::OkStatus();
    EXPECT_EQ(reading->future.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(late_.Sync().ok()) << "an error is returned once";
    EXPECT_TRUE((Late({2}, {1, 2}) + 1.0).Submit().ok());
    executor_->AnswerAll();
  }
}

TEST_F(SubmitTest, BuffersThatAFailedRequestShouldHaveFreedAreFreedLater) {
  Tensor x = Late({100}, std::vector<double>(100, 1));
  Tensor y = x + 1.0, z = x + 2.0;
  ASSERT_TRUE(Submit({y, z}).ok());
  executor_->AnswerAll();
  const size_t before = daemon_->buffers.size();
  x = Tensor();
  ASSERT_TRUE((y * 2.0).Submit().ok());  // frees x
  daemon_->fail_with = absl::ResourceExhaustedError("full");
  executor_->AnswerAll();
  daemon_->fail_with = absl::OkStatus();
  EXPECT_EQ(daemon_->buffers.size(), before);
  EXPECT_FALSE(late_.Sync().ok());
  const Tensor last = y.Sum();
  ASSERT_TRUE(last.Submit().ok());
  executor_->AnswerAll();
  EXPECT_EQ(daemon_->buffers.size(), before);  // one less, and `last`
}

TEST_F(SubmitTest, WrongMemoryIsRefused) {
  std::string bytes(7, '\0');
  const absl::Status s = Late({2}, {1, 2}).ReadInto(bytes).Wait();
  EXPECT_EQ(s.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(StatusText(s), HasSubstr("the tensor has 8 bytes, and the memory for it 7"));
  EXPECT_TRUE(Late({0}, {}).ReadInto({}).Wait().ok());
}

}  // namespace
}  // namespace uopd::client
