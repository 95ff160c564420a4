#include "probe/binding.hpp"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "probe/failure.hpp"

namespace nearfield::probe {
namespace {

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

std::string short_name(const std::string& host) { return host.substr(0, host.find('.')); }

}  // namespace

void bind_process_to_cpu(const Placement& placement) {
  if (placement.cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(placement.cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw Failure("binding", "cannot bind to CPU " + std::to_string(placement.cpu) + ": " + std::strerror(errno));
}

void verify_binding(int rank, const Placement& placement) {
  const std::string rank_text = "rank " + std::to_string(rank);
  if (!placement.host.empty() && short_name(placement.host) != short_name(host_name()))
    throw Failure("binding", rank_text + " should be on host " + placement.host + " but is on " + host_name());
  if (placement.cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  const int cpu = sched_getcpu();
  if (CPU_COUNT(&set) != 1 || !CPU_ISSET(placement.cpu, &set) || cpu != placement.cpu)
    throw Failure("binding", rank_text + " should be on CPU " + std::to_string(placement.cpu) +
                                 " alone but is on CPU " + std::to_string(cpu) + " with " +
                                 std::to_string(CPU_COUNT(&set)) + " allowed; something else binds the ranks");
}

}  // namespace nearfield::probe
