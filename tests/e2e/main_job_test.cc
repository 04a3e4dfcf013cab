// SPDX-License-Identifier: MIT
// The main job as a user runs it: uopctl against a real daemon, on Fashion-MNIST and on graph
// files.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <fstream>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "client/data/files.h"
#include "client/data/idx.h"
#include "client/data/npy.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/ir/build.h"
#include "core/ir/io/print.h"
#include "tests/e2e/client.h"
#include "tests/e2e/daemon_process.h"
#include "tests/support/eventually.h"
#include "tests/support/mlp_reference.h"
#include "uopd/connection.h"
#include "uopd/nn.h"
#include "uopd/optim.h"

namespace uopd::e2e {
namespace {

constexpr char kDataset[] = "/usr/share/datasets/fashion-mnist";

struct Output {
  int code = -1;
  std::string text;  // standard output and error
};

Output RunUopctl(const std::string& arguments, const std::string& environment = "") {
  Output out;
  FILE* pipe =
      popen(Cat("env ", environment, " ", UOPCTL_BINARY, " ", arguments, " 2>&1").c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> buffer;
  for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.text.append(buffer.data(), n);
  }
  out.code = WEXITSTATUS(pclose(pipe));
  return out;
}

// The value of a key in the single line of JSON at the end; NaN if it is not there.
double JsonNumber(const std::string& text, const std::string& key) {
  const size_t at = text.rfind("\"" + key + "\":");
  return at == std::string::npos ? NAN : std::atof(text.c_str() + at + key.size() + 3);
}

// How often the daemon has decided, since the log began, whether a program keeps values. It
// compiles the program once more for that, behind the answers. There are two: a step of training,
// and the test.
int KeptDecisions(const DaemonProcess& daemon) {
  const std::string log = daemon.Log(), line = "\"program keeps ";
  int n = 0;
  for (size_t at = log.find(line); at != std::string::npos; at = log.find(line, at + 1)) ++n;
  return n;
}

TEST(MainJobTest, TrainsAndAfterAKillCompilesNothing) {
  TemporaryFolder folder;
  const std::string flags = Cat(" train-mnist --json --steps 200 --data ", kDataset);
  const std::vector<std::string> keeps = {"--limits-session-kept-bytes=1GiB"};
  {
    DaemonProcess daemon(folder.path(), keeps);
    ASSERT_TRUE(daemon.running());
    const Output first = RunUopctl("--address " + daemon.listen() + flags);
    ASSERT_EQ(first.code, 0) << first.text;
    EXPECT_GE(JsonNumber(first.text, "accuracy"), 0.78) << first.text;
    EXPECT_GT(JsonNumber(first.text, "kernels_compiled"), 0);
    EXPECT_LT(JsonNumber(first.text, "sent_per_step_bytes"), 2048);
    EXPECT_EQ(JsonNumber(first.text, "graphs_after_first_step"), 0);
    EXPECT_TRUE(test::Eventually([&] { return KeptDecisions(daemon) == 2; }));
    // Rows are written behind the answers, too.
    const double compiled = daemon.Metric("uopd_kernels_compiled_total");
    EXPECT_TRUE(test::Eventually(
        [&] { return static_cast<double>(RowsOf(daemon, "kernel")) == compiled; }));
    daemon.Signal(SIGKILL);
    daemon.Wait();
  }
  DaemonProcess daemon(folder.path(), keeps);
  ASSERT_TRUE(daemon.running());
  const Output second = RunUopctl("--address " + daemon.listen() + flags);
  ASSERT_EQ(second.code, 0) << second.text;
  EXPECT_EQ(JsonNumber(second.text, "kernels_compiled"), 0) << second.text;
  EXPECT_TRUE(test::Eventually([&] { return KeptDecisions(daemon) == 4; }));
  EXPECT_EQ(daemon.Metric("uopd_kernels_compiled_total"), 0);
  EXPECT_GT(daemon.Metric("uopd_cache_requests_total{store=\"kernel\",result=\"hit\"}"), 0);
}

// 784-512-10 on real images: twenty losses against loops in double that start from the same
// weights.
TEST(MainJobTest, LossCurveIsThatOfDoublePrecision) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const auto data = client::LoadExamples(kDataset, "train");
  ASSERT_TRUE(data.ok()) << StatusText(data.status());
  auto connection = client::Connection::Connect({.address = daemon.listen()});
  ASSERT_TRUE(connection.ok()) << StatusText(connection.status());
  client::Client client(*connection, {.seed = 7});
  constexpr int64_t kPixels = 784, kHidden = 512, kBatch = 64;
  client::Linear first(client, kPixels, kHidden), second(client, kHidden, 10);
  std::vector<client::Tensor> parameters = {first.weight, first.bias, second.weight, second.bias};
  auto optimizer = client::Adam(client, parameters, {.lr = 0.001});
  std::vector<client::Tensor> all = parameters;
  all.insert(all.end(), optimizer->state().begin(), optimizer->state().end());
  ASSERT_TRUE(client::Realize(all).ok());
  test::MlpReference reference;
  reference.in = kPixels, reference.hidden = kHidden, reference.out = 10;
  reference.rule = test::MlpReference::kAdam, reference.lr = 0.001;
  std::vector<double>* const weights[] = {&reference.w1, &reference.b1, &reference.w2,
                                          &reference.b2};
  for (size_t i = 0; i < 4; ++i) {
    const auto values = parameters[i].ToHost<float>();
    ASSERT_TRUE(values.ok()) << StatusText(values.status());
    weights[i]->assign(values->begin(), values->end());
  }
  for (size_t step = 0; step < 20; ++step) {
    const std::string images = data->images.substr(step * kBatch * kPixels, kBatch * kPixels);
    const std::string labels = data->labels.substr(step * kBatch, kBatch);
    const client::Tensor x = client.FromBytes(ir::Dtype::U8, {kBatch, kPixels}, images);
    const client::Tensor y = client.FromBytes(ir::Dtype::U8, {kBatch}, labels);
    const client::Tensor loss =
        second(first(x.Cast(ir::Dtype::F32) * (1.0 / 255)).Relu()).CrossEntropy(y);
    ASSERT_TRUE(loss.Backward().ok());
    const absl::Status s = optimizer->Step({loss});
    ASSERT_TRUE(s.ok()) << StatusText(s);
    std::vector<double> pixels;
    for (char c : images) pixels.push_back(static_cast<uint8_t>(c) / 255.0);
    const double want = reference.Step(pixels, std::vector<int>(labels.begin(), labels.end()));
    const auto got = loss.Item<float>();
    ASSERT_TRUE(got.ok());
    EXPECT_NEAR(*got, want, 1e-3 * want) << "step " << step;
  }
}

std::string MatmulText(int64_t n) {
  ir::UOpContext ctx;
  const int64_t square[] = {n, n}, left[] = {n, n, 1}, axis = 1;
  const ir::UOp shape = ir::ShapeArg(ctx, square);
  const ir::UOp a = ir::Reshape(ctx, ir::Param(ctx, 0, ir::Dtype::F32, shape), left);
  const ir::UOp products = ir::Mul(ctx, a, ir::Param(ctx, 1, ir::Dtype::F32, shape));
  const ir::UOp sum =
      ir::Reshape(ctx, ir::ReduceAxes(ctx, ir::Op::ADD, products, std::span(&axis, 1)), square);
  const ir::UOp store = ir::Store(ctx, ir::Param(ctx, 2, ir::Dtype::F32, shape), sum);
  return ir::Print(ctx, ir::Sink(ctx, std::span(&store, 1)));
}

// Nodes keep the numbers that they have in the file, in whatever order they are sent. This also
// holds for errors that the daemon finds.
TEST(MainJobTest, ErrorsNameNodesAsTheFileDoes) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string head =
      "%0 = CONST<f32> {2}\n%1 = CONST<index> {4}\n%2 = STACK<index> %1\n"
      "%3 = PARAM<f32> %2 {1, GLOBAL}\n%4 = CONST<f32> {7}\n%5 = PARAM<f32> %2 {0, GLOBAL}\n";
  struct {
    std::string tail, message;
  } const cases[] = {
      // Refused before it is sent.
      {"%6 = BITCAST<f64> %3\n%7 = CAST<f32> %6\n%8 = STORE %5, %7\n%9 = SINK %8\n",
       "(node %6: %6 = BITCAST<f64> %3)"},
      // Refused by the scheduler: the pieces of a value in pieces.
      {"%6 = MULTI<f32> %3, %3 {}\n%7 = MULTI<f32> %6, %6 {}\n%8 = COPY<f32> %7 {\"CPU:0\"}\n"
       "%9 = STORE %5, %8\n%10 = SINK %9\n",
       "(node %7: %7 = MULTI<f32> %6, %6 {})"},
  };
  for (const auto& c : cases) {
    const std::string path = (folder.path() / "graph.uop").string();
    std::ofstream(path) << head << c.tail;
    const Output out = RunUopctl("--address " + daemon.listen() + " run " + path);
    EXPECT_NE(out.code, 0);
    EXPECT_NE(out.text.find(c.message), std::string::npos) << out.text;
  }
}

