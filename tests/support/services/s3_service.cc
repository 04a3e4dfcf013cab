// SPDX-License-Identifier: MIT
#include "tests/support/services/s3_service.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "core/base/status.h"
#include "core/base/text.h"
#include "tests/support/services/certificates.h"

namespace uopd::test {
namespace {

// Moto asks for signatures after as many calls as this makes (INITIAL_NO_AUTH_ACTION_COUNT).
constexpr char kSetup[] = R"(
import boto3, sys
at = dict(endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y", verify=False)
iam = boto3.client("iam", **at)
iam.create_user(UserName="uopd")
iam.put_user_policy(UserName="uopd", PolicyName="all", PolicyDocument=
    '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}')
key = iam.create_access_key(UserName="uopd")["AccessKey"]
boto3.client("s3", **at).create_bucket(Bucket="uopd-test")
print(key["AccessKeyId"], key["SecretAccessKey"])
)";

}  // namespace

absl::StatusOr<std::unique_ptr<S3Service>> S3Service::Start(bool tls) {
  std::unique_ptr<S3Service> out(new S3Service);
  out->tls_ = tls;
  absl::Status certificates;
  auto command = [&](const std::string& folder, uint16_t port) {
    std::vector<std::string> words = {"moto_server", "-H", "127.0.0.1", "-p", Cat(port)};
    if (tls) {
      certificates = MakeCertificates(folder);
      words.insert(words.end(), {"-c", folder + "/cert.pem", "-k", folder + "/key.pem"});
    }
    return words;
  };
  UOPD_ASSIGN(out->process_,
              ServiceProcess::Start(command, {{"INITIAL_NO_AUTH_ACTION_COUNT", "4"}}));
  UOPD_TRY(std::move(certificates));
  const std::string script = out->folder() + "/setup.py", log = out->folder() + "/setup.log";
  std::ofstream(script) << kSetup;
  FILE* python =
      popen(Cat("env -u LD_LIBRARY_PATH '", std::getenv("UOPD_SERVICES"),
                "/bin/python' -W ignore '", script, "' ", out->endpoint(), " 2>'", log, "'")
                .c_str(),
            "r");
  char id[256] = {}, secret[256] = {};
  const bool read = python != nullptr && std::fscanf(python, "%255s %255s", id, secret) == 2;
  if (python == nullptr || pclose(python) != 0 || !read)
    return absl::UnavailableError(Cat("moto cannot be set up: see ", log));
  out->id_ = id;
  out->secret_ = secret;
  std::ofstream(out->credentials_file())
      << "[default]\naws_access_key_id = " << id << "\naws_secret_access_key = " << secret << "\n"
      << "[stranger]\naws_access_key_id = AKIANOBODY\naws_secret_access_key = hunter2\n"
      << "[wrong]\naws_access_key_id = " << id << "\naws_secret_access_key = hunter2\n";
  chmod(out->credentials_file().c_str(), 0600);
  return out;
}

std::string S3Service::endpoint() const {
  return Cat(tls_ ? "https" : "http", "://127.0.0.1:", process_->port());
}

}  // namespace uopd::test
