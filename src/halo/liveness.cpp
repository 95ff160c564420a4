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

bool is_gone(long process) {
  if (kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(stat, line);
  const auto after = line.rfind(')');  // the process name before it may contain anything
  return after != std::string::npos && after + 2 < line.size() && (line[after + 2] == 'Z' || line[after + 2] == 'X');
}

}  // namespace

Liveness::Liveness(const Node& node, double limit_s)
    : node_(node),
      limit_s_(limit_s),
      processes_seen_(std::none_of(node.process_of.begin(), node.process_of.end(), is_gone)) {}

void Liveness::check(int local, const char* what, std::uint64_t phase) {
  const double now = MPI_Wtime();
  if (waiting_since_s_ == 0) waiting_since_s_ = checked_at_s_ = now;
  if (now - checked_at_s_ < 0.02) return;
  checked_at_s_ = now;
  const auto rank = std::to_string(node_.rank_of[static_cast<std::size_t>(local)]);
  const long process = node_.process_of[static_cast<std::size_t>(local)];
  const auto text = "rank " + rank + " (process " + std::to_string(process) + ") ";
  if (processes_seen_ && is_gone(process))
    throw Error(Code::lost, text + "has died; rank " + std::to_string(node_.rank) + " waited for it");
  if (now - waiting_since_s_ < limit_s_) return;
  std::ostringstream late;
  late << text << "has not " << what << " " << phase << " within " << limit_s_
       << " s: do all ranks exchange the same fields in the same order?";
  throw Error(Code::late, late.str());
}

}  // namespace nearfield::halo
