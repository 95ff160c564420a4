// A placement policy decides where a NIC writes incoming bytes. Each file in policies/ exports one PolicySpec. There is
// one Policy object per node and variant; the NIC calls it once per event (header) and once per piece of a payload. The
// memory follows the policy's decision for whole coherence granules (memory.hpp); partial granules at the ends of a
// payload always go to memory only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "sim/memory/access.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;  // counts.hpp

struct IncomingWrite {
  enum class Kind { header, payload };
  Kind kind = Kind::payload;
  Address address = 0;
  std::uint64_t bytes = 0;                // of this piece: at most a page
  std::uint64_t message_bytes = 0;        // of the whole message
  int core = 0;                           // the receiving core
  std::optional<int> steered_level = {};  // the level that Nic::steer_range() set for this buffer (tph)
};

// Reads the counters of a node for its policies.
class CounterReader {
 public:
  virtual ~CounterReader() = default;
  virtual Counts counts() const = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual InjectionTarget choose_target(const IncomingWrite& incoming, const CounterReader& counters) = 0;
};

struct PolicyParameter {
  const char* name;
  std::int64_t default_value;
  std::int64_t min, max;
  const char* summary;
};

// The values of a policy's parameters, in the order of PolicySpec::parameters.
using PolicyValues = std::vector<std::int64_t>;

struct PolicySpec {
  const char* name;
  const char* summary;
  std::vector<PolicyParameter> parameters;
  int min_cache_levels;
  std::unique_ptr<Policy> (*make)(const Machine& machine, const PolicyValues& values);
  bool limits_ways = false;  // the policy restricts the ways of a set (InjectionTarget::ways)
};

// Returns all policies: the baseline, then those of the reproduced papers (papers/), then the others.
const std::vector<const PolicySpec*>& all_policies();

// A policy as the user names it: "memory", "ddio", "ddio:ways=4".
class PolicyChoice {
 public:
  // Parses `text`. Throws std::invalid_argument if the policy, a parameter or a value is not valid or the machine has
  // too few cache levels; the message names the nearest policy or parameter, or the policies that the machine supports.
  PolicyChoice(const std::string& text, const Machine& machine);
  std::unique_ptr<Policy> make_policy(const Machine& machine) const { return spec_->make(machine, values_); }
  const PolicySpec& spec() const { return *spec_; }
  const std::string& text() const { return text_; }

 private:
  void set_parameter(const std::string& setting);

  std::string text_;
  const PolicySpec* spec_ = nullptr;
  PolicyValues values_;
};

// Returns the injection target for a write: the receiving core's cache of this level, counted from 0.
inline InjectionTarget target_in_level(int level, const IncomingWrite& incoming, int ways = 0) {
  return {level, incoming.core, ways};
}

}  // namespace nearfield::sim
