// SPDX-License-Identifier: MIT
// SimDisk: the disk of a simulated daemon, one bit for each slot of its environment; SimTier: the
// tier of a store on it.
//
// The bit says that the daemon has the newest value of the slot. A row is made again when it is
// read. Rows are durable at once, so a crash loses none that was put.
#pragma once
#include <memory>
#include <vector>

#include "cache/base/tier.h"
#include "tests/simulation/key_table.h"

namespace uopd::sim {

class SimDisk {
 public:
  explicit SimDisk(uint32_t environment) : environment_(environment) {}
  bool Has(uint32_t local) const {
    return local / 64 < bits_.size() && (bits_[local / 64] >> local % 64 & 1) != 0;
  }
  void Set(uint32_t local) {
    if (bits_.size() <= local / 64) bits_.resize(local / 64 + 1);
    bits_[local / 64] |= uint64_t{1} << local % 64;
  }
  uint32_t environment() const { return environment_; }
  uint32_t end() const {
    return static_cast<uint32_t>(64 * bits_.size());
  }  // no bit is set from here on

 private:
  const uint32_t environment_;
  std::vector<uint64_t> bits_;
};

class SimTier final : public cache::Tier {
 public:
  SimTier(KeyTable& keys, SimDisk& disk) : keys_(keys), disk_(disk) {}

  cache::GetResult Get(const cache::Key& key) override;
  bool Contains(const Digest& address) override;
  absl::Status Put(const Digest& address, std::shared_ptr<const cache::Row> row,
                   cache::Settled settled) override;
  absl::StatusOr<std::optional<cache::Row>> ReadRow(const Digest& address) override;
  // The order of the query is that of the slots, the newest first.
  absl::StatusOr<std::vector<cache::EntryInfo>> Select(const cache::EntryQuery& query) override;

  void Erase(const Digest&) override {}
  absl::Status Flush() override { return absl::OkStatus(); }
  absl::StatusOr<std::vector<cache::Usage>> ReadUsage() override {
    return std::vector<cache::Usage>();
  }
  std::vector<cache::EntryInfo> List(const std::string&, int64_t) override { return {}; }
  std::optional<cache::Key> KeyOf(const Digest&) override { return std::nullopt; }
  absl::Status Clear(const std::string&) override {
    return absl::UnimplementedError("a disk of a simulation");
  }
  absl::StatusOr<int64_t> Remove(std::span<const Digest>) override { return 0; }
  absl::Status SetPinned(const Digest&, bool, int64_t) override {
    return absl::NotFoundError("no pins");
  }
  void SetMaxBytes(int64_t) override {}
  int64_t max_bytes() const override { return 0; }
  cache::Health health() const override { return {}; }

 private:
  std::optional<uint32_t> Here(const Digest& address) const;  // the slot, if the disk has it
  cache::Row RowOf(uint32_t slot) const;
  KeyTable& keys_;
  SimDisk& disk_;
};

}  // namespace uopd::sim
