// Decides where a NIC puts incoming bytes. Each file in policies/ exports one PolicySpec. A policy is an object that is
// handed to a NIC, one per node and variant; the NIC asks it once per event (header) and once per piece of a payload.
// Memory does what it says for whole units (memory.hpp); parts of units, at the ends of a payload, always go to memory
// only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/registry.hpp"
#include "sim/access.hpp"

namespace nearfield {
struct Machine;
}

namespace nearfield::sim {

struct Counts;  // counts.hpp

struct Incoming {
  enum class What { header, payload };
  What what = What::payload;
  Address address = 0;
  std::uint64_t bytes = 0;          // to be placed now
  std::uint64_t message_bytes = 0;  // that these are a part of
  int core = 0;                     // that will use it
  std::optional<int> steered = {};  // the level that was asked for, for this buffer (tph)
};

// The past of its node, which a policy may look at.
class Evidence {
 public:
  virtual ~Evidence() = default;
  virtual Counts counts() const = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual InjectionTarget place(const Incoming& incoming, const Evidence& evidence) = 0;
};

struct PolicyParameter {
  const char* name;
  std::int64_t value;  // unless it is given
  std::int64_t least, most;
  const char* summary;
};

// Those of a policy's parameters, in their order.
using PolicyValues = std::vector<std::int64_t>;

struct PolicySpec {
  const char* name;
  const char* summary;
  std::vector<PolicyParameter> parameters;
  int levels;  // caches that it needs on a way to memory
  std::unique_ptr<Policy> (*make)(const Machine& machine, const PolicyValues& values);
  bool limits_ways = false;  // its injection targets do (InjectionTarget::ways)
};

// Returns all policies: the base, then the papers', then the others.
const std::vector<const PolicySpec*>& all_policies();

// A policy as the user names it: "memory", "ddio", "ddio:ways=4".
class PolicyChoice {
 public:
  // Throws std::invalid_argument that names the nearest policy or parameter, or those that this machine has caches for.
  PolicyChoice(const std::string& text, const Machine& machine);
  std::unique_ptr<Policy> make(const Machine& machine) const { return spec_->make(machine, values_); }
  const PolicySpec& spec() const { return *spec_; }
  const std::string& text() const { return text_; }

 private:
  void set(const std::string& setting);

  std::string text_;
  const PolicySpec* spec_ = nullptr;
  PolicyValues values_;
};

// Places into the cache of that level (counted from 0) that is nearest to the receiving core.
inline InjectionTarget into_level(int level, const Incoming& incoming, int ways = 0) {
  return {level, incoming.core, ways};
}

}  // namespace nearfield::sim
