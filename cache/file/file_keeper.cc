// SPDX-License-Identifier: MIT
#include "cache/file/file_keeper.h"

#include "absl/strings/str_cat.h"
#include "cache/file/schema.h"
#include "cache/file/set_aside.h"
#include "core/base/status.h"

namespace uopd::cache {
namespace {

KeeperOptions WithPath(KeeperOptions options) {
  options.file.path = absl::StrCat(options.folder, "/", schema::kFileName);
  return options;
}

std::string BesidePath(const std::string& folder) {
  return absl::StrCat(folder, "/", schema::kBesidePrefix, schema::kUserVersion,
                      schema::kBesideSuffix);
}

bool Works(State state) { return state == State::kOk || state == State::kRecovered; }

}  // namespace

FileKeeper::FileKeeper(KeeperOptions options)
    : options_(WithPath(std::move(options))), lock_path_(options_.file.path + ".lock") {
  MutexLock lock(open_mu_);
  Adopt(Open(nullptr, ""));
}

std::shared_ptr<CacheFile> FileKeeper::Current() const {
  MutexLock lock(mu_);
  return file_;
}

std::shared_ptr<CacheFile> FileKeeper::Writable() const {
  MutexLock lock(mu_);
  return file_ != nullptr && !file_->read_only() && !writes_blocked_ ? file_ : nullptr;
}

Health FileKeeper::health() const {
  MutexLock lock(mu_);
  return health_;
}

FileKeeper::Opened FileKeeper::Open(const CacheFile* damaged, const std::string& why) {
  Opened out = OpenAt(options_.file.path, damaged, why);
  if (out.health.fault != Fault::kNewer || options_.file.read_only) return out;
  const std::string path = BesidePath(options_.folder);
  Opened beside = OpenAt(path, damaged, "");
  std::string reason = out.health.reason;
  if (beside.file != nullptr)
    absl::StrAppend(&reason, "; it is left as it is, and ", path, " is used");
  if (!beside.health.reason.empty()) absl::StrAppend(&reason, "; ", beside.health.reason);
  beside.health.reason = reason;
  beside.health.fault = Fault::kNewer;
  return beside;
}

FileKeeper::Opened FileKeeper::OpenAt(const std::string& path, const CacheFile* damaged,
                                      const std::string& why) {
  FileOptions options = options_.file;
  options.path = path;
  const auto fault_of = [](const absl::Status& status) {
    return absl::IsUnimplemented(status)       ? Fault::kNewer
           : absl::IsResourceExhausted(status) ? Fault::kFull
                                               : Fault::kNone;
  };
  if (options.read_only) {
    auto file = CacheFile::Open(options);
    if (file.ok()) return {*file, {State::kReadOnly, "The cache was told to only read"}};
    return {nullptr,
            {State::kMemory,
             absl::StrCat("The cache cannot read ", path, ": ", StatusText(file.status())),
             fault_of(file.status())}};
  }
  if (absl::Status status = MakeFolder(options_.folder); !status.ok()) {
    return {nullptr, {State::kMemory, StatusText(status)}};
  }
  FolderLock folder(lock_path_);
  if (folder.held() && path == options_.file.path)
    AdoptOldName(absl::StrCat(options_.folder, "/", schema::kFileNameOfVersion2), path);
  Health health;
  auto set_aside = [&](std::string_view kind, const std::string& reason) {
    if (!folder.held()) return false;
    auto name = SetAside(path, kind);
    if (!name.ok()) return false;
    health = {State::kRecovered, absl::StrCat("The cache file was set aside as ", *name,
                                              " and a new one started: ", reason)};
    return true;
  };
  if (damaged != nullptr) {
    // Another process may have replaced the file already; the new file is not damaged.
    if (Identify(path) == damaged->id()) {
      if (!set_aside("corrupt", why)) {
        return {nullptr,
                {State::kMemory, absl::StrCat("The cache file is damaged and cannot be "
                                              "set aside: ",
                                              why)}};
      }
    } else {
      health = {State::kRecovered, "The cache file was damaged, and replaced by another process"};
    }
  } else if (!why.empty()) {
    health = {State::kRecovered, why};
  }
  auto file = CacheFile::Open(options);
  if ((absl::IsDataLoss(file.status()) && set_aside("corrupt", StatusText(file.status()))) ||
      (absl::IsFailedPrecondition(file.status()) &&
       set_aside("version", StatusText(file.status())))) {
    file = CacheFile::Open(options);
  }
  if (!file.ok()) {
    return {nullptr,
            {State::kMemory,
             absl::StrCat("The cache cannot open ", path, ": ", StatusText(file.status())),
             fault_of(file.status())}};
  }
  if (folder.held() && path == options_.file.path)
    RemoveUnused(options_.folder, schema::kBesidePrefix, schema::kBesideSuffix);
  if (const int64_t from = (*file)->migrated_from(); from != 0 && health.reason.empty()) {
    health.reason = absl::StrCat("The cache file was brought from version ", from, " to version ",
                                 schema::kUserVersion);
  }
  if ((*file)->read_only()) {
    health = {State::kReadOnly, absl::StrCat("The cache may not write ", path)};
  }
  return {*file, health};
}

void FileKeeper::Adopt(Opened opened) {
  std::shared_ptr<CacheFile> old;  // closed after the lock is released
  bool changed;
  {
    MutexLock lock(mu_);
    changed = health_.state != opened.health.state || health_.reason != opened.health.reason;
    old = std::exchange(file_, std::move(opened.file));
    health_ = opened_health_ = opened.health;
    writes_blocked_ = false;
    const bool retry = !Works(health_.state) && !(options_.file.read_only && file_ != nullptr);
    retry_at_us_ = retry ? options_.now() + options_.retry_us : 0;
  }
  if (changed && options_.on_change) options_.on_change(opened.health);
}

void FileKeeper::Report(const std::shared_ptr<CacheFile>& failed, const absl::Status& error) {
  if (error.ok() || absl::IsUnavailable(error)) return;
  if (absl::IsResourceExhausted(error) || absl::IsPermissionDenied(error)) {
    Health health{State::kReadOnly,
                  absl::StrCat("The cache cannot write ", failed->path(), ": ", StatusText(error)),
                  absl::IsResourceExhausted(error) ? Fault::kFull : Fault::kNone};
    {
      MutexLock lock(mu_);
      if (file_ != failed || writes_blocked_) return;
      writes_blocked_ = true;
      health_ = health;
      retry_at_us_ = options_.now() + options_.retry_us;
    }
    if (options_.on_change) options_.on_change(health);
    return;
  }
  MutexLock open_lock(open_mu_);
  {
    MutexLock lock(mu_);
    if (file_ != failed) return;  // another thread has reported it
    file_ = nullptr;              // until a file is open again, requests do not use one
  }
  if (absl::IsDataLoss(error) && !options_.file.read_only) {
    Adopt(Open(failed.get(), StatusText(error)));
  } else {
    Adopt({nullptr,
           {State::kMemory,
            absl::StrCat("The cache cannot use ", failed->path(), ": ", StatusText(error))}});
  }
}

void FileKeeper::Tick() {
  MutexLock open_lock(open_mu_);
  std::shared_ptr<CacheFile> file;
  bool due, blocked;
  {
    MutexLock lock(mu_);
    file = file_;
    blocked = writes_blocked_;
    due = retry_at_us_ != 0 && options_.now() >= retry_at_us_;
  }
  if (file != nullptr && Identify(file->path()) != file->id()) {
    Adopt(Open(nullptr, "The cache file was removed or replaced by another process"));
  } else if (due && blocked) {
    Health health;
    {
      MutexLock lock(mu_);
      if (file_ != file) return;
      writes_blocked_ = false;  // the next write decides
      retry_at_us_ = 0;
      health = health_ = opened_health_;
    }
    if (options_.on_change) options_.on_change(health);
  } else if (due) {
    Adopt(Open(nullptr, ""));
  }
}

}  // namespace uopd::cache
