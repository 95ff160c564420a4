#include "preload/heap/start.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/copy.hpp"
#include "preload/heap/copy_requests.hpp"
#include "preload/heap/copy_service.hpp"
#include "preload/heap/counts.hpp"
#include "preload/heap/distance.hpp"
#include "preload/heap/fork.hpp"
#include "preload/heap/heap.hpp"
#include "preload/heap/mpi_library.hpp"
#include "preload/heap/pages.hpp"
#include "preload/heap/peers.hpp"
#include "preload/heap/seccomp.hpp"
#include "preload/heap/sharing.hpp"
#include "preload/heap/site_rules.hpp"
#include "preload/heap/users.hpp"

namespace nearfield::heap {
namespace {

constinit Settings chosen;
constinit const char* reason_disabled = nullptr;
constinit bool is_reported = false;
constinit std::atomic<bool> is_opened{false};

// Returns the reason text if a memory checker, which needs the program's own heap, watches the program; else nullptr.
const char* watching_tool() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded && std::strstr(preloaded, "vgpreload")) return "Valgrind watches this program";
  if (dlsym(RTLD_DEFAULT, "__asan_init")) return "AddressSanitizer watches this program";
  if (dlsym(RTLD_DEFAULT, "__tsan_init")) return "ThreadSanitizer watches this program";
  if (dlsym(RTLD_DEFAULT, "__msan_init")) return "MemorySanitizer watches this program";
  return nullptr;
}

// Returns whether memory is accounted for strictly: an allocation of private memory then fails at once if there is too
// little memory, but shared memory fails only when it is touched.
bool accounting_is_strict() {
  const int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char mode = '0';
  if (file >= 0) {
    if (read(file, &mode, 1) != 1) mode = '0';
    close(file);
  }
  return mode == '2';
}

const char* find_obstacle() {
  if (const char* tool = watching_tool()) return tool;
  if (accounting_is_strict()) return "memory is accounted for strictly (vm.overcommit_memory = 2)";
  if (!survives_filters()) return "a seccomp filter ends processes that make the heap's system calls";
  return nullptr;
}

// Returns why the heap must not be used in this process; nullptr if it may be. Obstacles are looked for once, because
// that may fork.
const char* disabled_reason() {
  if (is_off_for_user()) return "NEARFIELD_OFF is set";
  if (!chosen.enabled) return site_reason() ? site_reason() : "it is switched off";
  static bool is_examined = false;
  static const char* obstacle = nullptr;
  if (!is_examined) obstacle = find_obstacle();
  is_examined = true;
  return obstacle;
}

void write_report() {
  const HeapFacts heap = heap_facts();
  const PeerFacts peers = peer_facts();
  const SharingFacts shared = sharing_facts();
  const Counts counts = all_counts();
  const OwnerCopies by_owners = owner_copies();
  char name[32] = "?", path[sizeof chosen.report + 32], text[1024];
  prctl(PR_GET_NAME, name);
  std::snprintf(path, sizeof path, "%s/%ld.heap", chosen.report, static_cast<long>(getpid()));
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = std::getenv("PMI_RANK");
  if (!rank) rank = std::getenv("PMIX_RANK");
  const char* reason = reason_disabled ? reason_disabled : heap.reason;
  int used = std::snprintf(text, sizeof text,
                           "rank = %s\nprogram = %s\nreason = %s\ntaken_bytes = %zu\nmapped_bytes = %zu\n"
                           "shared_bytes = %zu\nmoves = %u\nforks = %d\npeers = %d\nwindows = %d\nstreaming = %s\n"
                           "line_ns = %u %u\nhuge_pages = %u\nowner = %zu %zu\nbounced = %zu\n",
                           rank ? rank : "-", name, reason ? reason : "-", heap.taken_bytes, heap.mapped_bytes,
                           shared.shared_bytes, shared.moves, heap.forks, peers.peers, peers.windows,
                           streaming_copy_name(), peers.nearest_ns, peers.farthest_ns, huge_pages_made(),
                           by_owners.copies, by_owners.bytes, by_owners.bounced);
  for (int i = 0; i < copy_paths; ++i)
    used += std::snprintf(text + used, sizeof text - static_cast<std::size_t>(used), "%s = %zu %zu\n",
                          copy_path_names[i], counts.messages[i], counts.bytes[i]);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (write(file, text, static_cast<std::size_t>(used)) != used) unlink(path);
  close(file);
}

__attribute__((constructor(101))) void start() {
  if (getauxval(AT_SECURE)) {  // a setuid program must not do what its user's environment says
    chosen.enabled = 0;
    reason_disabled = disabled_reason();
    return;
  }
  read_settings(std::getenv("NEARFIELD_HEAP"), chosen);
  read_job_key(std::getenv("NEARFIELD_HEAP_KEY"), chosen);
  start_clock();
  watch_threads();
  read_site(chosen);
  // The MPI of a Fortran program may be initialized without a call that mpi_calls.cpp intercepts.
  if (chosen.at_start || find_in_library("libmpi", "MPI_Init")) prepare_for_mpi();
  reason_disabled = disabled_reason();
  watch_forks();  // also without a heap: a child must not use its parent's sockets
  if (reason_disabled) return;
  if (chosen.at_start) open_when_initialized();
}

__attribute__((destructor)) void end() {
  if (is_reported) return;
  is_reported = true;
  if (chosen.report[0]) write_report();
  log_job();
}

}  // namespace

const Settings& settings() { return chosen; }

void prepare_for_mpi() {
  apply_site_rules(chosen);
  reason_disabled = disabled_reason();
  if (!is_off_for_user()) start_copy_service();
}

void open_when_initialized() {
  if (reason_disabled || is_opened.exchange(true)) return;
  start_huge_pages(chosen.huge);
  open_heap(chosen);
}

void stay_closed(const char* reason) {
  if (!is_opened.exchange(true)) reason_disabled = reason_disabled ? reason_disabled : reason;
}

}  // namespace nearfield::heap
