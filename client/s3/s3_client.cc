// SPDX-License-Identifier: MIT
#include "client/s3/s3_client.h"

#include <curl/curl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/digest.h"
#include "core/base/status.h"
#include "core/base/text.h"

namespace uopd::s3 {
namespace {

using std::chrono::duration_cast;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr size_t kMaxErrorBytes = size_t{16} << 10;
constexpr size_t kMaxCodeBytes = 64;

struct CloseFile {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, CloseFile>;
struct EndEasy {
  void operator()(CURL* easy) const { curl_easy_cleanup(easy); }
};
struct FreeList {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using List = std::unique_ptr<curl_slist, FreeList>;

void Append(List& list, const std::string& text) {
  curl_slist* longer = curl_slist_append(list.get(), text.c_str());
  UOPD_CHECK(longer != nullptr);
  std::ignore = list.release();
  list.reset(longer);
}

// `error`: errno right after the call that failed. Later calls, such as those of libcurl, change
// errno.
absl::Status FileError(const char* what, int error) {
  return absl::ErrnoToStatus(error, Cat("the file ", what));
}

// Whether a failure of the connection may be gone a moment later. A certificate that is refused now
// will be refused later.
bool MayPass(CURLcode code) {
  constexpr std::array kPassing = {
      CURLE_COULDNT_RESOLVE_HOST, CURLE_COULDNT_CONNECT, CURLE_OPERATION_TIMEDOUT,
      CURLE_GOT_NOTHING,          CURLE_SEND_ERROR,      CURLE_RECV_ERROR,
      CURLE_PARTIAL_FILE,         CURLE_HTTP2,           CURLE_HTTP2_STREAM};
  return std::ranges::find(kPassing, code) != kPassing.end();
}

absl::Status RefusalOf(int64_t http, const std::string& code) {
  const std::string message = Cat("the S3 server answers ", http, code.empty() ? "" : " ", code);
  if (http == 404) return absl::NotFoundError(message);
  if (http == 401 || http == 403) return absl::PermissionDeniedError(message);
  if (http == 429 || http >= 500) return absl::UnavailableError(message);
  return absl::FailedPreconditionError(message);
}

// What the callbacks of one object know.
struct Transfer {
  bool put = false;
  File file;
  uint64_t bytes = 0;  // of the file that is put, or of what came
  uint64_t max_bytes = 0;
  std::string hash;  // SHA-256 of what is sent
  CURL* easy = nullptr;
  std::string error_body;
  bool too_large = false;
  int file_error = 0;         // errno of the first call for the file that failed in a callback
  bool file_is_used = false;  // it is not at its beginning, or not empty, as the next try needs it

  // Hashes the file and goes back to its beginning.
  absl::Status Prepare() {
    Hasher hasher;
    if (put) {
      std::string piece(size_t{1} << 20, '\0');
      while (const size_t n = std::fread(piece.data(), 1, piece.size(), file.get())) {
        bytes += n;
        if (bytes > max_bytes)
          return absl::ResourceExhaustedError(
              Cat("an object has at most ", max_bytes, " bytes: choose fewer entries by a filter"));
        hasher.Update(std::string_view(piece).substr(0, n));
      }
      const int error = errno;
      if (std::ferror(file.get()) != 0) return FileError("cannot be read", error);
      file_is_used = true;
    }
    hash = hasher.Finish().Hex();
    return absl::OkStatus();
  }
  absl::Status Rewind() {
    error_body.clear();
    too_large = false;
    file_error = 0;
    // A file that is new need not be one that can be truncated.
    if (!std::exchange(file_is_used, true)) return absl::OkStatus();
    if (!put) bytes = 0;
    if (std::fflush(file.get()) != 0 || std::fseek(file.get(), 0, SEEK_SET) != 0 ||
        (!put && ftruncate(fileno(file.get()), 0) != 0))
      return FileError("cannot be used again", errno);
    return absl::OkStatus();
  }

