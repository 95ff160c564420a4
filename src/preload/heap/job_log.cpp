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
class JsonLine {
 public:
  void append(const char* text) {
    while (*text && length_ + 1 < sizeof text_) text_[length_++] = *text++;
  }
  void append_key(const char* key) {
    append(length_ > 1 ? ", \"" : "\"");
    append(key);
    append("\": ");
  }
  // Adds a text, or null if it is empty. Everything but the printable characters of ASCII, and quotes and backslashes,
  // become '?', so that the line is valid JSON.
  void append_text_or_null(const char* key, const char* value) {
    append_key(key);
    if (!value || !*value) return append("null");
    append("\"");
    for (; *value; ++value) {
      const bool is_plain = *value >= ' ' && *value <= '~' && *value != '"' && *value != '\\';
      const char safe[] = {is_plain ? *value : '?', '\0'};
      append(safe);
    }
    append("\"");
  }
  const char* text() const { return text_; }
  std::size_t length() const { return length_; }

 private:
  char text_[4096] = {};
  std::size_t length_ = 0;
};

const char* first_set_variable(const char* const* names, int count) {
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
  std::tm utc;
  if (gmtime_r(&now, &utc)) std::strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  JsonLine line;
  line.append("{");
  line.append_text_or_null("date", date);
  line.append_text_or_null("job", first_set_variable(job_names, sizeof job_names / sizeof *job_names));
  line.append_text_or_null("host", host);
  line.append_text_or_null("program", program);
  char ranks[16];
  std::snprintf(ranks, sizeof ranks, "%d", facts.num_ranks);
  line.append_key("ranks");
  line.append(facts.num_ranks ? ranks : "null");
  line.append_text_or_null("mpi", facts.mpi_version);
  line.append_text_or_null("rules", facts.rules_file);
  line.append_text_or_null("reason", facts.reason_heap_off);
  line.append_key("first_rank_copied");
  line.append("{");
  const CopyCounts counts = sum_copy_counts();
  for (int i = 0; i < num_copy_paths; ++i) {
    char copy_count[96];
    std::snprintf(copy_count, sizeof copy_count, "%s\"%s\": [%zu, %zu]", i ? ", " : "", copy_path_names[i],
                  counts.num_messages[i], counts.num_bytes[i]);
    line.append(copy_count);
  }
  line.append("}}\n");
  const int file = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) return;
  struct rlimit limit;
  struct stat status;
  const bool is_limited = getrlimit(RLIMIT_FSIZE, &limit) != 0 || fstat(file, &status) != 0 ||
                          limit.rlim_cur < static_cast<rlim_t>(status.st_size) + line.length();  // else SIGXFSZ
  if (!is_limited && write(file, line.text(), line.length()) < 0) line.append("");
  close(file);
}

}  // namespace nearfield::heap
