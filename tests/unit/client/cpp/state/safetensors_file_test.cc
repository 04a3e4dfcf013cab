// SPDX-License-Identifier: MIT
// Safetensors: the header's rules one by one, random mutations of it, files, and what is written.
#include "uopd/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "core/base/text.h"
#include "tests/unit/client/cpp/fixture.h"

namespace uopd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string WithLength(std::string_view json, uint64_t length) {
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out += json;
}
std::string WithLength(std::string_view json) { return WithLength(json, json.size()); }

// What ParseSafetensors says to a header in front of `data` bytes.
std::string Complaint(std::string_view json, uint64_t data) {
  const std::string start = WithLength(json);
  const auto header = ParseSafetensors(start, start.size() + data);
  return header.ok() ? "" : StatusText(header.status());
}

std::string OneTensor(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return Cat(R"({"w":{"dtype":")", dtype, R"(","shape":)", shape, R"(,"data_offsets":)", offsets,
             "}}");
}

TEST(Safetensors, ReadsTensorsAndMetadataInTheirOrder) {
  const std::string start = WithLength(
      R"({"b":{"shape":[2,3],"data_offsets":[2,14],"dtype":"F16"},"__metadata__":{"k":"v","e":""},)"
      R"("a\u00e9":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"none":{"dtype":"F64","shape":[0,7],"data_offsets":[14,14]},)"
      R"("one":{"dtype":"BOOL","shape":[],"data_offsets":[14,15]}}   )");
  const auto header = ParseSafetensors(start, start.size() + 15);
  ASSERT_TRUE(header.ok()) << header.status();
  ASSERT_EQ(header->entries.size(), 4u);
  EXPECT_EQ(header->entries[0].name, "b");
  EXPECT_EQ(header->entries[0].dtype, Dtype::F16);
  EXPECT_EQ(header->entries[0].dims, (Dims{2, 3}));
  EXPECT_EQ(header->entries[0].begin, 2u);
  EXPECT_EQ(header->entries[1].name, "a\xc3\xa9");
  EXPECT_EQ(header->entries[2].dims, (Dims{0, 7}));
  EXPECT_EQ(header->entries[3].dims, Dims());
  EXPECT_THAT(header->metadata, ElementsAre(Pair("k", "v"), Pair("e", "")));
  EXPECT_EQ(header->data_start, start.size());
  EXPECT_EQ(Complaint("{}", 0), "");
}

