// Which protocol carries a message of each size, by what it does: does Send wait for the receiver, does the kernel
// copy. Not a timing: every case is one observation (of six messages).
#include "probe/protocol.hpp"

#include <algorithm>

#include "probe/buffer.hpp"
#include "probe/scenario.hpp"
#include "scenario/size_ladder.hpp"

namespace nearfield::probe {
namespace {

class Protocol final : public Scenario {
 public:
  explicit Protocol(Context& ctx)
      : ctx_(ctx),
        sizes_(dense_size_ladder(ctx.size_choice(), ctx.switch_sizes(), 1,
                                 std::min<std::int64_t>(8 << 20, ctx.plan.llc_bytes()))) {
    const auto largest = static_cast<std::size_t>(*std::max_element(sizes_.begin(), sizes_.end()));
    send_ = Buffer(largest);
    receive_ = Buffer(largest);
  }

  std::vector<Parameters> cases() override {
    std::vector<Parameters> list;
    for (const auto size : sizes_) list.push_back({{"size_bytes", size}});
    return list;
  }

  void select(std::size_t index) override { bytes_ = static_cast<std::size_t>(sizes_[index]); }

  void body(std::span<double> values) override {
    const Behaviour seen = observe(ctx_, send_.first(bytes_), receive_.first(bytes_));
    values[0] = seen.waits_for_receive;
    values[1] = seen.waits_for_progress;
    values[2] = seen.single_copies;
  }

  void fill(unsigned seed) override {
    fill_pattern(send_.first(bytes_), seed);
    fill_pattern(receive_.first(bytes_), seed + 1);
  }

  std::string problem(unsigned seed) override {
    return ctx_.sender() ? "" : pattern_problem(receive_.first(bytes_), seed);
  }

  std::span<std::byte> arrived() override { return receive_.first(bytes_); }

 private:
  Context& ctx_;
  std::vector<std::int64_t> sizes_;
  Buffer send_, receive_;
  std::size_t bytes_ = 0;
};

const ScenarioInfo protocol_info{
    "protocol",
    "Which protocol carries each message size, found by behaviour",
    Ranks::pair,
    {{"size_bytes", "message size"}},
    {{"waits_for_receive", "count", Combine::root, "1: Send returns only once the receive is posted (rendezvous)"},
     {"waits_for_progress", "count", Combine::root, "1: Send returns only once the receiver is inside MPI"},
     {"single_copies", "count", Combine::root, "kernel copies (cross-memory attach) a message"}},
};

}  // namespace

extern const Spec protocol_spec;
const Spec protocol_spec{
    protocol_info,
    0.5,
    [](Context& ctx) -> std::unique_ptr<Scenario> { return std::make_unique<Protocol>(ctx); },
};

}  // namespace nearfield::probe
