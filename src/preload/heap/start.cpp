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

constinit Settings process_settings;
constinit const char* reason_heap_disabled = nullptr;
constinit bool is_report_written = false;
constinit std::atomic<bool> is_opened{false};

// Returns the reason text if a memory checker, which needs the program's own heap, watches the program; else nullptr.
const char* find_memory_checker() {
  const char* preloaded = std::getenv("LD_PRELOAD");
  if (preloaded && std::strstr(preloaded, "vgpreload")) return "Valgrind watches this program";
  if (dlsym(RTLD_DEFAULT, "__asan_init")) return "AddressSanitizer watches this program";
  if (dlsym(RTLD_DEFAULT, "__tsan_init")) return "ThreadSanitizer watches this program";
  if (dlsym(RTLD_DEFAULT, "__msan_init")) return "MemorySanitizer watches this program";
  return nullptr;
}

// Returns whether memory is accounted for strictly: an allocation of private memory then fails at once if there is too
// little memory, but shared memory fails only when it is touched.
bool is_memory_accounting_strict() {
  const int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
  char mode = '0';
  if (file >= 0) {
    if (read(file, &mode, 1) != 1) mode = '0';
    close(file);
  }
  return mode == '2';
}

const char* find_obstacle() {
  if (const char* tool = find_memory_checker()) return tool;
  if (is_memory_accounting_strict()) return "memory is accounted for strictly (vm.overcommit_memory = 2)";
  if (!survives_syscall_filters()) return "a seccomp filter ends processes that make the heap's system calls";
  return nullptr;
}

// Returns why the heap must not be used in this process; nullptr if it may be. Obstacles are looked for once, because
// that may fork.
const char* find_reason_heap_disabled() {
  if (is_off_for_user()) return "NEARFIELD_OFF is set";
  if (!process_settings.is_enabled) return reason_site_closed_heap() ? reason_site_closed_heap() : "it is switched off";
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
  const CopyCounts counts = sum_copy_counts();
  const OwnerCopies by_owners = owner_copy_counts();
  char name[32] = "?", path[sizeof process_settings.report_folder + 32], text[1024];
  prctl(PR_GET_NAME, name);
  std::snprintf(path, sizeof path, "%s/%ld.heap", process_settings.report_folder, static_cast<long>(getpid()));
  const char* rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (!rank) rank = std::getenv("PMI_RANK");
  if (!rank) rank = std::getenv("PMIX_RANK");
  const char* reason = reason_heap_disabled ? reason_heap_disabled : heap.reason_closed;
  int text_length =
      std::snprintf(text, sizeof text,
                    "rank = %s\nprogram = %s\nreason = %s\ntaken_bytes = %zu\nmapped_bytes = %zu\n"
                    "shared_bytes = %zu\nmoves = %u\nforks = %d\npeers = %d\nwindows = %d\nstreaming = %s\n"
                    "line_ns = %u %u\nhuge_pages = %u\nowner = %zu %zu\nbounced = %zu\n",
                    rank ? rank : "-", name, reason ? reason : "-", heap.allocated_bytes, heap.mapped_bytes,
                    shared.shared_bytes, shared.num_moved_stretches, heap.num_forks, peers.num_peers, peers.num_windows,
                    streaming_copy_name(), peers.min_latency_ns, peers.max_latency_ns, num_huge_pages_made(),
                    by_owners.num_copies, by_owners.bytes, by_owners.num_bounce_copies);
  for (int i = 0; i < num_copy_paths; ++i)
    text_length += std::snprintf(text + text_length, sizeof text - static_cast<std::size_t>(text_length),
                                 "%s = %zu %zu\n", copy_path_names[i], counts.num_messages[i], counts.num_bytes[i]);
  const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) return;
  if (write(file, text, static_cast<std::size_t>(text_length)) != text_length) unlink(path);
  close(file);
}

__attribute__((constructor(101))) void start_library() {
  if (getauxval(AT_SECURE)) {  // a setuid program must not do what its user's environment says
    process_settings.is_enabled = 0;
    reason_heap_disabled = find_reason_heap_disabled();
    return;
  }
  parse_settings(std::getenv("NEARFIELD_HEAP"), process_settings);
  parse_job_key(std::getenv("NEARFIELD_HEAP_KEY"), process_settings);
  start_tick_clock();
  start_recording_harmless_threads();
  detect_site(process_settings);
  // The MPI of a Fortran program may be initialized without a call that mpi_calls.cpp intercepts.
  if (process_settings.opens_at_start || find_library_symbol("libmpi", "MPI_Init")) prepare_for_mpi();
  reason_heap_disabled = find_reason_heap_disabled();
  register_fork_handlers();  // also without a heap: a child must not use its parent's sockets
  if (reason_heap_disabled) return;
  if (process_settings.opens_at_start) open_heap_if_enabled();
}

__attribute__((destructor)) void end_library() {
  if (is_report_written) return;
  is_report_written = true;
  if (process_settings.report_folder[0]) write_report();
  write_job_log_line();
}

}  // namespace

const Settings& settings() { return process_settings; }

void prepare_for_mpi() {
  apply_site_rules(process_settings);
  reason_heap_disabled = find_reason_heap_disabled();
  if (!is_off_for_user()) start_copy_service();
}

void open_heap_if_enabled() {
  if (reason_heap_disabled || is_opened.exchange(true)) return;
  start_huge_pages(process_settings.allows_huge_pages);
  open_heap(process_settings);
}

void keep_heap_closed(const char* reason) {
  if (!is_opened.exchange(true)) reason_heap_disabled = reason_heap_disabled ? reason_heap_disabled : reason;
}

}  // namespace nearfield::heap
