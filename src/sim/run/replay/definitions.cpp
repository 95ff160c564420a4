#include "sim/run/replay/definitions.hpp"

#include <algorithm>

namespace nearfield::sim::replay {

std::runtime_error rank_error(int rank, const std::string& problem) {
  return std::runtime_error("rank " + std::to_string(rank) + ": " + problem);
}

CallPlace StreamDefinitions::call_place(stream::Number call_site) const {
  const auto site = call_sites_.find(call_site);
  if (site == call_sites_.end()) return {};
  const auto place = [this](stream::Number object, std::uint64_t offset) {
    const auto entry = objects_.find(object);
    return CallPlace{entry == objects_.end() ? "" : entry->second, offset, {}};
  };
  CallPlace result = place(site->second.object, site->second.offset);
  const auto& callers = site->second.callers;
  for (std::size_t i = 0; i + 1 < callers.size(); i += 2) result.callers.push_back(place(callers[i], callers[i + 1]));
  return result;
}

void StreamDefinitions::add_definition(const stream::Communicator& event) {
  CommunicatorGroup& group = groups_[event.communicator];
  if (group.context != event.context) group.num_collectives = 0;
  group.context = event.context;
  group.member_ranks.assign(event.world_ranks.begin(), event.world_ranks.end());
  group.is_intercommunicator = !event.remote_world_ranks.empty();
  const auto& peers = group.is_intercommunicator ? event.remote_world_ranks : event.world_ranks;
  group.peers.assign(peers.begin(), peers.end());
  group.own_number = static_cast<int>(std::ranges::find(group.member_ranks, rank_) - group.member_ranks.begin());
  group.sources = event.sources;
  group.destinations = event.destinations;
}

CommunicatorGroup& StreamDefinitions::communicator_group(stream::Number communicator) {
  const auto entry = groups_.find(communicator);
  if (entry == groups_.end()) throw rank_error(rank_, "its stream uses a communicator that it does not describe");
  return entry->second;
}

// Messages of a communicator have an even context, messages of its collectives the odd context after that.
Pattern StreamDefinitions::message_pattern(stream::Number communicator, std::int64_t peer, std::int64_t tag) {
  const CommunicatorGroup& group = this->communicator_group(communicator);
  Pattern result{any_rank, tag == stream::any_source_or_tag ? any_tag : static_cast<int>(tag), 2 * group.context};
  if (peer == stream::any_source_or_tag) return result;
  if (peer < 0 || peer >= static_cast<std::int64_t>(group.peers.size()))
    throw rank_error(rank_, "its stream names a rank that its communicator does not have: " + std::to_string(peer));
  result.peer = group.peers[static_cast<std::size_t>(peer)];
  return result;
}

std::int64_t StreamDefinitions::peer_number(stream::Number communicator, int rank) {
  const auto& peers = communicator_group(communicator).peers;
  return std::ranges::find(peers, rank) - peers.begin();
}

BufferArgument StreamDefinitions::buffer_argument(const stream::Data& data) const {
  const auto entry = layouts_.find(data.layout);
  if (entry == layouts_.end()) throw rank_error(rank_, "its stream uses a datatype that it does not describe");
  return {entry->second, data.address, data.count};
}

CollectiveArguments StreamDefinitions::collective_arguments(const stream::Collective& event) {
  const CommunicatorGroup& group = this->communicator_group(event.communicator);
  if (group.is_intercommunicator) throw rank_error(rank_, "collectives of intercommunicators cannot be simulated");
  CollectiveArguments arguments{event.kind, static_cast<int>(event.root), event.is_in_place, {}, {}, {}, {}};
  for (const auto& data : event.send_buffers) arguments.gives.push_back(buffer_argument(data));
  for (const auto& data : event.receive_buffers) arguments.gets.push_back(buffer_argument(data));
  arguments.sources.assign(group.sources.begin(), group.sources.end());
  arguments.destinations.assign(group.destinations.begin(), group.destinations.end());
  return arguments;
}

}  // namespace nearfield::sim::replay