TEST(MainJobTest, RunComputesAMatrixProduct) {
  constexpr int64_t kN = 512;
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string dir = folder.path().string();
  ASSERT_TRUE(WriteFile(dir + "/matmul.uop", MatmulText(kN)).ok());
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(0, 1);
  std::vector<float> x(kN * kN), y(kN * kN);
  for (auto* v : {&x, &y}) {
    for (float& f : *v) f = uniform(random);
    client::NpyArray array = {ir::Dtype::F32,
                              {kN, kN},
                              std::string(reinterpret_cast<const char*>(v->data()), v->size() * 4)};
    ASSERT_TRUE(WriteFile(dir + (v == &x ? "/x.npy" : "/y.npy"), *client::FormatNpy(array)).ok());
  }
  const Output out =
      RunUopctl("--address " + daemon.listen() + " run " + dir + "/matmul.uop --input a0=" + dir +
                "/x.npy --input a1=" + dir + "/y.npy --output a2=" + dir + "/z.npy");
  ASSERT_EQ(out.code, 0) << out.text;
  const auto file = client::ReadFile(dir + "/z.npy");
  ASSERT_TRUE(file.ok());
  const auto z = client::ParseNpy(*file);
  ASSERT_TRUE(z.ok()) << StatusText(z.status());
  ASSERT_EQ(z->dims, (ir::Dims{kN, kN}));
  std::vector<float> got(kN * kN);
  std::memcpy(got.data(), z->bytes.data(), got.size() * 4);
  double worst = 0;
  for (size_t i = 0; i < kN; ++i) {
    std::vector<double> row(kN, 0);
    for (size_t k = 0; k < kN; ++k) {
      for (size_t j = 0; j < kN; ++j) row[j] += double{x[i * kN + k]} * double{y[k * kN + j]};
    }
    for (size_t j = 0; j < kN; ++j)
      worst = std::max(worst, std::abs(got[i * kN + j] - row[j]) / row[j]);
  }
  EXPECT_LE(worst, 1e-5);
}

