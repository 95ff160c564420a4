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

// What launchers set for the ranks that they start: which job, which rank, and the connection to the launcher.
constexpr const char* rank_variables[] = {"PMIX_NAMESPACE", "PMIX_RANK", "PMI_FD", "PMI_PORT", "PMI_ID", "PMI_RANK"};

std::string read_process_file(pid_t process, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the value of a variable with which a process was started; empty if it has none.
std::string find_variable(const std::string& environment, const std::string& name) {
  const std::string key = '\0' + name + '=';
  const std::size_t begin = environment.find(key);
  return begin == std::string::npos ? "" : std::string(environment.c_str() + begin + key.size());
}

// Returns the values of rank_variables with which a process was started; nothing if it is no rank or cannot be read.
std::vector<std::string> rank_values(pid_t process) {
  const std::string environment = '\0' + read_process_file(process, "environ");
  std::vector<std::string> values;
  for (const char* name : rank_variables) values.push_back(find_variable(environment, name));
  const auto is_empty = [](const std::string& value) { return value.empty(); };
  return std::all_of(values.begin(), values.end(), is_empty) ? std::vector<std::string>{} : values;
}

struct ProcessStat {
  std::string name;
  pid_t parent = 0;
};

ProcessStat read_stat(pid_t process) {
  const std::string text = read_process_file(process, "stat");
  const std::size_t begin = text.find('('), end = text.rfind(')');  // a name may contain parentheses
  int parent = 0;
  if (end == std::string::npos || std::sscanf(text.c_str() + end + 1, " %*c %d", &parent) != 1) return {};
  return {text.substr(begin + 1, end - begin - 1), parent};
}

bool is_own_process(pid_t process) {
  struct stat status;
  return stat(("/proc/" + std::to_string(process)).c_str(), &status) == 0 && status.st_uid == geteuid();
}

bool is_launcher_name(const std::string& name) {
  // With suffixes such as those of mpiexec.hydra and mpirun.openmpi. A daemon that serves several jobs is not among them.
  for (const std::string launcher : {"mpirun", "mpiexec", "orterun", "prterun"})
    if (name == launcher || name.starts_with(launcher + ".")) return true;
  return false;
}

}  // namespace

// A job may have been started inside of another one, whose launcher is then an ancestor, too, and must not be ended. So
// the nearest launcher among the ancestors is taken, and only if nothing between it and this process can have launched
// ranks itself: proxies of Hydra, which never work without their launcher, and wrappers of the rank, such as a shell,
// which have the rank's own variables. Any other process, such as a launcher that is not known here, a batch system, or a
// remote shell, ends the search. Everything must belong to the same user, since root may signal everybody's processes.
pid_t find_own_launcher() {
  const std::vector<std::string> own = rank_values(getpid());
  bool is_above_proxy = false;
  for (pid_t process = getppid(); process > 1 && is_own_process(process);) {
    const ProcessStat found = read_stat(process);
    if (is_launcher_name(found.name)) return process;
    const bool is_proxy = found.name.starts_with("hydra_");
    const bool is_wrapper = !is_above_proxy && !own.empty() && rank_values(process) == own;
    if (!is_proxy && !is_wrapper) return 0;
    is_above_proxy = is_proxy;
    process = found.parent;
  }
  return 0;
}

void end_job(const std::string& text) {
  dprintf(STDERR_FILENO, "nearfield: %s\n", text.c_str());
  const pid_t launcher = find_own_launcher();
  // The launcher ends this process before it needs the next signal, so a child in a session of its own sends them. Open
  // MPI 5 stops waiting for the dead node at the second SIGTERM; MPICH 5 may wait on. fork() would run handlers of the
  // MPI, which may wait for locks of the program's threads.
  if (launcher > 0 && syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) == 0) {
    setsid();
    for (const int number : {SIGTERM, SIGTERM, SIGKILL}) {
      if (kill(launcher, number) != 0) break;
      sleep(1);
    }
    _exit(0);
  }
  _exit(1);
}

}  // namespace nearfield
