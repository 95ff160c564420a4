#include "halo/liveness.hpp"

#include <signal.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string>

namespace nearfield::halo {
namespace {

bool has_process_ended(long process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto name_end = line.rfind(')');  // the process name in parentheses may contain any character
  return name_end != std::string::npos && name_end + 2 < line.size() &&
         (line[name_end + 2] == 'Z' || line[name_end + 2] == 'X');
}

}  // namespace

PeerLiveness::PeerLiveness(const Node& node, double limit_s)
    : node_(node),
      wait_limit_s_(limit_s),
      can_see_processes_(std::none_of(node.process_id_by_local_rank.begin(), node.process_id_by_local_rank.end(),
                                      has_process_ended)) {}

void PeerLiveness::check_peer(int local_rank, const char* action, std::uint64_t phase) {
  const double now = MPI_Wtime();
  if (waiting_since_s_ == 0) waiting_since_s_ = last_check_s_ = now;
  if (now - last_check_s_ < 0.02) return;
  last_check_s_ = now;
  const auto rank = std::to_string(node_.rank_by_local_rank[static_cast<std::size_t>(local_rank)]);
  const long process = node_.process_id_by_local_rank[static_cast<std::size_t>(local_rank)];
  const auto text = "rank " + rank + " (process " + std::to_string(process) + ") ";
  if (can_see_processes_ && has_process_ended(process))
    throw Error(ErrorCode::lost, text + "has died; rank " + std::to_string(node_.rank) + " waited for it");
  if (now - waiting_since_s_ < wait_limit_s_) return;
  std::ostringstream late;
  late << text << "has not " << action << " " << phase << " within " << wait_limit_s_
       << " s: do all ranks exchange the same fields in the same order?";
  throw Error(ErrorCode::late, late.str());
}

}  // namespace nearfield::halo
