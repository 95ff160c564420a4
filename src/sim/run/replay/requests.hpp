// The requests of a replayed rank, by the numbers that its stream gives them, and its buffered sends.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "sim/mpi/collectives/on_group.hpp"
#include "sim/run/replay/definitions.hpp"

namespace nearfield::sim::replay {

// The recorded result of a call that tests requests or waits for one of several. The result differs in configurations
// in which a request that was not complete (`of_all`: all of them) is ready before `limit`.
struct Choice {
  ConfigClock limit;
  bool of_all = false;
  std::size_t open = 0;  // requests that have not completed yet
  ConfigMask divergent = 0, late = 0;
  bool counts = true;

  // Counts the divergence after one of the requests has become ready.
  void resolve(RaceStatistics& races, const ConfigClock& ready);
};

class Requests {
 public:
  explicit Requests(Rank& rank);

  // Stores a message under the request's number.
  void add(stream::Number request, Request message) { pending(request) = {message, {}, {}}; }
  void add_choice(stream::Number request, std::shared_ptr<Choice> choice) {
    pending(request).choices.push_back(std::move(choice));
  }
  // Waits for the completion of the request. Returns when it was ready.
  Task<ConfigClock> finish(stream::Number request) { return finish(std::exchange(pending(request), {})); }
  Task<> finish_all(std::span<const stream::Number> requests);
  void forget(stream::Number request) { forgotten_.push_back(std::exchange(pending(request), {})); }
  bool is_done(stream::Number request);
  // Copies the data to memory of the library and sends it from there.
  Task<> send_buffered(const Pattern& to, const Buffer& data);
  // Runs a collective, or begins it if its request is not 0.
  Task<> run(stream::Number request, Group& group, CollectiveArguments arguments);
  // Completes sends and collectives, as MPI_Finalize does, since other ranks may depend on them. Receives that the
  // program did not complete are left.
  Task<> finalize();

 private:
  struct NonblockingCollective {
    CollectiveArguments arguments;
    std::unique_ptr<GroupCommunicator> all;
    AsyncProgressTask task;
  };
  struct Pending {
    Request message;
    std::unique_ptr<NonblockingCollective> collective;
    std::vector<std::shared_ptr<Choice>> choices;
  };
  struct BufferedSend {
    Request request;
    Address copy;
    std::uint64_t bytes;
  };

  Pending& pending(stream::Number request) {
    if (pending_.size() <= request) pending_.resize(request + 1);
    return pending_[request];
  }
  Task<ConfigClock> finish(Pending request);

  Rank& rank_;
  Scratch scratch_;  // buffers of collectives
  std::vector<BufferedSend> buffered_;
  std::vector<Pending> forgotten_;
  std::vector<Pending> pending_;  // by number
};

}  // namespace nearfield::sim::replay
