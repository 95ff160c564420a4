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

/// The parts of the grid that a protocol may use.
class ExchangeContext {
 public:
  virtual ~ExchangeContext() = default;
  virtual const Node& node() const = 0;
  virtual const planning::Costs& costs() const = 0;  ///< the same on all ranks
  /// Called after fetching: notifies the node's ranks whose cells were fetched, then waits for those that fetch this
  /// rank's. Throws if one is lost or late.
  virtual void wait_for_readers(const Move& move) = 0;
};

/// Called by every rank in the same order, for each phase: prepare(), then the grid publishes that this rank is ready,
/// start(), and after all neighbours on the node are ready, finish(). After finish() the ghost cells are filled, and
/// cells may be changed unless they are read in place.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void prepare() {}
  virtual void start() {}
  virtual void finish() = 0;
  /// Called repeatedly while a rank waits for neighbours, to drive the progress of its messages to other nodes.
  virtual void progress() {}
};

/// The shape of a message, by which protocols are selected.
struct MessageShape {
  double bytes = 0;      ///< to one neighbour
  double run_bytes = 0;  ///< contiguous in memory
  bool same_node = true;
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  std::unique_ptr<Protocol> (*make)(ExchangeContext&, Move);
  /// Predicts the time of one message inside a node; null: the protocol is only used by name.
  double (*cost_ns)(const MessageShape&, const planning::Costs&) = nullptr;
  bool shared_only = false;        ///< only between ranks of a node; messages to others use `persistent`
  bool needs_arrays = false;       ///< of neighbours, so only fields of the library can move
  bool in_place = false;           ///< a rank reads its neighbours' cells on the node in place
  Backing backing = Backing::own;  ///< of fields
  /// Returns the reason why it does not work on this system, collectively; null: it always works.
  std::string (*problem)(const Node&) = nullptr;
};

/// The protocols that the library refers to by name.
extern const ProtocolSpec in_place_protocol, direct_protocol, persistent_protocol;

/// Returns all protocols; if two have the same cost, the first one is chosen.
const std::vector<const ProtocolSpec*>& all_protocols();
/// Returns the protocol of that name. Throws Error(argument) with the names of all protocols.
const ProtocolSpec& find_protocol(const std::string& name);

/// Creates the protocol for a Move, in two parts if it reaches other nodes. Collective over all ranks.
std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, ExchangeContext& around, Move move);

/// Returns the cheapest protocol that works, the same on all ranks. Collective.
const ProtocolSpec& cheapest(ExchangeContext& around, const Move& move);

}  // namespace nearfield::halo