TEST(MainJobTest, SlotsWithoutInputStartAsZeros) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string file = folder.path().string() + "/matmul.uop";
  for (const int64_t n : {2, 200}) {  // sent with the request, and buffers of their own
    ASSERT_TRUE(WriteFile(file, MatmulText(n)).ok());
    const Output out = RunUopctl("--address " + daemon.listen() + " --json run " + file);
    ASSERT_EQ(out.code, 0) << out.text;
    EXPECT_NE(out.text.find("\"values\":[0.0,0.0,0.0,0.0"), std::string::npos)
        << out.text.substr(0, 1000);
  }
}

TEST(MainJobTest, FlagAndVariableAskForTuning) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path(), {"--tune-candidates=8"});
  ASSERT_TRUE(daemon.running());
  const std::string dir = folder.path().string();
  ASSERT_TRUE(WriteFile(dir + "/matmul.uop", MatmulText(8)).ok());
  const std::string command = "--address " + daemon.listen() + " --json run " + dir + "/matmul.uop";
  const auto tuned = [&](const std::string& environment, const std::string& flags) {
    const Output out = RunUopctl(command + flags, environment);
    EXPECT_EQ(out.code, 0) << out.text;
    return JsonNumber(out.text, "kernels_tuned");
  };
  ASSERT_TRUE(test::Eventually([&] { return tuned("", " --beam 2") == 1 || HasFailure(); }))
      << daemon.Log();
  EXPECT_EQ(tuned("BEAM=2", ""), 1);
  EXPECT_EQ(tuned("BEAM=3 UOPD_BEAM=2", ""), 1);
  EXPECT_EQ(tuned("BEAM=2", " --beam 0"), 0);
  EXPECT_EQ(tuned("", ""), 0);
  EXPECT_EQ(RunUopctl(command, "BEAM=many").code, 2);
  EXPECT_EQ(RunUopctl(command + " --beam 65").code, 2);
}

