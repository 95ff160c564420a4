// Are nodes that die noticed, and only those, and is a program ended only while one of its ranks waits? The connections
// are real; a node falls silent by a filter on a socket, by which the kernel drops all that arrives there.
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "base/job_end.hpp"
#include "base/job_watch.hpp"
#include "base/node_watch.hpp"
#include "check.hpp"

namespace {

using namespace nearfield;

constexpr int silence_s = 2;

void pause_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

template <class Condition>
bool becomes_true(Condition condition, double limit_s = 30) {
  for (const double end = monotonic_s() + limit_s; monotonic_s() < end; pause_s(0.02))
    if (condition()) return true;
  return condition();
}

long count_entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
}

// Stores what a watch reports. Its handler returns false, so that the watch reports the node again.
struct Reports {
  std::atomic<int> count{0};
  LostNode last;

  NodeWatch::LostNodeHandler listener() {
    return [this](const LostNode& node) {
      if (count == 0) last = node;
      ++count;
      return false;
    };
  }
};

// Returns the hub's address with the host that is reached without a network.
std::string on_loopback(const std::string& address) {
  const std::size_t token = address.find('/');
  return address.substr(0, address.find('/', token + 1)) + "/127.0.0.1";
}

// A connection to a hub, made by hand, as a member on node "b" makes it.
class HandMadeMember {
 public:
  HandMadeMember(const std::string& address, std::uint64_t id, std::uint64_t wrong_bits = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    place.sin_port = htons(static_cast<std::uint16_t>(std::atoi(address.c_str())));
    CHECK(connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof place) == 0);
    const std::uint64_t token = std::strtoull(address.c_str() + address.find('/') + 1, nullptr, 10);
    Hello hello{token ^ wrong_bits, id, "b"};
    CHECK(send(socket_, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello);
    is_accepted = recv(socket_, &hello, sizeof hello, MSG_WAITALL) == sizeof hello && hello.token == token;
  }
  ~HandMadeMember() { close(socket_); }

  void fall_silent() {
    sock_filter drop{BPF_RET | BPF_K, 0, 0, 0};
    const sock_fprog program{1, &drop};
    CHECK(setsockopt(socket_, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0);
  }
  void say_goodbye() { CHECK(send(socket_, "q", 1, MSG_NOSIGNAL) == 1); }

  bool is_accepted = false;

 private:
  struct Hello {
    std::uint64_t token, id;
    char name[64];
  };
  int socket_;
};

void check_silence_and_recovery() {
  Reports reports;
  NodeWatch hub(reports.listener(), silence_s);
  HandMadeMember silent(hub.address(), 7), other(hub.address(), 8);
  CHECK(silent.is_accepted && other.is_accepted);
  pause_s(silence_s + 2);  // answering members, even if they do nothing, are not silent
  CHECK(reports.count == 0);
  silent.fall_silent();
  CHECK(becomes_true([&] { return reports.count > 2; }));
  CHECK(reports.last.is_silent && reports.last.silent_for_s >= silence_s);
  CHECK(reports.last.text().starts_with("node b has not answered for 2 s (since "));
  CHECK(hub.first_ended_node().empty());
  const HandMadeMember again(hub.address(), 7);
  CHECK(again.is_accepted);
  pause_s(0.5);
  const int count = reports.count;
  pause_s(1);
  CHECK(reports.count == count);
}

void check_strangers_and_goodbyes() {
  Reports reports;
  NodeWatch hub(reports.listener(), silence_s);
  HandMadeMember leaving(hub.address(), 7);
  {
    CHECK(!HandMadeMember(hub.address(), 9, 1).is_accepted);
  }
  leaving.say_goodbye();
  pause_s(0.3);
  leaving.fall_silent();
  pause_s(7);  // longer than until silence and until ended processes are reported
  CHECK(reports.count == 0 && hub.first_ended_node().empty());
}

// Runs work() in a process of its own. Returns its id.
template <class Work>
pid_t start_process(Work work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::fflush(stdout);
    _exit(failed_checks > 0);
  }
  return child;
}

