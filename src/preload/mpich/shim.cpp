#include "preload/mpich/shim.hpp"

#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/launcher.hpp"
#include "preload/mpi/library.hpp"
#include "preload/mpich/peers.hpp"
#include "preload/mpich/persistent.hpp"
#include "preload/mpich/thresholds.hpp"

namespace nearfield::tune {
namespace detail {
bool is_active = false;
}

namespace {

struct State {
  Peers peers;
  Thresholds thresholds;
  PersistentSends persistent;
};

// Returns the state, which is never destroyed, because programs may finalise MPI in exit handlers.
State& state() {
  static State& only = *new State;
  return only;
}

void print_notice(const std::string& reason) {
  std::fprintf(stderr, "nearfield: the MPICH shim steps aside: %s\n", reason.c_str());
}

// Returns the reason why the loaded MPI library is not supported; empty if this file was compiled for it. Uses no
// handle or constant, since these depend on the MPI's ABI.
std::string unsupported_library() {
  void* get_version = find_mpi_function("PMPI_Get_library_version");
  if (!get_version) return "this MPI does not tell its name";
  char text[16384] = "";
  int length = 0;
  reinterpret_cast<int (*)(char*, int*)>(get_version)(text, &length);
  text[std::strcspn(text, "\r\n")] = '\0';
  if (std::strncmp(text, "MPICH", 5) != 0) return std::string("this is not MPICH but ") + text;
  const char* file = library_of(get_version);
  if (std::strstr(file, "libmpi_abi")) return std::string("no support for the standard ABI, ") + file;
  return {};
}

struct ParsedConfig {
  Rules rules = parse_rules("");
  std::map<std::pair<int, int>, Distance> classes;
  std::string wrong;
};

ParsedConfig parse_config() {
  ParsedConfig wanted;
  const char* rules = std::getenv("NEARFIELD_PAIR_RULES");
  const char* classes = std::getenv("NEARFIELD_PAIR_CLASSES");
  const char* variable = "NEARFIELD_PAIR_RULES";
  try {
    ParsedConfig read;
    read.rules = parse_rules(rules ? rules : "");
    variable = "NEARFIELD_PAIR_CLASSES";
    read.classes = parse_classes(classes ? classes : "");
    return read;
  } catch (const MalformedRules& error) {
    wanted.wrong = std::string(variable) + ": " + error.what();
  }
  return wanted;
}

std::string disabled_reason(const ParsedConfig& wanted) {
  int level = MPI_THREAD_SINGLE;
  NEARFIELD_PMPI(MPI_Query_thread)(&level);
  if (!wanted.wrong.empty()) return wanted.wrong;
  if (level == MPI_THREAD_MULTIPLE) return "threads may send at once (MPI_THREAD_MULTIPLE), the threshold is one";
  if (!state().thresholds.open())
    return "this MPICH has no threshold for CMA (it came with 4.3, in ch4's shared memory)";
  return {};
}

MPI_Request request_at(const void* request) { return *static_cast<const MPI_Request*>(request); }

}  // namespace

void after_init() {
  static bool is_done = false;
  if (is_done) return;
  is_done = true;
  if (const std::string reason = unsupported_library(); !reason.empty()) {
    if (rank_from_environment() <= 0) print_notice(reason);  // on rank 0, or without a launcher
    return;
  }
  const ParsedConfig wanted = parse_config();
  // open() is collective, so every rank calls it, even if it then disables the shim.
  const bool is_any = state().peers.open(wanted.rules, wanted.classes);
  const std::string reason = disabled_reason(wanted);
  int rank = 0;
  NEARFIELD_PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  if (!reason.empty() && rank == 0) print_notice(reason);
  detail::is_active = is_any && reason.empty();
  if (detail::is_active) return;
  if (reason.empty()) state().thresholds.close();
  state().peers.close();
}

void before_finalize() {
  if (!detail::is_active) return;
  detail::is_active = false;
  state().thresholds.close();
  state().peers.close();
}

namespace detail {

void apply_threshold_for(int destination, Handle comm) {
  state().thresholds.set(state().peers.threshold_of(static_cast<MPI_Comm>(comm), destination));
}

void register_persistent(int destination, Handle comm, const void* request) {
  state().persistent.remember(request_at(request),
                              state().peers.threshold_of(static_cast<MPI_Comm>(comm), destination));
}

void unregister_persistent(const void* request) { state().persistent.forget(request_at(request)); }

int apply_threshold_to_run(const void* requests, int count) {
  const auto run = state().persistent.first_run(static_cast<const MPI_Request*>(requests), count);
  if (run.bytes) state().thresholds.set(*run.bytes);
  return run.length;
}

}  // namespace detail
}  // namespace nearfield::tune
