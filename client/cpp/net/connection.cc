// SPDX-License-Identifier: MIT
#include "uopd/connection.h"

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/net/pipeline.h"
#include "client/cpp/net/poll_sets.h"
#include "client/cpp/net/session.h"
#include "client/cpp/net/wire_call.h"
#include "core/base/mutex.h"
#include "core/base/text.h"

namespace uopd::client {

// Memory for chunks of uploads. A chunk that was sent is filled again: fresh memory costs a page
// fault for every 4 KiB, which together take several times as long as the copy.
//
// Thread-safe. Chunks may outlive the pool.
class ChunkPool {
 public:
  std::shared_ptr<const std::string> Copy(std::string_view bytes) {
    auto chunk = free_->Take();
    chunk->assign(bytes);
    return {chunk.release(),
            [free = free_](std::string* used) { free->Give(std::unique_ptr<std::string>(used)); }};
  }

 private:
  class Free {
   public:
    std::unique_ptr<std::string> Take() {
      MutexLock lock(mutex_);
      if (chunks_.empty()) return std::make_unique<std::string>();
      auto out = std::move(chunks_.back());
      chunks_.pop_back();
      return out;
    }
    void Give(std::unique_ptr<std::string> chunk) {
      MutexLock lock(mutex_);
      if (chunks_.size() < kMost) chunks_.push_back(std::move(chunk));
    }

   private:
    // As many as are on the way (Connection::kMostUnansweredBytes).
    static constexpr size_t kMost = 32;
    Mutex mutex_;
    std::vector<std::unique_ptr<std::string>> chunks_ UOPD_GUARDED_BY(mutex_);
  };

  const std::shared_ptr<Free> free_ = std::make_shared<Free>();
};

namespace {

constexpr size_t kChunk = 1 << 20;
constexpr size_t kAskForArea = 256 << 10;  // bytes of a transfer for which shared memory is asked

// Ends a promise when all parts of it have ended, with the first error.
class Parts {
 public:
  Parts(size_t parts, const std::weak_ptr<Driver>& driver) : promise_(driver), left_(parts) {}
  Future future() const { return promise_.future(); }
  void End(const absl::Status& status) {
    {
      MutexLock lock(mutex_);
      first_.Update(status);
      if (--left_ > 0) return;
    }
    promise_.Set(first_);
  }