void check_killed_member() {
  Reports reports;
  NodeWatch hub(reports.listener(), silence_s);
  const std::string address = on_loopback(hub.address());
  int connected[2];
  CHECK(pipe2(connected, O_CLOEXEC) == 0);
  const pid_t child = start_process([&] {
    const NodeWatch member(address, [](const LostNode&) { return true; }, silence_s);
    pause_s(1.5);  // until it is connected
    CHECK(write(connected[1], "", 1) == 1);
    for (;;) pause();
  });
  char byte;
  CHECK(read(connected[0], &byte, 1) == 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(becomes_true([&] { return !hub.first_ended_node().empty(); }));
  CHECK(hub.first_ended_node() == own_node_name());
  CHECK(reports.count == 0);  // the launcher may say first why they ended
  CHECK(becomes_true([&] { return reports.count > 0; }));
  CHECK(!reports.last.is_silent && reports.last.text().ends_with(" have ended without notice"));
}

void check_killed_hub_and_leaving_hub() {
  Reports killed, left;
  int addresses[2];
  CHECK(pipe2(addresses, O_CLOEXEC) == 0);
  const pid_t child = start_process([&] {
    const NodeWatch hub([](const LostNode&) { return true; }, silence_s);
    const std::string address = on_loopback(hub.address()) + "\n";
    CHECK(write(addresses[1], address.data(), address.size()) > 0);
    for (;;) pause();
  });
  char line[128] = {};
  CHECK(read(addresses[0], line, sizeof line - 1) > 0);
  auto hub = std::make_unique<NodeWatch>([](const LostNode&) { return true; }, silence_s);
  NodeWatch of_killed(std::string(line, std::strlen(line) - 1), killed.listener(), silence_s);
  NodeWatch of_left(on_loopback(hub->address()), left.listener(), silence_s);
  pause_s(1.5);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  hub.reset();
  CHECK(becomes_true([&] { return killed.count > 0; }));
  CHECK(!killed.last.is_silent && killed.last.name == own_node_name());
  CHECK(left.count == 0);
}

void check_descriptors() {
  const NodeWatch hub([](const LostNode&) { return true; });
  const NodeWatch member(on_loopback(hub.address()), [](const LostNode&) { return true; });
  pause_s(1);
  int sockets = 0;
  for (int file = 3; file < 64; ++file) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISSOCK(status.st_mode)) continue;
    ++sockets;
    CHECK(fcntl(file, F_GETFD) & FD_CLOEXEC);
  }
  CHECK(sockets == 3);  // the listener and both ends of the connection
}

// ---- who waits

