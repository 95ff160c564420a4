// Protocols move cells that cannot be read in place. Each file in protocols/ exports one ProtocolSpec.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "halo/message.hpp"
#include "halo/node.hpp"
#include "halo/segment.hpp"
#include "halo/signals.hpp"
#include "plan/costs.hpp"

namespace nearfield::halo {

/// The part of the grid that a protocol may use.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual const Node& node() const = 0;
  virtual const planning::Costs& costs() const = 0;  ///< the same on all ranks
  /// Called after fetching: tells the node's ranks whose cells were fetched, then waits for those that fetch this
  /// rank's. Throws if one is lost or late.
  virtual void settle(const Move& move) = 0;
};

/// Called by every rank in the same order, for each phase: prepare(), then the grid tells the neighbours that this rank
/// is ready, start(), and after all neighbours on the node are ready, finish(). After finish() the ghost cells are
/// filled, and, unless they are read in place, cells may be changed.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void prepare() {}
  virtual void start() {}
  virtual void finish() = 0;
  /// Called now and then by a rank that waits for neighbours, so that its messages to other nodes go on.
  virtual void progress() {}
};

/// The shape of a message, by which protocols are chosen.
struct MessageShape {
  double bytes = 0;      ///< to one neighbour
  double run_bytes = 0;  ///< contiguous in memory
  bool same_node = true;
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  std::unique_ptr<Protocol> (*make)(Surroundings&, Move);
  /// Predicts the time of one message inside a node; null: the protocol is only used if it is named.
  double (*cost_ns)(const MessageShape&, const planning::Costs&) = nullptr;
  bool shared_only = false;        ///< moves between ranks of a node only; messages to others go as `persistent`
  bool needs_arrays = false;       ///< of neighbours: moves fields of the library only
  bool in_place = false;           ///< a rank reads its neighbours' cells on the node where they are
  Backing backing = Backing::own;  ///< of fields
  /// Returns why it does not work here, collectively; null: it always does.
  std::string (*problem)(const Node&) = nullptr;
};

/// The protocols that the library itself names.
extern const ProtocolSpec in_place_protocol, direct_protocol, persistent_protocol;

/// Returns all protocols; if two cost the same, the first one is chosen.
const std::vector<const ProtocolSpec*>& all_protocols();
/// Returns the protocol of that name. Throws Error(argument) that names all protocols.
const ProtocolSpec& find_protocol(const std::string& name);

/// Makes the protocol for a Move, in two parts if it reaches other nodes. Collective over all ranks.
std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, Surroundings& around, Move move);

/// Returns the cheapest protocol that works here, the same on all ranks. Collective.
const ProtocolSpec& cheapest(Surroundings& around, const Move& move);

}  // namespace nearfield::halo