TEST(MainJobTest, CacheExplainSaysWhatDiffers) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string dir = folder.path().string(), to = "--address " + daemon.listen() + " ";
  const auto write = [&](const std::string& name, const std::string& factor) {
    ASSERT_TRUE(WriteFile(dir + "/" + name,
                          "%0 = CONST<index> {4}\n%1 = STACK<index> %0\n"
                          "%2 = PARAM<f32> %1 {0, GLOBAL}\n%3 = CONST<f32> {" +
                              factor + "}\n%4 = MUL<f32> %2, %3\n%5 = STORE %2, %4\n" +
                              "%6 = SINK %5\n")
                    .ok());
  };
  write("a.uop", "2"), write("b.uop", "3");
  const Output cold = RunUopctl(to + "cache explain " + dir + "/a.uop");
  EXPECT_EQ(cold.code, 0) << cold.text;
  EXPECT_NE(cold.text.find("nothing in the cache resembles it"), std::string::npos) << cold.text;
  ASSERT_EQ(RunUopctl(to + "run " + dir + "/a.uop").code, 0);
  const Output hit = RunUopctl(to + "--json cache explain " + dir + "/a.uop");
  const auto json = nlohmann::json::parse(hit.text, nullptr, false).value("data", nlohmann::json());
  ASSERT_TRUE(json.is_object()) << hit.text;
  EXPECT_TRUE(json["cached"].get<bool>());
  // By file against the nearest, and by digest against a file.
  const std::string a = json["a"].get<std::string>();
  for (const std::string& question : {dir + "/b.uop", a + " " + dir + "/b.uop"}) {
    const Output near = RunUopctl(to + "cache explain " + question);
    EXPECT_EQ(near.code, 0) << near.text;
    EXPECT_NE(near.text.find("SINK.0 > STORE.1 > MUL.1 > CONST: value"), std::string::npos)
        << near.text;
    EXPECT_NE(near.text.find("100 % alike"), std::string::npos) << near.text;
  }
  const Output unknown = RunUopctl(to + "cache explain " + std::string(64, '0'));
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.text.find("NOT_FOUND"), std::string::npos) << unknown.text;
}

// What the scheduler knows about a device is in the key, and so also in the answer.
TEST(MainJobTest, CacheExplainNamesWhatTheDeviceHasOtherwise) {
  TemporaryFolder folder;
  const std::string file = folder.path().string() + "/a.uop";
  ASSERT_TRUE(WriteFile(file,
                        "%0 = CONST<index> {4}\n%1 = STACK<index> %0\n"
                        "%2 = PARAM<f32> %1 {0, GLOBAL}\n%3 = ADD<f32> %2, %2\n"
                        "%4 = STORE %2, %3\n%5 = SINK %4\n")
                  .ok());
  for (const int threads : {1, 3}) {
    DaemonProcess daemon(folder.path(), {Cat("--device-cpu-threads=", threads)});
    ASSERT_TRUE(daemon.running());
    const std::string to = Cat("--address ", daemon.listen(), " ");
    if (threads == 3) {
      const Output near = RunUopctl(Cat(to, "cache explain ", file));
      EXPECT_EQ(near.code, 0) << near.text;
      EXPECT_NE(near.text.find("environment: threads\n  a  3\n  b  1"), std::string::npos)
          << near.text;
    }
    ASSERT_EQ(RunUopctl(Cat(to, "run ", file)).code, 0);
    EXPECT_NE(RunUopctl(Cat(to, "cache explain ", file)).text.find("  cached"), std::string::npos);
    daemon.Signal(SIGTERM);
    daemon.Wait();
  }
}

TEST(MainJobTest, WrongFilesAndGraphsAreExplained) {
  TemporaryFolder folder;
  DaemonProcess daemon(folder.path());
  ASSERT_TRUE(daemon.running());
  const std::string dir = folder.path().string(), to = "--address " + daemon.listen() + " ";
  ASSERT_TRUE(
      WriteFile(dir + "/bad.uop", "%0 = CONST<index> {4}\n%1 = STACK<index> %0\n%2 = NEG<f32> %1\n")
          .ok());
  const Output bad = RunUopctl(to + "run " + dir + "/bad.uop");
  EXPECT_NE(bad.code, 0);
  EXPECT_NE(bad.text.find("NEG of index gives index, not f32"), std::string::npos) << bad.text;
  const Output missing = RunUopctl(to + "train-mnist --data " + dir);
  EXPECT_NE(missing.code, 0);
  EXPECT_NE(missing.text.find("images"), std::string::npos) << missing.text;
  const Output nobody = RunUopctl("--address 127.0.0.1:1 --timeout 2 devices");
  EXPECT_NE(nobody.code, 0) << nobody.text;
}

}  // namespace
}  // namespace uopd::e2e
