#include "sim/protocol.hpp"

#include <stdexcept>

#include "base/text.hpp"
#include "sim/endpoint.hpp"

namespace nearfield::sim {

Task<> Protocol::step(Endpoint&, Message&, const Item&) {
  throw std::logic_error("a step that this protocol does not take");
  co_return;
}

std::optional<Landing> Protocol::place(Endpoint&, Message&, Shipment&) {
  throw std::logic_error("a protocol that places nothing on arrival");
}

void Protocol::posted(Endpoint& receiver, Message& message) {
  Item* const item = receiver.make_item(message, Step::matched);
  item->visible = receiver.now();
  receiver.push(item);
}

const std::vector<const ProtocolSpec*>& all_protocols() {
  static const std::vector<const ProtocolSpec*> all{
      &eager_protocol,       &rendezvous_protocol, &zero_copy_protocol,        &buffered_protocol,
      &synchronous_protocol, &node_eager_protocol, &copy_in_copy_out_protocol, &single_copy_protocol};
  return all;
}

const std::vector<Way>& all_ways() {
  static const std::vector<Way> all{{"eager-rendezvous", &eager_protocol, &rendezvous_protocol},
                                    {"rendezvous", &rendezvous_protocol, &rendezvous_protocol},
                                    {"zero-copy", &zero_copy_protocol, &zero_copy_protocol},
                                    {"buffered", &buffered_protocol, &buffered_protocol},
                                    {"synchronous", &synchronous_protocol, &synchronous_protocol},
                                    {"buffered-synchronous", &buffered_protocol, &synchronous_protocol},
                                    {"copy-in-copy-out", &node_eager_protocol, &copy_in_copy_out_protocol},
                                    {"single-copy", &node_eager_protocol, &single_copy_protocol}};
  return all;
}

const Way& find_way(const std::string& name, bool within_node) {
  std::vector<std::string> names;
  for (const auto& way : all_ways()) {
    if (way.large->within_node != within_node) continue;
    if (name == way.name) return way;
    names.emplace_back(way.name);
  }
  throw std::invalid_argument(std::string("there is no protocol '") + name + "' " +
                              (within_node ? "within a node" : "between nodes") + "; the nearest is '" +
                              nearest_name(name, names) + "'");
}

}  // namespace nearfield::sim
