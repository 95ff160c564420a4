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
bool is_shim_active = false;
}

namespace {

struct ShimState {
  PeerThresholds peers;
  MpichThresholds thresholds;
  PersistentSendThresholds persistent_sends;
};

// Returns the state, which is never destroyed, because programs may finalise MPI in exit handlers.
ShimState& state() {
  static ShimState& instance = *new ShimState;
  return instance;
}

void print_notice(const std::string& reason) {
  std::fprintf(stderr, "nearfield: the MPICH shim steps aside: %s\n", reason.c_str());
}

// Returns the reason why the loaded MPI library is not supported; empty if this file was compiled for it. Uses no
// handle or constant, since these depend on the MPI's ABI.
std::string find_unsupported_reason() {
  void* get_version = find_mpi_function("PMPI_Get_library_version");
  if (!get_version) return "this MPI does not tell its name";
  char text[16384] = "";
  int length = 0;
  reinterpret_cast<int (*)(char*, int*)>(get_version)(text, &length);
  text[std::strcspn(text, "\r\n")] = '\0';
  if (std::strncmp(text, "MPICH", 5) != 0) return std::string("this is not MPICH but ") + text;
  const char* file = library_path_of(get_version);
  if (std::strstr(file, "libmpi_abi")) return std::string("no support for the standard ABI, ") + file;
  return {};
}

struct ParsedConfig {
  pair_rules rules{};
  std::string error_message;  // if it is not empty, there are no rules
};

const char* variable_or_empty(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Parses NEARFIELD_PAIR_RULES and, for tests, NEARFIELD_PAIR_CLASSES. Of the limits, MPICH has only single_copy_from.
ParsedConfig parse_config() {
  ParsedConfig config;
  char error[200];
  const char* variable = "NEARFIELD_PAIR_RULES";
  bool is_parsed = parse_rules(&config.rules, KEY_SINGLE_COPY_FROM, variable_or_empty(variable), error, sizeof error);
  if (is_parsed) {
    variable = "NEARFIELD_PAIR_CLASSES";
    is_parsed = parse_given_pairs(&config.rules, variable_or_empty(variable), error, sizeof error);
  }
  if (is_parsed) return config;
  free_rules(&config.rules);
  config.error_message = std::string(variable) + ": " + error;
  return config;
}

std::string find_disabled_reason(const ParsedConfig& config) {
  int thread_level = MPI_THREAD_SINGLE;
  NEARFIELD_PMPI(MPI_Query_thread)(&thread_level);
  if (!config.error_message.empty()) return config.error_message;
  if (thread_level == MPI_THREAD_MULTIPLE)
    return "threads may send at once (MPI_THREAD_MULTIPLE), the threshold is one";
  if (!state().thresholds.open_variables())
    return "this MPICH has no threshold for CMA (it came with 4.3, in ch4's shared memory)";
  return {};
}

MPI_Request request_at(const void* request) { return *static_cast<const MPI_Request*>(request); }

}  // namespace

void after_init() {
  static bool is_done = false;
  if (is_done) return;
  is_done = true;
  if (const std::string reason = find_unsupported_reason(); !reason.empty()) {
    if (rank_from_environment() <= 0) print_notice(reason);  // on rank 0, or without a launcher
    return;
  }
  ParsedConfig config = parse_config();
  // initialize() is collective, so every rank calls it, even if it then disables the shim.
  const bool has_rule_for_any_peer = state().peers.initialize(config.rules);
  free_rules(&config.rules);
  const std::string reason = find_disabled_reason(config);
  int rank = 0;
  NEARFIELD_PMPI(MPI_Comm_rank)(MPI_COMM_WORLD, &rank);
  if (!reason.empty() && rank == 0) print_notice(reason);
  detail::is_shim_active = has_rule_for_any_peer && reason.empty();
  if (detail::is_shim_active) return;
  if (reason.empty()) state().thresholds.restore_and_close();
  state().peers.release_mpi_objects();
}

void before_finalize() {
  if (!detail::is_shim_active) return;
  detail::is_shim_active = false;
  state().thresholds.restore_and_close();
  state().peers.release_mpi_objects();
}

namespace detail {

void apply_threshold_for(int destination, Handle comm) {
  state().thresholds.set_all_bytes(state().peers.threshold_of(static_cast<MPI_Comm>(comm), destination));
}

void record_persistent_send(int destination, Handle comm, const void* request) {
  state().persistent_sends.record_threshold(request_at(request),
                                            state().peers.threshold_of(static_cast<MPI_Comm>(comm), destination));
}

void remove_persistent_send(const void* request) { state().persistent_sends.remove_request(request_at(request)); }

int apply_threshold_to_run(const void* requests, int count) {
  const auto run = state().persistent_sends.find_leading_requests(static_cast<const MPI_Request*>(requests), count);
  if (run.threshold_bytes) state().thresholds.set_all_bytes(*run.threshold_bytes);
  return run.num_requests;
}

}  // namespace detail
}  // namespace nearfield::tune
