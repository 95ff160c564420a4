// A halo exchange that is set up: a protocol with its messages. For debugging, it can poison ghost cells.
#pragma once

#include <memory>
#include <optional>

#include "halo/protocol.hpp"

namespace nearfield::halo {

/// A halo exchange of the fields or arrays that one call passes. Exchanges of fields are owned by the grid, exchanges
/// of the caller's arrays by the caller.
class HaloExchange {
 public:
  HaloExchange(ExchangePlan move, const ProtocolSpec& spec, ExchangeContext& around, bool poison);
  const ProtocolSpec& spec() const { return spec_; }
  void prepare();
  void start() { protocol_->start_exchange(); }
  void finish() { protocol_->finish_exchange(); }
  void progress() { protocol_->drive_progress(); }

 private:
  const ProtocolSpec& spec_;
  std::unique_ptr<Protocol> protocol_;
  std::optional<ExchangePlan> poisoned_;  ///< debugging: the ghost cells that are poisoned from start to finish
};

}  // namespace nearfield::halo
