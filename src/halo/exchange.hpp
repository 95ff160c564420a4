// An exchange that has been set up: a protocol with its messages; for debugging it can poison ghost cells.
#pragma once

#include <memory>
#include <optional>

#include "halo/protocol.hpp"

namespace nearfield::halo {

/// An exchange of the fields or arrays of one call. The grid owns exchanges of its fields, the caller others.
class Exchange {
 public:
  Exchange(Move move, const ProtocolSpec& spec, ExchangeContext& around, bool poison);
  const ProtocolSpec& spec() const { return spec_; }
  void prepare();
  void start() { protocol_->start(); }
  void finish() { protocol_->finish(); }
  void progress() { protocol_->progress(); }

 private:
  const ProtocolSpec& spec_;
  std::unique_ptr<Protocol> protocol_;
  std::optional<Move> poisoned_;  ///< debugging: ghost cells are poisoned from start to finish
};

}  // namespace nearfield::halo
