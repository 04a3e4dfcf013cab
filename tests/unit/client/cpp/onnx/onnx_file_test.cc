// SPDX-License-Identifier: MIT
// ONNX files: opening them, reading tensors, and external data that want to be somewhere else.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "tests/support/onnx/wire_tree.h"
#include "tests/unit/client/cpp/onnx/onnx_complaint.h"

namespace uopd::client {
namespace {

using test::OnnxElsewhere;
using test::OnnxInitializer;
using test::OnnxModelOf;
using test::Text;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OnnxFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "uopd-onnx-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    outside_ = name;
    folder_ = outside_ / "model";
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(outside_); }
  std::string Path(std::string_view name = "a.onnx") const { return (folder_ / name).string(); }
  static void Put(const std::string& path, std::string_view contents) {
    std::ofstream(path, std::ios::binary) << contents;
  }
  // Reads a tensor of eight bytes from a location; returns them, or what is wrong.
  std::string External(const std::string& location, std::string_view offset = "0") {
    Put(Path(), OnnxModelOf({OnnxElsewhere(
                    "w", {2}, 1, {{"location", location}, {"offset", std::string(offset)}})}));
    const auto file = OnnxFile::Open(Path());
    if (!file.ok()) return StatusText(file.status());
    std::string out(8, '\0');
    const absl::Status status = file->Read(*file->model().graph.FindInitializer("w"), out);
    code_ = status.code();
    return status.ok() ? out : StatusText(status);
  }

  std::filesystem::path outside_, folder_;
  absl::StatusCode code_ = absl::StatusCode::kOk;
};

