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

bool is_process_gone(long process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto after = line.rfind(')');  // the process name in parentheses may contain any character
  return after != std::string::npos && after + 2 < line.size() && (line[after + 2] == 'Z' || line[after + 2] == 'X');
}

}  // namespace

Liveness::Liveness(const Node& node, double limit_s)
    : node_(node),
      limit_s_(limit_s),
      can_see_processes_(std::none_of(node.process_of.begin(), node.process_of.end(), is_process_gone)) {}

void Liveness::check_peer(int local, const char* what, std::uint64_t phase) {
  const double now = MPI_Wtime();
  if (waiting_since_s_ == 0) waiting_since_s_ = checked_at_s_ = now;
  if (now - checked_at_s_ < 0.02) return;
  checked_at_s_ = now;
  const auto rank = std::to_string(node_.rank_of[static_cast<std::size_t>(local)]);
  const long process = node_.process_of[static_cast<std::size_t>(local)];
  const auto text = "rank " + rank + " (process " + std::to_string(process) + ") ";
  if (can_see_processes_ && is_process_gone(process))
    throw Error(ErrorCode::lost, text + "has died; rank " + std::to_string(node_.rank) + " waited for it");
  if (now - waiting_since_s_ < limit_s_) return;
  std::ostringstream late;
  late << text << "has not " << what << " " << phase << " within " << limit_s_
       << " s: do all ranks exchange the same fields in the same order?";
  throw Error(ErrorCode::late, late.str());
}

}  // namespace nearfield::halo
