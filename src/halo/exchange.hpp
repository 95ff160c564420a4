// A halo exchange that has been set up: a protocol with its messages. For debugging, it can poison ghost cells.
#pragma once

#include <memory>
#include <optional>

#include "halo/protocol.hpp"

namespace nearfield::halo {

/// A halo exchange of the fields or arrays that one call passes. Exchanges of fields are owned by the grid, exchanges
/// of the caller's arrays by the caller.
class HaloExchange {
 public:
  HaloExchange(ExchangePlan plan, const ProtocolSpec& spec, ExchangeContext& context, bool should_poison);
  const ProtocolSpec& spec() const { return protocol_spec_; }
  void prepare();
  void start() { protocol_->start_exchange(); }
  void finish() { protocol_->finish_exchange(); }
  void progress() { protocol_->drive_progress(); }

 private:
  const ProtocolSpec& protocol_spec_;
  std::unique_ptr<Protocol> protocol_;
  std::optional<ExchangePlan> poisoned_plan_;  ///< debugging: the ghost cells that are poisoned from start to finish
};

}  // namespace nearfield::halo