void check_observer() {
  static WaitMark own{random_number()}, of_child{random_number()};
  int steps[2];
  CHECK(pipe2(steps, O_CLOEXEC) == 0);
  const pid_t child = start_process([&] {
    of_child.enter();
    CHECK(write(steps[1], "", 1) == 1);
    for (;;) pause();
  });
  char byte;
  CHECK(read(steps[0], &byte, 1) == 1);
  const auto place = [](int rank, pid_t process, const WaitMark& mark, std::uint64_t secret) {
    return WaitMarkLocation{rank, process, reinterpret_cast<std::uint64_t>(&mark), secret};
  };
  const double begin_s = monotonic_s();
  WaitObserver of_own({place(3, getpid(), own, own.secret)});
  WaitObserver of_both({place(3, getpid(), own, own.secret), place(4, child, of_child, of_child.secret)});
  WaitObserver of_stranger({place(4, child, of_child, of_child.secret + 1)});
  CHECK(of_own.find_waiting_rank(begin_s, 0) == -1);  // it computes
  CHECK(of_both.find_waiting_rank(begin_s, 0.4) == -1);
  own.enter();
  CHECK(of_own.find_waiting_rank(begin_s, 0.4) == -1);
  CHECK(of_stranger.find_waiting_rank(begin_s, 0) == -1);
  pause_s(0.3);
  own.leave();
  own.enter();  // another exchange
  CHECK(of_own.find_waiting_rank(begin_s, 0.4) == -1);
  pause_s(0.2);
  CHECK(of_own.find_waiting_rank(begin_s, 0.4) == -1);
  CHECK(of_both.find_waiting_rank(begin_s, 0.4) == 4);  // the other rank has waited for longer
  CHECK(of_both.find_waiting_rank(monotonic_s(), 0.4) == -1);
  pause_s(0.3);
  CHECK(of_own.find_waiting_rank(begin_s, 0.4) == 3);
  own.leave();
  CHECK(of_own.find_waiting_rank(begin_s, 0) == -1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(of_both.find_waiting_rank(begin_s, 0) == -1);
}

// Starts the watch of a job of two ranks, of which this process is the first. Returns the hub's address, or "" if no
// address was sent.
std::string start_watch(const char* other_host) {
  std::string address;
  const JobRanks ranks{0, 2,
                       [&](const void* own, void* all, std::size_t bytes) {
                         std::memcpy(all, own, bytes);
                         std::memcpy(static_cast<char*>(all) + bytes, own, bytes);
                         if (other_host) std::strcpy(static_cast<char*>(all) + bytes, other_host);
                       },
                       [&](void* data, std::size_t) { address = static_cast<char*>(data) + sizeof(double); }};
  start_job_watch(ranks, "a test");
  return address;
}

void check_no_watch() {
  const long threads = count_entries("/proc/self/task"), files = count_entries("/proc/self/fd");
  CHECK(start_watch(nullptr).empty());  // one node
  FILE* const said = std::tmpfile();
  dup2(fileno(said), STDERR_FILENO);
  for (const char* patience : {"off", "0", "offf"}) {
    setenv("NEARFIELD_NODE_PATIENCE_S", patience, 1);
    CHECK(start_watch("b").empty());
    CHECK((std::ftell(stderr) > 0) == (std::strcmp(patience, "offf") == 0));  // only that is a mistake
  }
  std::fclose(said);
  CHECK(!watched_wait_mark.load());
  CHECK(count_entries("/proc/self/task") == threads && count_entries("/proc/self/fd") == files);
}

// Runs work() in a process whose watch has a silent member. Returns the exit code, and what the process wrote.
template <class Work>
std::pair<int, std::string> run_with_silent_node(Work work) {
  int output[2];
  CHECK(pipe2(output, O_CLOEXEC) == 0);
  const pid_t child = start_process([&] {
    setenv("NEARFIELD_NODE_PATIENCE_S", "1.5", 1);
    setenv("NEARFIELD_NODE_SILENCE_S", "2", 1);
    dup2(output[1], STDERR_FILENO);
    HandMadeMember member(start_watch("b"), 7);
    member.fall_silent();
    work();
    stop_job_watch();
    _exit(42);
  });
  close(output[1]);
  std::string said;
  char text[512];
  for (ssize_t count; (count = read(output[0], text, sizeof text)) > 0;) said.append(text, text + count);
  close(output[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, said};
}

void check_waiting_program() {
  const auto [code, said] = run_with_silent_node([] {
    const NodeWait wait(true);
    pause_s(30);
  });
  CHECK(code == 1);
  CHECK(said.starts_with("nearfield: node b has not answered for "));
  CHECK(said.find(", and rank 0 has waited in a test for 1.5 s: the program is ended") != std::string::npos);
}

void check_computing_program() {
  const auto [code, said] = run_with_silent_node([] {
    {
      const NodeWait before(true);
    }
    const NodeWait not_across_nodes(false);
    pause_s(7);
  });
  CHECK(code == 42 && said.empty());
}

void check_progressing_program() {
  const auto [code, said] = run_with_silent_node([] {
    for (int i = 0; i < 10; ++i) {
      const NodeWait wait(true);
      pause_s(0.7);
    }
  });
  CHECK(code == 42 && said.empty());
}

// ---- the launcher

int print_own_launcher() {
  std::ifstream file("/proc/" + std::to_string(find_job_launcher()) + "/comm");
  std::string name = "none";
  std::getline(file, name);
  std::puts(name.c_str());
  return 0;
}

// Returns the name of the launcher that a process finds which the shell starts by a line, in a folder with launchers.
std::string find_launcher_under(const std::string& folder, const std::string& line) {
  std::FILE* const pipe = popen(("cd " + folder + " && " + line).c_str(), "r");
  char name[64] = {};
  if (!pipe || !std::fgets(name, sizeof name, pipe)) return "";
  pclose(pipe);
  return std::string(name, std::strcspn(name, "\n"));
}

void check_launchers() {
  char folder[] = "/tmp/node_watch_XXXXXX";
  CHECK(mkdtemp(folder));
  for (const char* name : {"mpirun", "mpiexec.mpich", "hydra_pmi_proxy", "wrapper", "srun"}) {
    const std::string path = std::string(folder) + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n\"$@\"\nexit $?\n";
    chmod(path.c_str(), 0755);
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string() + " launcher";
  const auto find = [&](const std::string& line) { return find_launcher_under(folder, line + " " + self); };
  CHECK(find("./mpirun") == "mpirun");
  CHECK(find("./mpirun env PMI_RANK=1 ./wrapper") == "mpirun");
  CHECK(find("./mpiexec.mpich ./hydra_pmi_proxy env PMI_RANK=1 ./wrapper") == "mpiexec.mpich");
  CHECK(find("./mpirun env PMI_RANK=0 ./mpiexec.mpich ./hydra_pmi_proxy env PMI_RANK=0") == "mpiexec.mpich");
  CHECK(find("./wrapper") == "none");
  CHECK(find("./mpirun ./wrapper") == "none");                             // no launcher's variables
  CHECK(find("./mpirun env PMI_RANK=0 ./srun env PMI_RANK=1") == "none");  // srun has launched the rank
  CHECK(find("./mpirun env PMI_RANK=0 ./srun env PMIX_RANK=0 PMI_RANK=0") == "none");
  CHECK(find("./mpirun ./wrapper ./hydra_pmi_proxy env PMI_RANK=0") == "none");  // a proxy on a remote node
  CHECK(find("./mpirun env PMI_RANK=0 ./wrapper ./hydra_pmi_proxy env PMI_RANK=0") == "none");
  std::filesystem::remove_all(folder);
}

}  // namespace

int main(int argc, char**) {
  if (argc > 1) return print_own_launcher();
  int failed = 0;
  for (const auto check : {check_silence_and_recovery, check_strangers_and_goodbyes, check_killed_member,
                           check_killed_hub_and_leaving_hub, check_descriptors, check_observer, check_no_watch,
                           check_waiting_program, check_computing_program, check_progressing_program, check_launchers})
    start_process(check);
  for (int status; wait(&status) > 0;) failed += status != 0;
  std::printf("%d checks of node watches failed\n", failed);
  return failed != 0;
}
