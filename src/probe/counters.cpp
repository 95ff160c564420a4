#include "probe/counters.hpp"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace nearfield::probe {
namespace {

struct EventSpec {
  const char* name;
  std::uint32_t type;
  std::uint64_t config;
};

constexpr std::uint64_t cache_event(std::uint64_t cache, std::uint64_t op, std::uint64_t result) {
  return cache | (op << 8) | (result << 16);
}

constexpr EventSpec event_specs[] = {
    {"page_faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS},
    {"context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"l1d_misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS)},
    {"llc_accesses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES},  // misses of the level before the last
    {"llc_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"dtlb_misses", PERF_TYPE_HW_CACHE,
     cache_event(PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS)},
};

int open_event(const EventSpec& event, bool with_kernel) {
  perf_event_attr attributes{};
  attributes.size = sizeof attributes;
  attributes.type = event.type;
  attributes.config = event.config;
  attributes.exclude_hv = 1;
  attributes.exclude_kernel = with_kernel ? 0 : 1;
  return static_cast<int>(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

std::string open_failure_reason(int error) {
  if (error == ENOENT || error == EOPNOTSUPP)
    return "this machine has no such hardware counter (usual in a virtual machine)";
  if (error == EACCES || error == EPERM)
    return "not permitted (kernel.perf_event_paranoid, or a container's seccomp filter)";
  return std::string("perf_event_open: ") + std::strerror(error);
}

// Returns the number of page faults or context switches of this process by getrusage, for containers that deny
// perf_event_open.
std::int64_t count_from_rusage(const std::string& name) {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return name == "page_faults" ? usage.ru_minflt + usage.ru_majflt : usage.ru_nvcsw + usage.ru_nivcsw;
}

}  // namespace

EventCounters::EventCounters() {
  for (const auto& event : event_specs) {
    // Counts events in kernel mode, too, if permitted, in order to include the cache misses of copies by the kernel.
    int fd = open_event(event, true);
    if (fd < 0 && event.type != PERF_TYPE_SOFTWARE) fd = open_event(event, false);
    const bool software = event.type == PERF_TYPE_SOFTWARE;
    events_.push_back({event.name, fd >= 0 || software ? "" : open_failure_reason(errno), fd});
  }
  counts_at_start_.resize(events_.size(), 0);
}

EventCounters::~EventCounters() {
  for (const auto& event : events_)
    if (event.fd >= 0) close(event.fd);
}

void EventCounters::start() {
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (events_[i].fd >= 0) {
      ioctl(events_[i].fd, PERF_EVENT_IOC_RESET, 0);
    } else if (events_[i].unsupported_reason.empty()) {
      counts_at_start_[i] = count_from_rusage(events_[i].name);
    }
  }
}

std::vector<std::int64_t> EventCounters::stop() {
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    std::uint64_t count = 0;
    if (!events_[i].unsupported_reason.empty())
      counts.push_back(-1);
    else if (events_[i].fd < 0)
      counts.push_back(count_from_rusage(events_[i].name) - counts_at_start_[i]);
    else
      counts.push_back(read(events_[i].fd, &count, sizeof count) == sizeof count ? static_cast<std::int64_t>(count)
                                                                                 : -1);
  }
  return counts;
}

}  // namespace nearfield::probe
