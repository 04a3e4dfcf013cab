// SPDX-License-Identifier: MIT
#include "client/cli/http_get.h"

#include <curl/curl.h>

#include <cmath>
#include <cstdlib>
#include <memory>

#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::cli {
namespace {

constexpr size_t kMaxAnswer = 64 << 20;

struct EndEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};

size_t OnBody(char* data, size_t, size_t size, void* answer) {
  auto& text = *static_cast<std::string*>(answer);
  if (text.size() + size > kMaxAnswer) return 0;
  text.append(data, size);
  return size;
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const std::string& address, const std::string& path,
                                    double timeout_s) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, EndEasy> easy(started == CURLE_OK ? curl_easy_init() : nullptr);
  if (easy == nullptr) return absl::UnavailableError("libcurl does not start");
  std::string answer;
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(easy.get(), option, value);
  };
  set(CURLOPT_URL, Cat("http://", address, path).c_str());
  set(CURLOPT_PROTOCOLS_STR, "http");
  set(CURLOPT_PROXY, "");  // the daemon is a machine that is named, and no page of the world
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_TIMEOUT_MS, std::lround(timeout_s * 1e3));  // of the whole transfer
  set(CURLOPT_WRITEFUNCTION, OnBody);
  set(CURLOPT_WRITEDATA, &answer);
  const CURLcode code = curl_easy_perform(easy.get());
  if (code == CURLE_WRITE_ERROR)
    return absl::ResourceExhaustedError(
        Cat(address, " answers with more than ", kMaxAnswer, " bytes"));
  if (code == CURLE_OPERATION_TIMEDOUT)
    return absl::DeadlineExceededError(
        Cat(address, " has not answered as a whole within ", timeout_s, " s"));
  if (code != CURLE_OK)
    return absl::UnavailableError(
        Cat("GET of ", path, " from ", address, ": ", curl_easy_strerror(code)));
  long status = 0;  // NOLINT(google-runtime-int): libcurl's own
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status != 200)
    return absl::UnavailableError(Cat(address, " answers ", path, " with status ", status));
  // A head that is cut off looks like an answer without a body, and no page of the daemon is empty.
  if (answer.empty())
    return absl::UnavailableError(Cat(address, " answers ", path, " with nothing"));
  return answer;
}

absl::StatusOr<std::string> GetMetrics(const std::string& address, double timeout_s) {
  UOPD_ASSIGN(std::string page, HttpGet(address, "/metrics", timeout_s));
  if (page.find("# TYPE uopd_") == std::string::npos)
    return absl::UnavailableError(Cat(address, " answers, but not with the metrics of a daemon"));
  return page;
}

namespace {

// Reads one line; false: it is no sample.
bool ReadSample(std::string_view line, Sample& out) {
  if (line.empty() || line.front() == '#') return false;
  const size_t name_end = line.find_first_of("{ ");
  if (name_end == std::string_view::npos || name_end == 0) return false;
  out.name = line.substr(0, name_end);
  size_t at = name_end;
  if (line[at] == '{') {
    for (++at; at < line.size() && line[at] != '}';) {
      const size_t equals = line.find("=\"", at);
      if (equals == std::string_view::npos) return false;
      auto& [key, value] = out.labels.emplace_back(std::string(line.substr(at, equals - at)), "");
      for (at = equals + 2; at < line.size() && line[at] != '"'; ++at) {
        if (line[at] != '\\' || at + 1 == line.size()) {
          value += line[at];
        } else {
          value += line[++at] == 'n' ? '\n' : line[at];
        }
      }
      ++at;
      if (at < line.size() && line[at] == ',') ++at;
    }
    if (at >= line.size()) return false;
    ++at;
  }
  const size_t begin = line.find_first_not_of(' ', at);
  if (begin == std::string_view::npos) return false;
  const std::string number(line.substr(begin, line.find(' ', begin) - begin));
  char* end = nullptr;
  out.value = std::strtod(number.c_str(), &end);  // also +Inf and NaN
  return end != number.c_str() && *end == '\0';
}

}  // namespace

std::vector<Sample> ReadSamples(const std::string& page) {
  std::vector<Sample> out;
  for (size_t at = 0; at < page.size();) {
    const size_t end = std::min(page.find('\n', at), page.size());
    Sample sample;
    if (ReadSample(std::string_view(page).substr(at, end - at), sample))
      out.push_back(std::move(sample));
    at = end + 1;
  }
  return out;
}

}  // namespace uopd::cli