 private:
  Promise promise_;
  Mutex mutex_;
  size_t left_;
  absl::Status first_;
};

// The connections of the process, for fork(). Never destroyed.
struct All {
  std::mutex mutex;
  std::set<Connection*> connections;
  int connecting = 0;  // connections that are being made
  std::condition_variable none_connecting;
  PollSets poll_sets;
  absl::Status usable;  // an error in a child that can make no connection
};
All& AllConnections() {
  static auto* const all = new All;
  return *all;
}

}  // namespace

Connection::Connection(std::unique_ptr<Session> session)
    : session_(std::move(session)),
      chunks_(std::make_unique<ChunkPool>()),
      pipeline_(std::make_shared<Pipeline>(*session_, kMostUnanswered, kMostUnansweredBytes, *this,
                                           [this](Pipeline::Item& item, size_t bytes) {
                                             auto& count =
                                                 item.execute() != nullptr   ? execute_bytes_
                                                 : item.request.has_upload() ? upload_bytes_
                                                                             : other_bytes_;
                                             count.fetch_add(bytes, std::memory_order_relaxed);
                                           })) {
  for (const v1::Device& d : session_->hello().devices()) {
    devices_.push_back(
        {d.name(), d.kind(), d.arch(), d.memory_bytes(), d.threads(), d.unavailable_reason()});
  }
}

absl::StatusOr<std::shared_ptr<Connection>> Connection::Connect(ConnectOptions options) {
  All& all = AllConnections();
  {
    const std::scoped_lock lock(all.mutex);
    UOPD_TRY(all.usable);
    ++all.connecting;
  }
  auto session = Session::Open(std::move(options));
  const absl::Status status = session.status();
  std::shared_ptr<Connection> out;
  if (status.ok()) out.reset(new Connection(*std::move(session)));
  {
    const std::scoped_lock lock(all.mutex);
    if (out != nullptr) all.connections.insert(out.get());
    --all.connecting;
  }
  all.none_connecting.notify_all();
  UOPD_TRY(status);
  return out;
}

Connection::~Connection() {
  {
    const std::scoped_lock lock(AllConnections().mutex);
    AllConnections().connections.erase(this);
  }
  pipeline_->Close();
}

void Connection::BeforeFork() {
  All& all = AllConnections();
  std::unique_lock lock(all.mutex);
  all.none_connecting.wait(lock, [&] { return all.connecting == 0; });
  for (Connection* c : all.connections) {
    c->pipeline_->Pause();
    c->session_->Pause();
  }
  all.poll_sets.Find();
  static_cast<void>(lock.release());  // held until after the fork
}

void Connection::AfterForkInParent() {
  for (Connection* c : AllConnections().connections) {
    c->session_->Continue();
    c->pipeline_->Continue();
  }
  AllConnections().mutex.unlock();
}

void Connection::AfterForkInChild() {
  AllConnections().connections.clear();  // they are the parent's
  AllConnections().usable = AllConnections().poll_sets.Replace();
  AllConnections().mutex.unlock();
}

Answer Connection::Submit(Call call) {
  auto item = std::make_unique<Pipeline::Item>();
  if (call.loop != nullptr) *item->request.mutable_repeat() = ToWire(*call.loop);
  v1::ExecuteRequest& request = call.loop != nullptr
                                    ? *item->request.mutable_repeat()->mutable_execute()
                                    : *item->request.mutable_execute();
  request = ToWire(call);
  item->GiveIds(*this);
  session_->AskForCodeOnce(request);
  for (const Argument& a : call.arguments) {
    if (a.data != nullptr) item->held_bytes += a.data->size();
    if (a.handle == 0) continue;
    if (a.made || a.data != nullptr)
      item->makes.push_back(a.handle);
    else
      item->uses.push_back(a.handle);
  }
  item->graph = std::move(call.graph);
  auto result = std::make_shared<CallResult>();
  const Promise promise(pipeline_);
  Pipeline::Item* const raw = item.get();  // it lives until `done` was called
  if (call.loop != nullptr) {
    item->step = std::make_shared<const std::function<void(v1::PipelineResponse&)>>(
        [this, raw, loop = call.loop](v1::PipelineResponse& response) {
          session_->ShowDebugText(*raw->execute(), response.execute());
          loop->step(FromWire(*response.mutable_execute()).data);
        });
  }
  item->done = [this, raw, result, promise, loop = call.loop](const absl::Status& status,
                                                              v1::PipelineResponse& response) {
    if (status.ok()) {
      session_->ShowDebugText(*raw->execute(), response.execute());
      *result = FromWire(*response.mutable_execute());
      result->report.graph_sent = raw->graph_sent;
      if (loop != nullptr && !response.stopped()) loop->step(result->data);
    }
    promise.Set(status);
  };
  pipeline_->Push(std::move(item));
  return {promise.future(), std::move(result)};
}

Future Connection::Upload(uint64_t handle, std::string_view device,
                          std::shared_ptr<const std::string> bytes) {
  const std::string_view all = *bytes;
  return Send(handle, device, all, std::move(bytes));
}

Future Connection::UploadCopy(uint64_t handle, std::string_view device, std::string_view bytes) {
  return Send(handle, device, bytes, nullptr);
}

Future Connection::Send(uint64_t handle, std::string_view device, std::string_view bytes,
                        std::shared_ptr<const std::string> maybe_owner) {
  const size_t size = bytes.size(), chunks = std::max<size_t>(1, (size + kChunk - 1) / kChunk);
  auto parts = std::make_shared<Parts>(chunks, pipeline_);
  if (size >= kAskForArea) pipeline_->OpenArea();
  for (size_t i = 0; i < chunks; ++i) {
    const std::string_view chunk = bytes.substr(i * kChunk, kChunk);
    auto item = std::make_unique<Pipeline::Item>();
    v1::UploadRequest& request = *item->request.mutable_upload();
    request.mutable_buffer()->set_handle(handle);
    request.mutable_buffer()->set_bytes(size);
    request.mutable_buffer()->set_device(std::string(device));
    request.set_offset(i * kChunk);
    if (!pipeline_->Share(chunk, *item)) {
      item->payload = maybe_owner;
      item->payload_begin = i * kChunk;
      item->payload_bytes = chunk.size();
      if (maybe_owner == nullptr) {
        item->payload = chunks_->Copy(chunk);
        item->payload_begin = 0;
        item->held_bytes = chunk.size();
      }
    }
    if (i > 0) item->uses.push_back(handle);
    item->makes.push_back(handle);
    item->done = [parts](const absl::Status& status, v1::PipelineResponse&) { parts->End(status); };
    pipeline_->Push(std::move(item));
  }
  return parts->future();
}

Future Connection::Download(uint64_t handle, std::span<char> out) {
  const size_t chunks = std::max<size_t>(1, (out.size() + kChunk - 1) / kChunk);
  auto parts = std::make_shared<Parts>(chunks, pipeline_);
  if (out.size() >= kAskForArea) pipeline_->OpenArea();
  for (size_t i = 0; i < chunks; ++i) {
    auto item = std::make_unique<Pipeline::Item>();
    v1::DownloadRequest& request = *item->request.mutable_download();
    const auto into = out.subspan(i * kChunk, std::min(kChunk, out.size() - i * kChunk));
    request.set_handle(handle);
    request.set_offset(i * kChunk);
    request.set_bytes(into.size());
    item->payload_bytes = into.size();
    item->uses.push_back(handle);
    Pipeline::Item* const raw = item.get();  // it lives until `done` was called
    item->done = [parts, into, raw](const absl::Status& status, v1::PipelineResponse& response) {
      if (!status.ok()) return parts->End(status);
      const std::string_view data = raw->Downloaded(response);
      if (data.size() != into.size()) {
        return parts->End(
            absl::InternalError(Cat("download gave ", data.size(), " bytes of ", into.size())));
      }
      std::memcpy(into.data(), data.data(), data.size());
      parts->End(status);
    };
    pipeline_->Push(std::move(item));
  }
  return parts->future();
}

void Connection::Free(std::vector<uint64_t> handles) {
  if (handles.empty()) return;
  auto item = std::make_unique<Pipeline::Item>();
  v1::FreeBuffersRequest& request = *item->request.mutable_free_buffers();
  request.mutable_handles()->Add(handles.begin(), handles.end());
  pipeline_->Push(std::move(item));
}

absl::Status Connection::Held(uint64_t handle) const { return pipeline_->Held(handle); }

void Connection::Cancel() { pipeline_->CancelAll(); }

Progress Connection::progress(bool ask_daemon) {
  Progress out = pipeline_->progress();
  if (ask_daemon) out.daemon = pipeline_->AskDaemon();
  return out;
}

bool Connection::WaitForRoom(absl::Duration time) { return pipeline_->WaitForRoom(time); }

uint64_t Connection::max_message_bytes() const { return session_->max_message_bytes(); }

Traffic Connection::traffic() const {
  const auto load = [](const auto& n) { return n.load(std::memory_order_relaxed); };
  return {load(execute_bytes_), load(upload_bytes_), load(other_bytes_)};
}

std::weak_ptr<Driver> Connection::driver() const { return pipeline_; }

const std::string& Connection::address() const { return session_->options().address; }
const std::string& Connection::server() const { return session_->hello().server(); }

}  // namespace uopd::client
