// A stream that a test builds: accesses and events in order.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "trace/stream/source.hpp"

class StreamBuilder final : public nearfield::stream::StreamSource {
 public:
  using Reference = nearfield::stream::Reference;
  using Event = nearfield::stream::Event;
  using Number = nearfield::stream::Number;
  using Data = nearfield::stream::Data;

  static constexpr Number world = 0, bytes = 0;  // numbers of the communicator and of the datatype of one byte

  // The stream of a rank, with the events that every program's stream begins with.
  StreamBuilder(Number rank, Number ranks) {
    add(nearfield::stream::RankInfo{rank, ranks, "here", "a library"});
    nearfield::stream::Communicator all{world, 1, {}, {}, "MPI_COMM_WORLD", {}, {}};
    for (Number r = 0; r < ranks; ++r) all.world_ranks.push_back(r);
    add(all);
    add(nearfield::stream::Layout{bytes, 1, 1, {{0, 1, 1, 1}}, "MPI_BYTE"});
    add(nearfield::stream::Object{0, "/bin/program"});
  }

  // Returns the first event, which identifies the rank.
  Event* first() { return &*items_.front().event; }
  StreamBuilder& add(Event event) {
    items_.push_back({{}, std::move(event)});
    return *this;
  }
  StreamBuilder& access(bool store, std::uint64_t address, std::uint64_t count = 1, std::uint64_t stride = 8) {
    if (items_.empty() || items_.back().event) items_.push_back({});
    for (std::uint64_t i = 0; i < count; ++i) items_.back().accesses.push_back({address + i * stride, 8, store, {}, 0});
    return *this;
  }
  // A load with a role in dependences, at a code location of its own.
  StreamBuilder& load(std::uint64_t address, nearfield::stream::LoadRole role, std::uint32_t site = 0) {
    if (items_.empty() || items_.back().event) items_.push_back({});
    items_.back().accesses.push_back({address, 8, false, role, site});
    return *this;
  }
  // An MPI call from a call site of its own. Equal names have the same number, and call sites are numbers, too.
  StreamBuilder& enter(const std::string& name, Number site = 0) {
    auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      names_.push_back(name);
      found = names_.end() - 1;
      add(nearfield::stream::Text{static_cast<Number>(found - names_.begin()), name});
    }
    add(nearfield::stream::CallSite{site, 0, 0x100 + site, {}});
    return add(nearfield::stream::Enter{static_cast<Number>(found - names_.begin()), site, 10});
  }
  StreamBuilder& leave() { return add(nearfield::stream::Leave{10}); }

  StreamBuilder& send(Number request, std::int64_t to, Data data, std::int64_t tag = 0) {
    return add(nearfield::stream::Send{request, nearfield::stream::SendMode::standard, world, to, tag, data});
  }
  StreamBuilder& receive(Number request, std::int64_t from, Data data, std::int64_t tag = 0) {
    return add(nearfield::stream::Receive{request, world, from, tag, data});
  }
  StreamBuilder& wait(std::vector<Number> requests) {
    return add(nearfield::stream::RequestsCompleted{std::move(requests)});
  }
  StreamBuilder& end() { return add(nearfield::stream::End{}); }

  std::size_t read_accesses(std::span<Reference> out) override {
    if (next_ == items_.size() || items_[next_].event) return 0;
    const auto& all = items_[next_].accesses;
    const std::size_t count = std::min(out.size(), all.size() - taken_);
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(taken_), count, out.begin());
    taken_ += count;
    if (taken_ == all.size()) ++next_, taken_ = 0;
    return count;
  }
  const Event* next_event() override {
    if (next_ == items_.size() || !items_[next_].event) return nullptr;
    return &*items_[next_++].event;
  }

 private:
  struct Item {
    std::vector<Reference> accesses;
    std::optional<Event> event;
  };
  std::vector<Item> items_;
  std::vector<std::string> names_;
  std::size_t next_ = 0, taken_ = 0;
};
