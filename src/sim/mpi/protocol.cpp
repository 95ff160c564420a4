#include "sim/mpi/protocol.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "sim/mpi/endpoint.hpp"

namespace nearfield::sim {

Task<> Protocol::handle_packet(Endpoint&, Message&, const ProtocolPacket&) {
  throw std::logic_error("a step that this protocol does not take");
  co_return;
}

std::optional<PayloadTarget> Protocol::choose_payload_target(Endpoint&, Message&, NicTransfer&) {
  throw std::logic_error("a protocol that places nothing on arrival");
}

void Protocol::handle_posted_receive(Endpoint& receiver, Message& message) {
  ProtocolPacket* const packet = receiver.make_packet(message, PacketKind::matched);
  packet->visible_time = receiver.now();
  receiver.push_packet(packet);
}

std::vector<ProtocolPair> all_protocol_pairs(bool is_within_node) {
  std::vector<ProtocolPair> all;
  if (!is_within_node) all.push_back({"eager-rendezvous", &eager_protocol, &rendezvous_protocol});
  for (const auto* spec : all_protocols())
    if (spec->is_within_node == is_within_node)
      all.push_back({spec->name, is_within_node ? &node_eager_protocol : spec, spec});
  if (!is_within_node) all.push_back({"buffered-synchronous", &buffered_protocol, &synchronous_protocol});
  return all;
}

ProtocolPair find_protocol_pair(const std::string& name, bool is_within_node) {
  std::vector<std::string> names;
  for (const auto& pair : all_protocol_pairs(is_within_node)) {
    if (name == pair.name) return pair;
    names.push_back(pair.name);
  }
  throw std::invalid_argument("there is no protocol '" + name + "' " +
                              (is_within_node ? "within a node" : "between nodes") + "; the nearest is '" +
                              nearest_name(name, names) + "'");
}

}  // namespace nearfield::sim
