// SPDX-License-Identifier: MIT
// S3Service: a real server of the S3 protocol (moto, from PyPI) that checks signatures, with the
// bucket "uopd-test" and a user who may do everything in it.
#pragma once
#include <memory>
#include <string>

#include "tests/support/services/service_process.h"

namespace uopd::test {

class S3Service {
 public:
  // With `tls` at https, with the certificates of MakeCertificates in folder(). REQUIRES:
  // HasServices().
  static absl::StatusOr<std::unique_ptr<S3Service>> Start(bool tls = false);

  const std::string& folder() const { return process_->folder(); }
  std::string endpoint() const;
  // The user's, in the form of AWS's tools; its mode is 600.
  std::string credentials_file() const { return folder() + "/credentials"; }
  const std::string& id() const { return id_; }
  const std::string& secret() const { return secret_; }
  ServiceProcess& process() { return *process_; }

 private:
  S3Service() = default;
  std::unique_ptr<ServiceProcess> process_;
  bool tls_ = false;
  std::string id_, secret_;
};

}  // namespace uopd::test
