// SPDX-License-Identifier: MIT
// Constants that the daemon keeps by their contents: what it has is not sent.
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "client/cpp/net/session.h"
#include "core/base/possession.h"
#include "core/base/text.h"
#include "uopd/connection.h"

namespace uopd::client {
namespace {

// A call has at most this many contents, and about as many bytes: the daemon hashes them, and a
// call has a limit of time.
constexpr size_t kMostOfCall = 1024;
constexpr uint64_t kMostBytesOfCall = 1 << 30;

// Uploads the contents with these numbers, and waits.
absl::Status UploadAndWait(Connection& connection, std::span<const Content> contents,
                           std::span<const size_t> which) {
  std::vector<Future> futures;
  for (const size_t i : which) {
    const Content& content = contents[i];
    futures.push_back(connection.UploadCopy(content.handle, content.device, content.bytes));
  }
  absl::Status first;
  for (const Future& future : futures) first.Update(future.Wait());
  return first;
}

// The names of contents, and the questions about them, for one session.
class NamedContents {
 public:
  NamedContents(Session& session, const Session::Lease& lease, std::span<const Content> contents)
      : session_(session), contents_(contents) {
    for (const Content& content : contents) {
      ContentHasher hasher(lease.content_key);
      hasher.Update(content.bytes);
      const ContentHasher::Names names = hasher.Finish();
      sha256_.push_back(names.sha256);
      proofs_.push_back(ProofOfPossession(lease.session_id, names.tag));
    }
  }

  // Asks for the contents with these numbers. Returns the numbers of those that are to be uploaded.
  absl::StatusOr<std::vector<size_t>> Ask(std::span<const size_t> which) {
    std::vector<size_t> needed;
    for (size_t begin = 0; begin < which.size();) {
      v1::OpenContentsRequest request;
      const size_t end = Fill(which, begin, request);
      UOPD_ASSIGN(const v1::OpenContentsResponse answer, session_.OpenContents(request));
      sent_bytes_ += request.ByteSizeLong();
      for (const uint32_t position : answer.needed()) {
        if (position >= end - begin) {
          return absl::InternalError(
              Cat("the daemon needs content ", position, " of ", end - begin));
        }
        needed.push_back(which[begin + position]);
      }
      begin = end;
    }
    return needed;
  }
  uint64_t sent_bytes() const { return sent_bytes_; }  // of the questions

 private:
  // Returns the end of the part of `which` that goes into the request.
  size_t Fill(std::span<const size_t> which, size_t begin, v1::OpenContentsRequest& request) const {
    size_t end = begin;
    for (uint64_t bytes = 0; end < which.size() && end - begin < kMostOfCall; ++end) {
      const size_t i = which[end];
      bytes += contents_[i].bytes.size();
      if (end > begin && bytes > kMostBytesOfCall) break;
      v1::NamedContent& named = *request.add_contents();
      named.mutable_buffer()->set_handle(contents_[i].handle);
      named.mutable_buffer()->set_bytes(contents_[i].bytes.size());
      named.mutable_buffer()->set_device(std::string(contents_[i].device));
      named.set_sha256(std::string(sha256_[i].view()));
      named.set_proof(std::string(proofs_[i].view()));
    }
    return end;
  }

  Session& session_;
  const std::span<const Content> contents_;
  std::vector<Digest> sha256_, proofs_;
  uint64_t sent_bytes_ = 0;
};

}  // namespace

absl::Status Connection::UploadContents(std::span<const Content> contents) {
  std::vector<size_t> all(contents.size());
  std::iota(all.begin(), all.end(), 0);
  const Session::Lease lease = session_->lease();
  if (lease.content_key.empty()) return UploadAndWait(*this, contents, all);  // an older daemon
  NamedContents named(*session_, lease, contents);
  auto needed = named.Ask(all);
  absl::Status status = needed.status();
  if (status.ok() && !needed->empty()) {
    status = UploadAndWait(*this, contents, *needed);
    if (status.ok()) needed = named.Ask(*needed);
    if (status.ok()) status = needed.status();
  }
  other_bytes_.fetch_add(named.sent_bytes(), std::memory_order_relaxed);
  // Another session has nothing of what the one before had.
  const bool same = session_->lease().session_id == lease.session_id;
  if (status.ok() && needed->empty() && same) return absl::OkStatus();
  if (!status.ok() && same && !absl::IsUnimplemented(status) && !absl::IsFailedPrecondition(status))
    return status;
  std::vector<uint64_t> handles;
  for (const Content& content : contents) handles.push_back(content.handle);
  Free(std::move(handles));
  return UploadAndWait(*this, contents, all);
}

}  // namespace uopd::client
