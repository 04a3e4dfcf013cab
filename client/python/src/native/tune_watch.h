// SPDX-License-Identifier: MIT
// TuneWatch: what a client learns about one tuning operation, while a thread of its own reads the
// stream.
//
//   reading ──► the operation is over, or an error ──► ended
//      │ ▲
//      └─┘  the daemon went away: the stream is opened again; and for the moment of a fork()
//
// The thread that reads knows nothing of Python. It puts together what it reads, and whoever asks
// takes what changed as one News. So a Python program that is slow gets fewer and larger news. The
// first message of each stream is everything that is known; what was said before is void then
// (News::replaced).
//
// Thread-safe, except for construction, Stop, Start and destruction, which happen under the lock of
// the process (binding.h).
#pragma once
#include <grpcpp/client_context.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "native/client.h"
#include "uopd/v1/uopd.pb.h"

namespace uopd::python {

class TuneWatch {
 public:
  static constexpr uint32_t kMaxKernels = 1 << 16;

  struct News {
    v1::Tune tune;
    std::vector<v1::TunedKernel> kernels;  // that changed, by number, with all known points
    bool replaced = false;                 // earlier kernels are void
  };

  TuneWatch(std::shared_ptr<Box> box, std::string id);
  ~TuneWatch();
  TuneWatch(const TuneWatch&) = delete;
  TuneWatch& operator=(const TuneWatch&) = delete;

  uint64_t epoch() const { return epoch_; }
  // Waits for news, or for the end. False: nothing came in this time.
  bool WaitFor(absl::Duration time);
  // What came since the last call. OK without news: it is over. REQUIRES: WaitFor returned true.
  struct Taken {
    absl::Status end;
    std::optional<News> news;
  };
  Taken Take();

  // Ends the stream and joins the thread; nothing comes any more until Start.
  void Stop();
  void Start();
  // Stops for good, and lets the connection go.
  void Close();

 private:
  void Read();
  void Add(const v1::WatchTuneResponse& message, bool first);

  std::shared_ptr<Box> box_;
  std::string id_;  // the client's, then the whole one
  const uint64_t epoch_ = Epoch();
  std::mutex mutex_;
  std::condition_variable changed_;
  grpc::ClientContext* call_ = nullptr;  // in progress
  bool stopping_ = false, ready_ = false, ended_ = false;
  absl::Status end_;
  v1::Tune tune_;
  std::map<uint32_t, v1::TunedKernel> kernels_;  // all, with all known points
  std::set<uint32_t> changed_kernels_;           // since the last Take
  bool replaced_ = false;
  std::thread reader_;
};

}  // namespace uopd::python