// A window of the parser has 64 KiB.
TEST_F(OnnxFileTest, ReadsTensors) {
  std::string large(300'000, 'x');
  large.back() = 'y';
  std::vector<test::WireTree> graph = {Text(2, "name"),
                                       OnnxInitializer("large", {75'000}, 1, {Text(9, large)}),
                                       OnnxInitializer("s", {1}, 8, {Text(6, "text")})};
  std::vector<int64_t> ints;
  for (int64_t i = 0; i < 100'000; ++i) ints.push_back(i * i * i - 1000);
  graph.push_back(OnnxInitializer("ints", {100'000}, 7, {test::PackedInts(7, ints)}));
  graph.push_back(test::OnnxNodeOf("Relu", {Text(6, large)}));
  Put(Path(), OnnxModelOf(graph));
  auto opened = OnnxFile::Open(Path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  const OnnxFile file = *std::move(opened);  // its strings stay where they are
  const OnnxGraph& g = file.model().graph;
  EXPECT_EQ(g.name, "name");
  EXPECT_EQ(g.nodes.at(0).doc_string, large);
  EXPECT_EQ(g.FindInitializer("s")->strings.at(0), "text");
  std::string out(large.size(), '\0');
  ASSERT_TRUE(file.Read(*g.FindInitializer("large"), out).ok());
  EXPECT_EQ(out, large);
  std::vector<int64_t> read(ints.size());
  ASSERT_TRUE(
      file.Read(*g.FindInitializer("ints"), {reinterpret_cast<char*>(read.data()), read.size() * 8})
          .ok());
  EXPECT_EQ(read, ints);
  EXPECT_EQ(StatusText(file.Read(*g.FindInitializer("large"), std::span(out).first(3))),
            "a tensor of 300000 bytes is read into 3 bytes (while reading tensor `large`)");
  ASSERT_EQ(truncate(Path().c_str(), 1000), 0);
  EXPECT_EQ(file.Read(*g.FindInitializer("large"), out).code(), absl::StatusCode::kDataLoss);
}

// The contents of a tensor are stepped over: a hole of a TiB takes no time.
TEST_F(OnnxFileTest, FilesMayBeLargerThanMemory) {
  constexpr uint64_t kBytes = uint64_t{1} << 40;
  std::string tensor = test::Written(test::OnnxTensorFields("w", {int64_t{1} << 38}, 1));
  tensor += '\x4a';  // raw_data
  test::PutVarint(tensor, kBytes);
  std::string head = "\x2a";
  test::PutVarint(head, tensor.size() + kBytes);
  std::string file = "\x3a";
  test::PutVarint(file, head.size() + tensor.size() + kBytes);
  Put(Path(), file + head + tensor);
  const uint64_t bytes = file.size() + head.size() + tensor.size() + kBytes;
  ASSERT_EQ(truncate(Path().c_str(), static_cast<off_t>(bytes)), 0) << std::strerror(errno);
  const auto opened = OnnxFile::Open(Path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->model().graph.initializers.at(0).bytes(), kBytes);
}

TEST_F(OnnxFileTest, NamesFilesThatCannotBeRead) {
  const auto says = [](const std::string& path) {
    return StatusText(OnnxFile::Open(path).status());
  };
  EXPECT_EQ(OnnxFile::Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(says(Path("none")), HasSubstr("/none"));
  EXPECT_THAT(says("/nowhere/model.onnx"), HasSubstr("opening /nowhere"));
  EXPECT_THAT(says(folder_.string()), HasSubstr("is no regular file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(says(Path("pipe")), HasSubstr("is no regular file"));
  Put(Path(), "\x08");
  EXPECT_THAT(says(Path()), AllOf(HasSubstr("the number at byte 1 goes beyond its message"),
                                  HasSubstr(Cat("(while reading ", Path(), ")"))));
  Put(Path(), "");
  EXPECT_THAT(says(Path()), HasSubstr("the ONNX model has no graph"));
}

TEST_F(OnnxFileTest, ReadsExternalData) {
  std::filesystem::create_directory(Path("inner"));
  Put(Path("w.bin"), "0123456789abcdef");
  Put(Path("inner/w.bin"), "ABCDEFGH");
  EXPECT_EQ(External("w.bin"), "01234567");
  EXPECT_EQ(External("w.bin", "8"), "89abcdef");
  EXPECT_EQ(External("./w.bin", "3"), "3456789a");
  EXPECT_EQ(External("inner/w.bin"), "ABCDEFGH");
  EXPECT_EQ(External(".//inner/./w.bin"), "ABCDEFGH");
  // An open model finds its contents also after its folder got another name.
  const auto file = OnnxFile::Open(Path());
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::rename(folder_, outside_ / "renamed");
  std::string out(8, '\0');
  EXPECT_TRUE(file->Read(file->model().graph.initializers[0], out).ok());
  EXPECT_EQ(out, "ABCDEFGH");
}

TEST_F(OnnxFileTest, RefusesExternalDataOutsideOfItsFolder) {
  Put((outside_ / "secret").string(), "01234567");
  Put(Path("inside"), "01234567");
  std::filesystem::create_directory(Path("inner"));
  std::filesystem::create_symlink("../secret", folder_ / "link");
  std::filesystem::create_symlink("inside", folder_ / "link_inside");
  std::filesystem::create_directory_symlink("..", folder_ / "up");
  std::filesystem::create_directory_symlink("inner", folder_ / "other");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  struct {
    std::string location;
    std::string_view says;
  } const cases[] = {
      {"../secret", "the path `../secret` of its external data leads out of its folder"},
      {"inner/../../secret", "leads out of its folder"},
      {(outside_ / "secret").string(), "is absolute"},
      {"link", "`link` is a link that leads out of the folder of the model"},
      {"up/secret", "`up/secret` is a link that leads out of the folder of the model"},
      {"other/x", "`other/x` goes through a symbolic link, or through what is no folder"},
      {"inside/x", "goes through a symbolic link, or through what is no folder"},
      {"pipe", "`pipe` is no regular file"},
      {"inner", "`inner` is no regular file"},
      {"inner/", "is no regular file"},
      {".", "is no regular file"},
  };
  for (const auto& c : cases) {
    code_ = absl::StatusCode::kInvalidArgument;
    EXPECT_THAT(External(c.location), AllOf(HasSubstr(c.says), HasSubstr("tensor `w`")));
    EXPECT_EQ(code_, absl::StatusCode::kInvalidArgument) << c.location;
  }
  EXPECT_EQ(External("link_inside"), "01234567");
  EXPECT_THAT(External("none"), AllOf(HasSubstr("opening `none`"), HasSubstr("tensor `w`")));
  EXPECT_EQ(code_, absl::StatusCode::kNotFound);
}

// A snapshot has links to blobs beside the snapshots, the model among them.
TEST_F(OnnxFileTest, ReadsFromTheCacheOfTheHub) {
  const std::filesystem::path blobs = outside_ / "blobs", snapshot = outside_ / "snapshots/abc";
  std::filesystem::create_directories(blobs);
  std::filesystem::create_directories(snapshot);
  Put((blobs / "1").string(), OnnxModelOf({OnnxElsewhere("w", {2}, 1, {{"location", "a.data"}})}));
  Put((blobs / "2").string(), "01234567");
  std::filesystem::create_symlink("../../blobs/1", snapshot / "a.onnx");
  std::filesystem::create_symlink("../../blobs/2", snapshot / "a.data");
  std::string out(8, '\0');
  const auto read = [&](const std::filesystem::path& model) {
    const auto file = OnnxFile::Open(model.string());
    if (!file.ok()) return file.status();
    return file->Read(file->model().graph.initializers.at(0), out);
  };
  EXPECT_TRUE(read(snapshot / "a.onnx").ok()) << read(snapshot / "a.onnx");
  EXPECT_EQ(out, "01234567");
  // The folder is that of the path which the user gave, not that of the file behind it.
  EXPECT_EQ(read(blobs / "1").code(), absl::StatusCode::kNotFound);
}

// The memory for contents comes after the check that they are there.
TEST_F(OnnxFileTest, SizesAloneTakeNoMemory) {
  Put(Path("w.bin"), "01234567");
  Put(Path(), OnnxModelOf({OnnxElsewhere("w", {int64_t{1} << 40}, 1, {{"location", "w.bin"}}),
                           OnnxElsewhere("v", {2}, 1, {{"location", "w.bin"}})}));
  const auto file = OnnxFile::Open(Path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto read = [&](std::string_view name) {
    return file->Read(*file->model().graph.FindInitializer(name));
  };
  EXPECT_EQ(StatusText(read("w").status()),
            "`w.bin` has 8 bytes; needed are 4398046511104 from byte 0 (while reading tensor `w`)");
  EXPECT_EQ(read("v").value_or(""), "01234567");
}

TEST_F(OnnxFileTest, RefusesExternalDataBeyondTheirFile) {
  Put(Path("short"), "0123456");
  EXPECT_THAT(External("short"), AllOf(HasSubstr("`short` has 7 bytes; needed are 8 from byte 0"),
                                       HasSubstr("(while reading tensor `w`)")));
  Put(Path("long"), "0123456789");
  EXPECT_EQ(External("long", "2"), "23456789");
  EXPECT_THAT(External("long", "3"), HasSubstr("has 10 bytes; needed are 8 from byte 3"));
  EXPECT_THAT(External("long", "9223372036854775807"), HasSubstr("needed are 8 from byte 92233"));
  EXPECT_EQ(code_, absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace uopd::client
