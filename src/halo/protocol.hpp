// The protocols of halo exchanges, which move cells that cannot be read in place. Each file in protocols/ exports one
// ProtocolSpec.
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

/// The part of a grid that a protocol may access.
class ExchangeContext {
 public:
  virtual ~ExchangeContext() = default;
  virtual const Node& node() const = 0;
  virtual const planning::Costs& costs() const = 0;  ///< message costs, the same on all ranks
  /// Must be called after fetching cells. Signals the ranks on this node whose cells this rank has fetched, then waits
  /// until the ranks that fetch this rank's cells have done so. Throws Error if a rank is lost or late.
  virtual void wait_until_cells_are_fetched(const ExchangePlan& plan) = 0;
};

/// Moves the cells of one exchange. In each phase, every rank calls prepare_exchange(), signals its peers that it is
/// ready, calls start_exchange(), waits until all neighbours on the node are ready, and calls finish_exchange(). After
/// finish_exchange() the ghost cells are filled, and the program may change cells, unless they are read in place. All
/// ranks make the calls in the same order.
class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void prepare_exchange() {}
  virtual void start_exchange() {}
  virtual void finish_exchange() = 0;
  /// Called repeatedly while this rank waits for neighbours; drives the progress of messages to other nodes.
  virtual void drive_progress() {}
};

/// The properties of a message that determine its predicted time.
struct MessageShape {
  double bytes = 0;      ///< bytes to one neighbour
  double run_bytes = 0;  ///< bytes of a run that is contiguous in memory
  bool is_same_node = true;
};

struct ProtocolSpec {
  const char* name;
  const char* summary;
  std::unique_ptr<Protocol> (*make)(ExchangeContext&, ExchangePlan);
  /// Predicts the time of one message inside a node, in ns. Null if the protocol must not be chosen automatically.
  double (*cost_ns)(const MessageShape&, const planning::Costs&) = nullptr;
  bool is_intra_node_only = false;  ///< moves cells inside a node only; `persistent` then moves those between nodes
  bool needs_arrays = false;    ///< accesses neighbours' arrays, so it supports only fields that the library allocates
  bool reads_in_place = false;  ///< ranks read cells of neighbours on the node in place, without a copy
  SegmentBacking backing = SegmentBacking::memfd;  ///< memory of fields
  /// Returns the reason why the protocol does not work on this system, or an empty string; collective. Null if the
  /// protocol always works.
  std::string (*unavailability_reason)(const Node&) = nullptr;
};

/// The protocols that the library uses directly.
extern const ProtocolSpec in_place_protocol, direct_protocol, persistent_protocol;

/// Returns all protocols. If two protocols have the same predicted cost, the first one is chosen.
const std::vector<const ProtocolSpec*>& all_protocols();
/// Returns the protocol of that name. Throws Error(argument) with the names of all protocols.
const ProtocolSpec& find_protocol(const std::string& name);

/// Creates the protocol for an exchange. If the exchange reaches other nodes, combines `spec` inside the node with
/// `persistent` between nodes. Collective over all ranks.
std::unique_ptr<Protocol> make_protocol(const ProtocolSpec& spec, ExchangeContext& context, ExchangePlan plan);

/// Returns the protocol with the lowest predicted cost among those that work; the same on all ranks. Collective.
const ProtocolSpec& find_cheapest_protocol(ExchangeContext& context, const ExchangePlan& plan);

}  // namespace nearfield::halo