TEST(Safetensors, RefusesHeadersThatAreWrong) {
  struct {
    std::string json;
    uint64_t data;
    std::string_view says;
  } const cases[] = {
      {"", 0, "does not begin with `{`"},
      {" {}", 0, "does not begin with `{`"},
      {"[]", 0, "does not begin with `{`"},
      {"{", 0, "no JSON, at its byte 2"},
      {"{}{}", 0, "no JSON"},
      {"{} x", 0, "no JSON"},
      {std::string("{}\0{", 4), 0, "has a zero byte"},
      {"{\"w\":1}", 0, "tensor `w` is a number, not an object"},
      {"{\"w\":[[[[[[", 0, "tensor `w` is a list, not an object"},
      {"{\"w\":{}}", 0, "tensor `w` has no dtype"},
      {"{\"w\":{\"dtype\":\"U8\"}}", 0, "tensor `w` has no shape"},
      {"{\"w\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "tensor `w` has no data_offsets"},
      {"{\"w\":{\"dtype\":3}}", 0, "the dtype is a number, not a string"},
      {"{\"w\":{\"dtype\":{}}}", 0, "the dtype is an object, not a string"},
      {"{\"w\":{\"shape\":\"1\"}}", 0, "the shape is a string, not a list"},
      {"{\"w\":{\"shape\":[[1]]}}", 0, "the shape holds a list"},
      {"{\"w\":{\"more\":1}}", 0, "tensor `w` has an unknown field `more`"},
      {"{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "tensor `w` has dtype twice"},
      {OneTensor("U8", "[1]", "[0,1]")
           .insert(1, "\"w\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"),
       1, "`w` twice"},
      {OneTensor("F4", "[1]", "[0,1]"), 1, "the dtype `F4`, which is not supported"},
      {OneTensor("f32", "[1]", "[0,4]"), 4, "the dtype `f32`, which is not supported"},
      {OneTensor("U8", "[-1]", "[0,1]"), 1, "the shape holds the number -1"},
      {OneTensor("U8", "[1.0]", "[0,1]"), 1, "the shape holds the number `1.0`"},
      {OneTensor("U8", "[18446744073709551617]", "[0,1]"), 1, "the shape holds the number"},
      {OneTensor("U8", "[18446744073709551615]", "[0,1]"), 1, "an axis of 18446744073709551615"},
      {OneTensor("U8", "[16777216,16777216,16777216,16777216]", "[0,0]"), 0, "more than 2^48"},
      {OneTensor("U8", "[true]", "[0,1]"), 1, "the shape holds a bool"},
      {OneTensor("U8", "[null]", "[0,1]"), 1, "the shape holds null"},
      {OneTensor("U8",
                 Cat("[",
                     std::string(64, '1').replace(
                         1, 63, ",1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1"),
                     "]"),
                 "[0,1]"),
       1, "more than 32 axes"},
      {OneTensor("U8", "[1]", "[0]"), 1, "data_offsets are not two numbers"},
      {OneTensor("U8", "[1]", "[]"), 1, "data_offsets are not two numbers"},
      {OneTensor("U8", "[1]", "[0,1,2]"), 1, "data_offsets are not two numbers"},
      {OneTensor("U8", "[1]", "[0,\"1\"]"), 1, "data_offsets hold a string"},
      {OneTensor("U8", "[1]", "{}"), 1, "data_offsets is an object, not a list"},
      {OneTensor("U8", "[1]", "[1,0]"), 1, "the data_offsets 1 and 0"},
      {OneTensor("U8", "[1]", "[0,18446744073709551615]"), 1, "the file has 1 bytes of data"},
      {OneTensor("U8", "[2]", "[0,2]"), 1, "the file has 1 bytes of data"},
      {OneTensor("F32", "[2]", "[0,4]"), 4, "takes 8 bytes; its data_offsets give it 4"},
      {OneTensor("U8", "[1]", "[1,2]"), 2,
       "begins at byte 1 of the data; the one before ends at 0"},
      {OneTensor("U8", "[1]", "[0,1]"), 2, "the tensors take 1 bytes; the file has 2"},
      {"{}", 1, "the tensors take 0 bytes; the file has 1"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "tensor `b` begins at byte 1"},
      {R"({"__metadata__":3})", 0, "__metadata__ is a number, not an object"},
      {R"({"__metadata__":{"a":3}})", 0, "the metadata `a` is a number, not a string"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "the metadata has `a` twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "`__metadata__` twice"},
      {"{\"\xff\":1}", 0, "no JSON, at its byte 3"},
      {"{\"\xc3\":1}", 0, "no JSON"},
      {"{\"\\ud800\":1}", 0, "no JSON"},
      {"{\"a\nb\":1}", 0, "no JSON"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Complaint(c.json, c.data), HasSubstr(c.says)) << c.json;
  }
  // Messages are UTF-8 whatever the header holds, and long names are cut.
  EXPECT_THAT(Complaint("{\"\xff\":1}", 0), HasSubstr("?"));
  std::string name = "x";
  for (int i = 0; i < 100; ++i) name += "\xc3\xa9";
  EXPECT_THAT(Complaint(Cat("{\"", name, "\":1}"), 0),
              HasSubstr(Cat("`", name.substr(0, 79), "...`")));
  // Nesting is refused where it begins, and costs no stack.
  const std::string deep(5'000'000, '[');
  EXPECT_THAT(Complaint(Cat("{\"w\":", deep), 0), HasSubstr("is a list, not an object"));
}

TEST(Safetensors, RefusesLengthsThatAreWrong) {
  auto says = [](std::string_view start, uint64_t bytes) {
    const auto end = SafetensorsHeaderEnd(start, bytes);
    return end.ok() ? "" : StatusText(end.status());
  };
  EXPECT_THAT(says("abc", 3), HasSubstr("the file has 3 bytes"));
  EXPECT_THAT(says(WithLength("", 1), 8), HasSubstr("the file has 0 behind that number"));
  EXPECT_THAT(says(WithLength("", 100'000'001), uint64_t{1} << 40),
              HasSubstr("more than 100000000"));
  EXPECT_THAT(says(WithLength("", ~uint64_t{0}), 100), HasSubstr("more than 100000000"));
  EXPECT_EQ(says(WithLength("", 100'000'000), 100'000'008), "");
  EXPECT_FALSE(ParseSafetensors(WithLength("{", 2), 10).ok());
}

std::vector<SafetensorsEntry> RandomEntries(std::mt19937_64& random) {
  constexpr Dtype kKinds[] = {Dtype::Bool, Dtype::U8,   Dtype::I8,     Dtype::U16, Dtype::I16,
                              Dtype::U32,  Dtype::I32,  Dtype::U64,    Dtype::I64, Dtype::F8E4M3,
                              Dtype::F16,  Dtype::BF16, Dtype::F8E5M2, Dtype::F32, Dtype::F64};
  constexpr std::string_view kLetters[] = {"a",        "b.",
                                           "\"",       "\\",
                                           "\n",       "\x7f",
                                           "\xc3\xa9", "\xf0\x9f\x98\x80",
                                           "{",        std::string_view("\0", 1)};
  std::vector<SafetensorsEntry> out(random() % 6);
  for (size_t i = 0; i < out.size(); ++i) {
    out[i].name = std::to_string(i);
    for (uint64_t n = random() % 5; n > 0; --n)
      out[i].name += kLetters[random() % std::size(kLetters)];
    out[i].dtype = kKinds[random() % std::size(kKinds)];
    for (uint64_t n = random() % 4; n > 0; --n)
      out[i].dims.push_back(static_cast<int64_t>(random() % 5));
  }
  return out;
}

// The tensors fill the data without gaps, each with the bytes of its shape.
void CheckHeader(const SafetensorsHeader& header, uint64_t data) {
  std::vector<std::pair<uint64_t, uint64_t>> parts;
  for (const SafetensorsEntry& e : header.entries) {
    ASSERT_EQ(e.end - e.begin, static_cast<uint64_t>(ir::Product(e.dims) * ir::ByteSize(e.dtype)));
    parts.emplace_back(e.begin, e.end);
  }
  std::sort(parts.begin(), parts.end());
  uint64_t at = 0;
  for (const auto& [begin, end] : parts) {
    ASSERT_EQ(begin, at);
    at = end;
  }
  ASSERT_EQ(at, data);
}

TEST(Safetensors, ReadsWhatItWrites) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::vector<SafetensorsEntry> entries = RandomEntries(random);
    const SafetensorsMetadata metadata = {{"x\"", "y\n\xe2\x82\xac"}, {"", std::to_string(round)}};
    const auto start = FormatSafetensors(entries, metadata);
    ASSERT_TRUE(start.ok()) << start.status();
    ASSERT_EQ(start->size() % 8, 0u);
    uint64_t data = 0;
    for (const SafetensorsEntry& e : entries) {
      data = std::max(data, e.end);
      if (e.end > e.begin) {
        ASSERT_EQ(e.begin % static_cast<uint64_t>(ir::ByteSize(e.dtype)), 0u);
      }
    }
    const auto header = ParseSafetensors(*start, start->size() + data);
    ASSERT_TRUE(header.ok()) << header.status();
    ASSERT_EQ(header->metadata, metadata);
    ASSERT_EQ(header->entries.size(), entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      ASSERT_EQ(header->entries[i].name, entries[i].name);
      ASSERT_EQ(header->entries[i].dtype, entries[i].dtype);
      ASSERT_EQ(header->entries[i].dims, entries[i].dims);
      ASSERT_EQ(header->entries[i].begin, entries[i].begin);
    }
    CheckHeader(*header, data);
  }
}

TEST(Safetensors, MutatedHeadersGiveErrorsOrValidHeaders) {
#ifdef UOPD_SANITIZED
  constexpr int kRounds = 20'000;
#else
  constexpr int kRounds = 150'000;
#endif
  constexpr std::string_view kPieces[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          ",",
                                          ":",
                                          "\"",
                                          "\\u",
                                          "0",
                                          "9999999999999999999",
                                          "-",
                                          "1e9",
                                          "null",
                                          "\"shape\"",
                                          "\"dtype\":\"F32\"",
                                          "\"data_offsets\":[0,0]",
                                          "\xff",
                                          "\"__metadata__\":{",
                                          " "};
  std::mt19937_64 random(9);
  std::vector<std::pair<std::string, uint64_t>> seeds;
  while (seeds.size() < 100) {
    std::vector<SafetensorsEntry> entries = RandomEntries(random);
    const auto start = FormatSafetensors(entries, {{"k", "v"}});
    ASSERT_TRUE(start.ok()) << start.status();
    uint64_t data = 0;
    for (const SafetensorsEntry& e : entries) data = std::max(data, e.end);
    seeds.emplace_back(*start, data);
  }
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto [file, data] = seeds[random() % seeds.size()];
    for (uint64_t n = 1 + random() % 3; n > 0; --n) {
      const size_t at = 8 + random() % (file.size() - 8);
      switch (random() % 6) {
        case 0:
          file[at] = static_cast<char>(random());
          break;
        case 1:
          file[at] ^= static_cast<char>(1 << random() % 8);
          break;
        case 2:
          file.insert(at, kPieces[random() % std::size(kPieces)]);
          break;
        case 3:
          file.erase(at, random() % 9);
          break;
        case 4:
          file.insert(at, file.substr(8 + random() % (file.size() - 8), random() % 40));
          break;
        default:
          data += random() % 3 - 1;
      }
      if (file.size() <= 9) break;
    }
    data = std::min<uint64_t>(data, 1 << 20);
    const uint64_t length = file.size() - 8 + (random() % 20 == 0 ? random() % 5 - 2 : 0);
    std::memcpy(file.data(), &length, sizeof(length));
    const uint64_t bytes = file.size() + data;
    const auto header = ParseSafetensors(file, bytes);
    if (header.ok()) {
      ++accepted;
      CheckHeader(*header, bytes - header->data_start);
    } else {
      ASSERT_EQ(header.status().code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(StatusText(header.status()), HasSubstr("safetensors: "));
    }
  }
  EXPECT_GT(accepted, kRounds / 100);
  EXPECT_LT(accepted, kRounds / 2);
}

class SafetensorsFileTest : public ClientTest {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "uopd-safetensors-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(std::string_view name = "a.safetensors") const {
    return (folder_ / name).string();
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& f : std::filesystem::directory_iterator(folder_))
      out.push_back(f.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  static std::string Contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void Put(const std::string& path, std::string_view contents) {
    std::ofstream(path, std::ios::binary) << contents;
  }

  std::filesystem::path folder_;
};

TEST_F(SafetensorsFileTest, EveryDtypeComesBack) {
  StateDict saved;
  for (const Dtype d : {Dtype::Bool, Dtype::U8, Dtype::I8, Dtype::U16, Dtype::I16, Dtype::U32,
                        Dtype::I32, Dtype::U64, Dtype::I64, Dtype::F8E4M3, Dtype::F8E5M2,
                        Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64})
    saved.emplace_back(std::string(ir::Name(d)), In({3, 2}, {0, 1, 1, 0, 1, 1}, d));
  saved.emplace_back("none", Ramp({0, 4}));
  saved.emplace_back("scalar", Ramp({}, 1, 7));
  saved.emplace_back("lazy", Ramp({70'000}) * 2.0);
  ASSERT_TRUE(SaveSafetensors(Path(), saved, {{"format", "pt"}}).ok());
  EXPECT_THAT(Files(), ElementsAre("a.safetensors"));
  const auto loaded = LoadSafetensors(client_, Path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(loaded->metadata, ElementsAre(Pair("format", "pt")));
  ASSERT_EQ(loaded->tensors.size(), saved.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    EXPECT_EQ(loaded->tensors[i].first, saved[i].first);
    EXPECT_EQ(loaded->tensors[i].second.dtype(), saved[i].second.dtype());
    EXPECT_EQ(loaded->tensors[i].second.dims(), saved[i].second.dims());
    EXPECT_EQ(Out(loaded->tensors[i].second), Out(saved[i].second)) << saved[i].first;
  }
}

TEST_F(SafetensorsFileTest, BoolsBecomeZerosAndOnes) {
  Put(Path(),
      Cat(WithLength(OneTensor("BOOL", "[3]", "[0,3]")), std::string_view("\x00\xff\x02", 3)));
  const auto loaded = LoadSafetensors(client_, Path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_THAT(Out(loaded->tensors[0].second), ElementsAre(0, 1, 1));
}

TEST_F(SafetensorsFileTest, NamesFilesThatCannotBeRead) {
  const auto says = [&](const std::string& path) {
    return StatusText(SafetensorsFile::Open(path).status());
  };
  EXPECT_EQ(SafetensorsFile::Open(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(says(Path("none")), HasSubstr(Path("none")));
  EXPECT_THAT(says(folder_.string()), HasSubstr("is no regular file"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_THAT(says(Path("pipe")), HasSubstr("is no regular file"));
  Put(Path(), "abc");
  EXPECT_THAT(says(Path()), HasSubstr(Cat("(while reading ", Path(), ")")));
  Put(Path(), Cat(WithLength(OneTensor("U8", "[3]", "[0,3]")), "ab"));
  EXPECT_THAT(says(Path()), HasSubstr("the file has 2 bytes of data"));
  // It becomes shorter behind the reader's back.
  Put(Path(), Cat(WithLength(OneTensor("U8", "[3]", "[0,3]")), "abc"));
  const auto file = SafetensorsFile::Open(Path());
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(Path(), std::filesystem::file_size(Path()) - 1);
  EXPECT_EQ(file->Read(file->header().entries[0]).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(SafetensorsFileTest, AFileIsReplacedAsAWholeOrNotAtAll) {
  Put(Path(), "before");
  ASSERT_EQ(chmod(Path().c_str(), 0640), 0);
  {
    auto writer =
        SafetensorsWriter::Create(Path(), {{.name = "w", .dtype = Dtype::U8, .dims = {2}}});
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_FALSE(writer->Write("abc").ok());
    EXPECT_FALSE(writer->Commit().ok());
    EXPECT_TRUE(writer->Write("ab").ok());
    EXPECT_FALSE(writer->Write("ab").ok());
    EXPECT_EQ(Contents(Path()), "before");
    EXPECT_EQ(Files().size(), 2u);
  }
  EXPECT_THAT(Files(), ElementsAre("a.safetensors"));
  EXPECT_EQ(Contents(Path()), "before");
  std::filesystem::create_symlink("a.safetensors", Path("link"));
  ASSERT_TRUE(SaveSafetensors(Path("link"), {{"w", In({2}, {65, 66}, Dtype::U8)}}).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_THAT(Contents(Path()), ::testing::EndsWith("AB"));
  struct stat about{};
  ASSERT_EQ(stat(Path().c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
  // A tensor that cannot be computed leaves the file alone.
  const std::string kept = Contents(Path());
  EXPECT_FALSE(SaveSafetensors(Path(), {{"w", Ramp({2}) + Ramp({3})}}).ok());
  EXPECT_FALSE(SaveSafetensors(Path(), {{"w", Ramp({2})}, {"w", Ramp({2})}}).ok());
  EXPECT_FALSE(SaveSafetensors(Path(), {{"\xff", Ramp({2})}}).ok());
  EXPECT_FALSE(SaveSafetensors(Path(), {{"__metadata__", Ramp({2})}}).ok());
  EXPECT_FALSE(SaveSafetensors(folder_.string(), {}).ok());
  EXPECT_EQ(SaveSafetensors(Path("no/where"), {}).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Contents(Path()), kept);
  EXPECT_THAT(Files(), ElementsAre("a.safetensors", "link"));
}

TEST_F(SafetensorsFileTest, LoadingKeepsOneTensorInMemoryAtATime) {
  StateDict saved;
  for (int i = 0; i < 5; ++i) saved.emplace_back(Cat("t", i), Ramp({1000}, 1, i));
  ASSERT_TRUE(SaveSafetensors(Path(), saved).ok());
  const uint64_t before = client_.stats().uploaded_bytes;
  const auto loaded = LoadSafetensors(client_, Path());
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  // They were sent by themselves, although they would fit into a request.
  EXPECT_EQ(client_.stats().uploaded_bytes - before, 5u * 4000);
  EXPECT_EQ(Out(loaded->tensors[4].second)[1], 5);
}

}  // namespace
}  // namespace uopd::client
