// S4, section 2, 'hl2p': events into the second-level cache as header-l2, payload into the third as payload-l3.
#include "sim/nic/policy.hpp"

namespace nearfield::sim {
namespace {

class HeaderPayload final : public Policy {
 public:
  explicit HeaderPayload(const Machine& machine) : most_bytes_(machine.caches[2].size_bytes / 2) {}
  Placement place(const Incoming& incoming, const Evidence&) override {
    if (incoming.what == Incoming::What::header) return into_level(1, incoming);
    return incoming.message_bytes <= most_bytes_ ? into_level(2, incoming) : Placement{};
  }

 private:
  std::uint64_t most_bytes_;
};

std::unique_ptr<Policy> make(const Machine& machine, const std::vector<std::int64_t>&) {
  return std::make_unique<HeaderPayload>(machine);
}

}  // namespace

const PolicySpec header_payload_policy{
    "header-payload", "events into the L2, payload up to half the L3 into the L3 (S4: hl2p)", {}, 3, make};

}  // namespace nearfield::sim
