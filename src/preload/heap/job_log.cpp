#include "preload/heap/job_log.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "preload/heap/counts.hpp"

namespace nearfield::heap {
namespace {

// A text of limited length that is written as JSON.
class Line {
 public:
  void add(const char* text) {
    while (*text && used_ + 1 < sizeof text_) text_[used_++] = *text++;
  }
  void add_key(const char* key) {
    add(used_ > 1 ? ", \"" : "\"");
    add(key);
    add("\": ");
  }
  // Adds a text, or null if it is empty. Everything but the printable characters of ASCII, and quotes and backslashes,
  // become '?', so that the line is valid JSON.
  void add_text(const char* key, const char* value) {
    add_key(key);
    if (!value || !*value) return add("null");
    add("\"");
    for (; *value; ++value) {
      const bool is_plain = *value >= ' ' && *value <= '~' && *value != '"' && *value != '\\';
      const char safe[] = {is_plain ? *value : '?', '\0'};
      add(safe);
    }
    add("\"");
  }
  const char* text() const { return text_; }
  std::size_t length() const { return used_; }

 private:
  char text_[4096] = {};
  std::size_t used_ = 0;
};

const char* first_set(const char* const* names, int count) {
  for (int i = 0; i < count; ++i)
    if (const char* value = std::getenv(names[i])) return value;
  return nullptr;
}

}  // namespace

void append_job_line(const char* path, const JobFacts& facts) {
  static constexpr const char* job_names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"};
  char program[32] = "", host[65] = "", date[32] = "";
  prctl(PR_GET_NAME, program);
  gethostname(host, sizeof host - 1);
  const std::time_t now = std::time(nullptr);
  std::tm parts;
  if (gmtime_r(&now, &parts)) std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  Line line;
  line.add("{");
  line.add_text("date", date);
  line.add_text("job", first_set(job_names, sizeof job_names / sizeof *job_names));
  line.add_text("host", host);
  line.add_text("program", program);
  char ranks[16];
  std::snprintf(ranks, sizeof ranks, "%d", facts.num_ranks);
  line.add_key("ranks");
  line.add(facts.num_ranks ? ranks : "null");
  line.add_text("mpi", facts.mpi);
  line.add_text("rules", facts.rules);
  line.add_text("reason", facts.reason);
  line.add_key("first_rank_copied");
  line.add("{");
  const Counts counts = all_counts();
  for (int i = 0; i < copy_paths; ++i) {
    char part[96];
    std::snprintf(part, sizeof part, "%s\"%s\": [%zu, %zu]", i ? ", " : "", copy_path_names[i], counts.messages[i],
                  counts.bytes[i]);
    line.add(part);
  }
  line.add("}}\n");
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct rlimit limit;
  struct stat status;
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) != 0 || fstat(file, &status) != 0 ||
                          limit.rlim_cur < static_cast<rlim_t>(status.st_size) + line.length();  // else SIGXFSZ
  if (!is_limited && write(file, line.text(), line.length()) < 0) line.add("");
  close(file);
}

}  // namespace nearfield::heap
