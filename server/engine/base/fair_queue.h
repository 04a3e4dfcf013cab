// SPDX-License-Identifier: MIT
// What waits for a thread, in fair order: peers take turns, and within a peer its flows take turns.
// So a client with thousands of requests delays the first request of another client by no more than
// its own share.
//
// The number of items of one flow and of one peer that run at the same time is limited. So others
// find a thread even if some items never end. Items of one flow come out in the order in which they
// went in.
//
// Not thread-safe. Push and Done are O(1). Pop skips flows and peers that run as much as they may;
// there are no more of these than threads.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "server/engine/base/caller.h"

namespace uopd::engine {

template <class T>
class FairQueue {
 public:
  struct Limits {
    size_t of_peer = SIZE_MAX, of_flow = SIZE_MAX;  // items that may run at the same time
  };

  explicit FairQueue(Limits limits) : limits_(limits) {}

  void Push(const Caller& caller, T item) {
    auto [p, new_peer] = peers_.try_emplace(caller.peer);
    if (new_peer) {
      p->second = std::make_unique<Peer>();
      p->second->name = caller.peer;
    }
    Peer& peer = *p->second;
    auto [f, new_flow] = peer.flows.try_emplace(caller.flow);
    if (new_flow) {
      f->second = std::make_unique<Flow>();
      f->second->name = caller.flow;
      f->second->peer = &peer;
    }
    Flow& flow = *f->second;
    flow.items.push_back(std::move(item));
    if (flow.items.size() == 1) peer.turns.push_back(&flow);
    if (peer.turns.size() == 1 && flow.items.size() == 1) turns_.push_back(&peer);
    ++size_;
  }

  struct Taken;
  // Returns the next item that may run; nullopt if there is none. The caller calls Done later.
  std::optional<Taken> Pop() {
    for (auto p = turns_.begin(); p != turns_.end(); ++p) {
      Peer& peer = **p;
      if (peer.running >= limits_.of_peer) continue;
      for (auto f = peer.turns.begin(); f != peer.turns.end(); ++f) {
        Flow& flow = **f;
        if (flow.running >= limits_.of_flow) continue;
        Taken out{std::move(flow.items.front()), &flow};
        flow.items.pop_front();
        ++flow.running;
        ++peer.running;
        --size_;
        // The flow and its peer go to the ends of their rings if they have more items.
        peer.turns.erase(f);
        if (!flow.items.empty()) peer.turns.push_back(&flow);
        turns_.erase(p);
        if (!peer.turns.empty()) turns_.push_back(&peer);
        return out;
      }
    }
    return std::nullopt;
  }

  // Takes out the first waiting item of the caller's flow for which is_it(item); nullopt if there
  // is none. Done is not called for it. Linear in the number of items that wait in the flow.
  template <class IsIt>
  std::optional<T> Withdraw(const Caller& caller, IsIt is_it) {
    const auto p = peers_.find(caller.peer);
    if (p == peers_.end()) return std::nullopt;
    Peer& peer = *p->second;
    const auto f = peer.flows.find(caller.flow);
    if (f == peer.flows.end()) return std::nullopt;
    Flow& flow = *f->second;
    const auto item = std::find_if(flow.items.begin(), flow.items.end(), is_it);
    if (item == flow.items.end()) return std::nullopt;
    std::optional<T> out(std::move(*item));
    flow.items.erase(item);
    --size_;
    if (flow.items.empty()) {
      peer.turns.remove(&flow);
      if (peer.turns.empty()) turns_.remove(&peer);
      EraseIfIdle(flow);
    }
    return out;
  }

  // Calls see(item) with the first waiting item of each flow.
  template <class See>
  void EachFirst(See see) const {
    for (const Peer* peer : turns_) {
      for (const Flow* flow : peer->turns) see(flow->items.front());
    }
  }

  size_t size() const { return size_; }  // items that wait
  bool empty() const { return size_ == 0; }

 private:
  struct Peer;
  struct Flow {
    std::string name;
    Peer* peer = nullptr;
    std::deque<T> items;
    size_t running = 0;
  };
  struct Peer {
    std::string name;
    absl::flat_hash_map<std::string, std::unique_ptr<Flow>> flows;
    std::list<Flow*> turns;  // flows with items
    size_t running = 0;
  };

 public:
  struct Taken {
    T item;
    Flow* flow;
  };
  // The item that Pop returned has run.
  void Done(Flow* flow) {
    --flow->running;
    --flow->peer->running;
    EraseIfIdle(*flow);
  }

 private:
  void EraseIfIdle(Flow& flow) {
    if (flow.running > 0 || !flow.items.empty()) return;
    Peer& peer = *flow.peer;
    peer.flows.erase(std::string(flow.name));
    if (peer.flows.empty()) peers_.erase(std::string(peer.name));
  }

  const Limits limits_;
  absl::flat_hash_map<std::string, std::unique_ptr<Peer>> peers_;
  std::list<Peer*> turns_;  // peers with items
  size_t size_ = 0;
};

}  // namespace uopd::engine
