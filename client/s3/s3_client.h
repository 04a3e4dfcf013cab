// SPDX-License-Identifier: MIT
// S3Client: whole objects of a store of the S3 protocol to and from files.
//
// Requests are signed (SigV4) with the hash of what is sent, so a server that checks it stores
// exactly that. TLS checks the server; no redirect is followed. An object is put in one request, so
// it is there as a whole or not at all, and has at most 5 GiB. What may be better a moment later is
// tried again. Messages never hold the credentials, nor the server's words but its error code. Not
// thread-safe.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/s3/s3_credentials.h"
#include "client/s3/s3_url.h"

namespace uopd::s3 {

struct Options {
  Credentials credentials;
  std::string endpoint;  // as CheckEndpoint wants it; empty: AWS
  std::string region = "us-east-1";
  std::string
      ca_file;  // certificates (PEM) that may sign that of the server; empty: those of the machine
  std::chrono::milliseconds timeout{600'000};  // of an object, with all tries
  std::chrono::milliseconds stall{
      30'000};  // without 1 KiB a second; a connection may take a third of it
  uint64_t max_bytes = uint64_t{5} << 30;
  int tries = 4;
  std::chrono::milliseconds pause{250};  // before the second try; doubles with each one
};

// Of the body of an error; empty: there is none, or it is not a word of letters and digits.
std::string ErrorCodeOf(std::string_view body);

class S3Client {
 public:
  explicit S3Client(Options options) : options_(std::move(options)) {}

  // NOT_FOUND: there is no such object or bucket. PERMISSION_DENIED: the credentials do not do.
  // RESOURCE_EXHAUSTED: larger than Options::max_bytes. UNAVAILABLE: the server does not answer.
  // FAILED_PRECONDITION: the server refuses otherwise. Others: the file cannot be read or written.
  absl::Status Get(const ObjectName& name, const std::string& path);  // replaces the file
  absl::Status Put(const ObjectName& name, const std::string& path);

 private:
  absl::Status Run(const ObjectName& name, const std::string& path, bool put);

  Options options_;
};

}  // namespace uopd::s3
