// Base class of scenarios in which two ranks exchange messages: a send buffer, a receive buffer, and the check that
// each rank received what its peer sent.
#pragma once

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {

class PairScenario : public Scenario {
 public:
  using Scenario::Scenario;

  void fill_buffers(unsigned seed) override {
    fill_pattern(send_.first(bytes_), seed + static_cast<unsigned>(ctx_.rank));
    fill_pattern(receive_.first(bytes_), seed + 2);
  }

  std::string check_received_data(unsigned seed) override {
    return find_pattern_error(receive_.first(bytes_), seed + static_cast<unsigned>(ctx_.peer_rank()));
  }

  std::span<std::byte> received_data() override { return receive_.first(bytes_); }

 protected:
  void allocate(std::size_t bytes) {
    send_ = Buffer(bytes);
    receive_ = Buffer(bytes);
  }

  Buffer send_, receive_;
  std::size_t bytes_ = 0;  ///< used size of each buffer in the current case
};

}  // namespace nearfield::probe
