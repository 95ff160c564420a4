// How cells cross that cannot be read in place. One file per protocol in protocols/, each exporting one ProtocolSpec.
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

/// What a protocol may use of the grid.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  virtual const Node& node() const = 0;
  virtual const planning::Costs& costs() const = 0;  ///< the same on all ranks
  /// For protocols that fetch, after it: tells the ranks of the node whose cells were fetched, then waits for those
  /// that fetch this rank's. Throws when one is lost or late.
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

/// What a message is, for the choice between protocols.
struct MessageShape {
  double bytes = 0;      ///< to one neighbour
  double run_bytes = 0;  ///< contiguous in memory
  bool same_node = true;
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  std::unique_ptr<Protocol> (*make)(Surroundings&, Move);
  /// Of one message inside a node; null: not chosen by itself.
  double (*cost_ns)(const MessageShape&, const planning::Costs&) = nullptr;
  bool shared_only = false;        ///< moves between ranks of a node only; messages to others go as `persistent`
  bool needs_arrays = false;       ///< of neighbours: moves fields of the library only
  bool in_place = false;           ///< a rank reads its neighbours' cells on the node where they are
  Backing backing = Backing::own;  ///< of fields
  /// Why it does not work here; collective over all ranks; null: it does.
  std::string (*problem)(const Node&) = nullptr;
};

/// Those that the library itself names.
extern const ProtocolSpec in_place_protocol, direct_protocol, persistent_protocol;

/// Where two cost the same, the one that comes first is taken.
const std::vector<const ProtocolSpec*>& all_protocols();
/// Throws Error(argument) naming all.
const ProtocolSpec& find_protocol(const std::string& name);

/// The protocol for a Move, in two when it reaches other nodes. Collective over all ranks.
std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, Surroundings& around, Move move);

/// The cheapest of those that work here, the same on all ranks. Collective.
const ProtocolSpec& cheapest(Surroundings& around, const Move& move);

}  // namespace nearfield::halo
