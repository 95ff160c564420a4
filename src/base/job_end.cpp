#include "base/job_end.hpp"

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

namespace nearfield {
namespace {

// The environment variables by which launchers tell each rank its job, its number and the connection to the launcher.
constexpr const char* rank_variables[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK"};

std::string read_process_file(pid_t process, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the value of a variable in the environment of a process; empty if it is not set.
std::string find_variable(const std::string& environment, const std::string& name) {
  const std::string key = '\0' + name + '=';
  const std::size_t begin = environment.find(key);
  return begin == std::string::npos ? "" : std::string(environment.c_str() + begin + key.size());
}

// Returns the values of `rank_variables` in the initial environment of a process; an empty list if the process is no
// rank or its environment cannot be read.
std::vector<std::string> read_rank_variables(pid_t process) {
  const std::string environment = '\0' + read_process_file(process, "environ");
  std::vector<std::string> values;
  for (const char* name : rank_variables) values.push_back(find_variable(environment, name));
  const auto is_empty = [](const std::string& value) { return value.empty(); };
  return std::all_of(values.begin(), values.end(), is_empty) ? std::vector<std::string>{} : values;
}

struct ProcessStat {
  std::string name;
  pid_t parent_process = 0;
};

ProcessStat read_stat(pid_t process) {
  const std::string text = read_process_file(process, "stat");
  const std::size_t begin = text.find('('), end = text.rfind(')');  // a name may contain parentheses
  int parent_process = 0;
  if (end == std::string::npos || std::sscanf(text.c_str() + end + 1, " %*c %d", &parent_process) != 1) return {};
  return {text.substr(begin + 1, end - begin - 1), parent_process};
}

bool is_process_of_same_user(pid_t process) {
  struct stat status;
  return stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0 && status.st_uid == geteuid();
}

bool is_launcher_name(const std::string& name) {
  // Accepts suffixes, such as those of mpiexec.hydra and mpirun.openmpi. Daemons that serve several jobs are no
  // launchers.
  for (const std::string launcher : {"mpirun", "mpiexec", "orterun", "prterun"})
    if (name == launcher || name.starts_with(launcher + ".")) return true;
  return false;
}

}  // namespace

// A job may have been started inside another job, whose launcher is then an ancestor, too, and must not be ended. So
// this function returns the nearest launcher among the ancestors, and only if no process between it and this process
// can have launched ranks itself. Two kinds of processes may lie between: proxies of Hydra, which never run without
// their launcher, and wrappers of the rank, such as a shell, which have the same rank variables. Any other process,
// such as an unknown launcher, a batch system or a remote shell, ends the search. All processes must belong to the same
// user, since root may signal everybody's processes.
pid_t find_job_launcher() {
  const std::vector<std::string> own_rank_variables = read_rank_variables(getpid());
  bool is_above_proxy = false;
  for (pid_t process = getppid(); process > 1 && is_process_of_same_user(process);) {
    const ProcessStat ancestor = read_stat(process);
    if (is_launcher_name(ancestor.name)) return process;
    const bool is_proxy = ancestor.name.starts_with("hydra_");
    const bool is_wrapper =
        !is_above_proxy && !own_rank_variables.empty() && read_rank_variables(process) == own_rank_variables;
    if (!is_proxy && !is_wrapper) return 0;
    is_above_proxy = is_proxy;
    process = ancestor.parent_process;
  }
  return 0;
}

void end_job(const std::string& text) {
  dprintf(STDERR_FILENO, "nearfield: %s\n", text.c_str());
  const pid_t launcher = find_job_launcher();
  // The launcher may end this process before the last signal is sent, so a child in a new session sends the signals.
  // Open MPI 5 stops waiting for the dead node at the second SIGTERM; MPICH 5 may keep waiting until SIGKILL. fork()
  // would run handlers of the MPI library, which may wait for locks that the program's threads hold.
  if (launcher > 0 && syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
    setsid();
    for (const int signal_number : {SIGTERM, SIGTERM, SIGKILL}) {
      if (kill(launcher, signal_number) != 0) break;
      sleep(1);
    }
    _exit(0);
  }
  _exit(1);
}

}  // namespace nearfield
