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

std::vector<Pairing> all_pairings(bool within_node) {
  std::vector<Pairing> all;
  if (!within_node) all.push_back({"eager-rendezvous", &eager_protocol, &rendezvous_protocol});
  for (const auto* spec : all_protocols())
    if (spec->within_node == within_node) all.push_back({spec->name, within_node ? &node_eager_protocol : spec, spec});
  if (!within_node) all.push_back({"buffered-synchronous", &buffered_protocol, &synchronous_protocol});
  return all;
}

Pairing find_pairing(const std::string& name, bool within_node) {
  std::vector<std::string> names;
  for (const auto& pairing : all_pairings(within_node)) {
    if (name == pairing.name) return pairing;
    names.push_back(pairing.name);
  }
  throw std::invalid_argument("there is no protocol '" + name + "' " +
                              (within_node ? "within a node" : "between nodes") + "; the nearest is '" +
                              nearest_name(name, names) + "'");
}

}  // namespace nearfield::sim
