// SPDX-License-Identifier: MIT
#include "cache/redis/resp.h"

#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "core/base/text.h"

namespace uopd::cache {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxLine = size_t{64} << 10;  // an error may be long; all other lines are short

}  // namespace

std::string WriteCommand(std::span<const std::string_view> words) {
  std::string out = Cat("*", words.size(), kLineEnd);
  for (const std::string_view word : words) Append(out, "$", word.size(), kLineEnd, word, kLineEnd);
  return out;
}

absl::StatusOr<bool> RespReader::Next(RespValue& value) {
  if (buffer_.size() < wanted_ || begin_ == buffer_.size()) return false;
  at_ = begin_;
  values_ = 0;
  value = {};
  const Step step = Read(value, 0);
  if (step == Step::kBad || buffer_.size() - begin_ > limits_.bytes)
    return absl::DataLossError(
        "The server's reply is not of the protocol of Redis, or is too large");
  if (step == Step::kNeedMore) return false;
  begin_ = at_;
  wanted_ = 0;
  if (begin_ == buffer_.size()) {
    buffer_.clear();
    begin_ = 0;
  }
  return true;
}

RespReader::Step RespReader::ReadLine(std::string_view& line) {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  const size_t end = rest.find(kLineEnd);
  if (end == std::string_view::npos) return rest.size() > kMaxLine ? Step::kBad : Step::kNeedMore;
  if (end == 0 || end > kMaxLine) return Step::kBad;
  line = rest.substr(0, end);
  at_ += end + kLineEnd.size();
  return Step::kDone;
}

RespReader::Step RespReader::ReadCount(std::string_view line, int64_t least, int64_t& count) {
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data(), end, count);
  return error == std::errc{} && stop == end && count >= least ? Step::kDone : Step::kBad;
}

RespReader::Step RespReader::ReadText(int64_t size, std::string& text) {
  const auto bytes = static_cast<size_t>(size);
  if (bytes > limits_.bytes) return Step::kBad;
  const size_t need = at_ + bytes + kLineEnd.size();
  if (buffer_.size() < need) {
    wanted_ = need;
    return Step::kNeedMore;
  }
  if (std::string_view(buffer_).substr(at_ + bytes, kLineEnd.size()) != kLineEnd) return Step::kBad;
  text.assign(buffer_, at_, bytes);
  at_ = need;
  return Step::kDone;
}

RespReader::Step RespReader::ReadValues(int64_t count, int depth, RespValue& value) {
  // No memory is reserved by `count`: values that follow need bytes that came.
  for (int64_t i = 0; i < count; ++i) {
    RespValue inner;
    if (const Step step = Read(inner, depth + 1); step != Step::kDone) return step;
    value.values.push_back(std::move(inner));
  }
  return Step::kDone;
}

RespReader::Step RespReader::Read(RespValue& value, int depth) {
  if (depth > limits_.depth || ++values_ > limits_.values) return Step::kBad;
  std::string_view line;
  if (const Step step = ReadLine(line); step != Step::kDone) return step;
  const char type = line.front();
  line.remove_prefix(1);
  int64_t count = 0;
  switch (type) {
    case '_':
      return line.empty() ? Step::kDone : Step::kBad;
    case '+':
    case ',':
    case '(':
      value.kind = RespKind::kText;
      value.text = line;
      return Step::kDone;
    case '-':
      value.kind = RespKind::kError;
      value.text = line;
      return Step::kDone;
    case '#':
      if (line != "t" && line != "f") return Step::kBad;
      value.kind = RespKind::kInteger;
      value.integer = line == "t" ? 1 : 0;
      return Step::kDone;
    case ':':
      value.kind = RespKind::kInteger;
      return ReadCount(line, INT64_MIN, value.integer);
    case '$':
    case '=':
    case '!':
      if (const Step step = ReadCount(line, -1, count); step != Step::kDone) return step;
      if (count < 0) return Step::kDone;
      value.kind = type == '!' ? RespKind::kError : RespKind::kText;
      if (const Step step = ReadText(count, value.text); step != Step::kDone) return step;
      if (type == '=' && value.text.size() < 4) return Step::kBad;
      if (type == '=') value.text.erase(0, 4);  // "txt:"
      return Step::kDone;
    case '*':
    case '~':
    case '%':
    case '>':
      if (const Step step = ReadCount(line, -1, count); step != Step::kDone) return step;
      if (count < 0) return Step::kDone;
      if (static_cast<uint64_t>(count) > limits_.values) return Step::kBad;
      value.kind = type == '>' ? RespKind::kPush : RespKind::kArray;
      return ReadValues(type == '%' ? 2 * count : count, depth, value);
    default:
      return Step::kBad;
  }
}

}  // namespace uopd::cache