  static size_t OnBody(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    long http = 0;  // NOLINT(google-runtime-int): libcurl's own
    curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &http);
    if (transfer.put || http != 200) {
      std::string& body = transfer.error_body;
      body.append(data, std::min(size, kMaxErrorBytes - std::min(kMaxErrorBytes, body.size())));
      return size;
    }
    transfer.too_large = size > transfer.max_bytes - transfer.bytes;
    if (transfer.too_large) return 0;
    transfer.bytes += size;
    if (std::fwrite(data, 1, size, transfer.file.get()) == size) return size;
    transfer.file_error = errno;
    return 0;
  }
  static size_t OnSend(char* data, size_t, size_t size, void* self) {
    auto& transfer = *static_cast<Transfer*>(self);
    const size_t n = std::fread(data, 1, size, transfer.file.get());
    const int error = errno;
    if (n != 0 || std::ferror(transfer.file.get()) == 0) return n;
    transfer.file_error = error;
    return CURL_READFUNC_ABORT;
  }
  // curl sends the body again on a new connection if the server closed the old one in between.
  static int OnSeek(void* self, curl_off_t offset, int origin) {
    auto& transfer = *static_cast<Transfer*>(self);
    if (fseeko(transfer.file.get(), offset, origin) == 0) return CURL_SEEKFUNC_OK;
    transfer.file_error = errno;
    return CURL_SEEKFUNC_FAIL;
  }
};

// One try. True in `again`: another one may do better.
absl::Status Try(const Options& options, const ObjectName& name, Transfer& transfer,
                 steady_clock::time_point deadline, bool& again) {
  const std::unique_ptr<CURL, EndEasy> easy(curl_easy_init());
  if (easy == nullptr) return absl::UnavailableError("libcurl does not start");
  transfer.easy = easy.get();
  const auto set = [&](auto option, auto value) {
    UOPD_CHECK(curl_easy_setopt(easy.get(), option, value) == CURLE_OK);
  };
  const auto long_of = [](auto duration) {
    return static_cast<long>(std::max<int64_t>(duration.count(), 1));  // NOLINT(google-runtime-int)
  };
  const std::string url = HttpUrlOf(name, options.endpoint, options.region);
  const std::string signature = Cat("aws:amz:", options.region, ":s3");
  std::array<char, CURL_ERROR_SIZE> words{};
  List headers;
  Append(headers, Cat("x-amz-content-sha256: ", transfer.hash));
  if (!options.credentials.token.empty())
    Append(headers, Cat("x-amz-security-token: ", options.credentials.token));
  if (transfer.put) Append(headers, "Content-Type: application/octet-stream");
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PATH_AS_IS, 1L);  // what was signed is what is sent
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 0L);
  set(CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));  // NOLINT(google-runtime-int)
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_AWS_SIGV4, signature.c_str());
  set(CURLOPT_USERNAME, options.credentials.id.c_str());
  set(CURLOPT_PASSWORD, options.credentials.secret.c_str());
  set(CURLOPT_HTTPHEADER, headers.get());
  set(CURLOPT_SSL_VERIFYPEER, 1L);
  set(CURLOPT_SSL_VERIFYHOST, 2L);
  if (!options.ca_file.empty()) set(CURLOPT_CAINFO, options.ca_file.c_str());
  set(CURLOPT_TIMEOUT_MS, long_of(duration_cast<milliseconds>(deadline - steady_clock::now())));
  set(CURLOPT_CONNECTTIMEOUT_MS, long_of(options.stall / 3));
  set(CURLOPT_LOW_SPEED_LIMIT, 1024L);
  set(CURLOPT_LOW_SPEED_TIME, long_of(duration_cast<seconds>(options.stall)));
  set(CURLOPT_ERRORBUFFER, words.data());
  set(CURLOPT_WRITEFUNCTION, &Transfer::OnBody);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  if (transfer.put) {
    set(CURLOPT_UPLOAD, 1L);
    set(CURLOPT_READFUNCTION, &Transfer::OnSend);
    set(CURLOPT_READDATA, static_cast<void*>(&transfer));
    set(CURLOPT_SEEKFUNCTION, &Transfer::OnSeek);
    set(CURLOPT_SEEKDATA, static_cast<void*>(&transfer));
    set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(transfer.bytes));
  }
  const CURLcode code = curl_easy_perform(easy.get());
  transfer.easy = nullptr;
  if (transfer.too_large)
    return absl::ResourceExhaustedError(
        Cat("the object has more than ", options.max_bytes, " bytes"));
  if (transfer.file_error != 0)
    return FileError(transfer.put ? "cannot be read" : "cannot be written", transfer.file_error);
  if (code != CURLE_OK) {
    again = MayPass(code);
    return absl::UnavailableError(words[0] != '\0' ? words.data() : curl_easy_strerror(code));
  }
  long http = 0;  // NOLINT(google-runtime-int): libcurl's own
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &http);
  if (http == 200) return absl::OkStatus();
  again = http == 429 || http >= 500;
  return RefusalOf(http, ErrorCodeOf(transfer.error_body));
}

}  // namespace

std::string ErrorCodeOf(std::string_view body) {
  constexpr std::string_view kOpen = "<Code>", kClose = "</Code>";
  const size_t open = body.find(kOpen);
  if (open == std::string_view::npos) return {};
  const std::string_view rest = body.substr(open + kOpen.size());
  const std::string_view code = rest.substr(0, rest.find(kClose));
  const bool word =
      code.size() < rest.size() && code.size() <= kMaxCodeBytes &&
      std::ranges::all_of(code, [](unsigned char c) { return absl::ascii_isalnum(c); });
  return word ? std::string(code) : std::string();
}

absl::Status S3Client::Get(const ObjectName& name, const std::string& path) {
  return Run(name, path, false);
}

absl::Status S3Client::Put(const ObjectName& name, const std::string& path) {
  return Run(name, path, true);
}

absl::Status S3Client::Run(const ObjectName& name, const std::string& path, bool put) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (started != CURLE_OK) return absl::UnavailableError("libcurl does not start");
  const auto run = [&]() -> absl::Status {
    UOPD_TRY(CheckEndpoint(options_.endpoint));
    Transfer transfer{.put = put, .max_bytes = options_.max_bytes};
    transfer.file.reset(std::fopen(path.c_str(), put ? "rbe" : "w+be"));
    if (transfer.file == nullptr) return FileError("cannot be opened", errno);
    UOPD_TRY(transfer.Prepare());
    const auto deadline = steady_clock::now() + options_.timeout;
    milliseconds pause = options_.pause;
    for (int i = 1;; ++i, pause *= 2) {
      UOPD_TRY(transfer.Rewind());
      bool again = false;
      absl::Status status = Try(options_, name, transfer, deadline, again);
      if (status.ok() && !put && std::fflush(transfer.file.get()) != 0)
        return FileError("cannot be written", errno);
      if (status.ok() || !again || i >= options_.tries || steady_clock::now() + pause >= deadline)
        return status;
      std::this_thread::sleep_for(pause);
    }
  };
  absl::Status status = run();
  return status.ok() ? status : WithFrame(status, Cat(put ? "writing " : "reading ", TextOf(name)));
}

}  // namespace uopd::s3
