#include "preload/heap/site_rules.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "base/node_type.hpp"
#include "preload/heap/job_log.hpp"
#include "preload/heap/mpi_library.hpp"

namespace nearfield::heap {
namespace {

constexpr std::size_t max_file_bytes = 16384, max_files = 256, max_name_bytes = 128;
// Variables that rules may set: those of transports inside a node that load no code, and for which nodes of one job may
// have different values. A name that ends in '_' stands for all that begin so. python/nearfield/apply/site.py has the
// same list.
constexpr const char* allowed_variables[] = {"OMPI_MCA_btl_vader_",
                                             "OMPI_MCA_btl_sm_",
                                             "OMPI_MCA_smsc",
                                             "MPIR_CVAR_CH4_SHM_POSIX_",
                                             "MPIR_CVAR_CH4_IPC_CMA_",
                                             "MPIR_CVAR_CH4_PACK_BUFFER_SIZE",
                                             "I_MPI_SHM",
                                             "I_MPI_SHM_CELL_",
                                             "UCX_POSIX_"};

struct Site {
  char prefix[256] = "";  // empty: this library belongs to no site
  char log[256] = "";
  char reason[512] = "";  // why the heap is off
  char rules[max_name_bytes] = "";
  char mpi[64] = "";
  char message[1024] = "";  // for the first rank of the node, when MPI is initialised
  uid_t owner = 0;          // of this library
  int num_ranks = 0;        // of MPI_COMM_WORLD; 0: not known
  pid_t pid = 0;            // that applied the rules; its forked children log nothing
  bool is_applied = false;
};

constinit Site site;

// Prints a line, unless the text is empty.
void print_line(const char* text) {
  if (!*text) return;
  char line[1280], host[65] = "this node";
  gethostname(host, sizeof host - 1);
  const int length = std::snprintf(line, sizeof line, "nearfield: %s: %s\n", host, text);
  // One write, so that lines of several ranks do not mix.
  if (write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) return;
}

// Adds a sentence to the message, which is printed when MPI is initialised: programs such as ompi_info, which only link
// to an MPI, must not print it.
void note(const char* format, ...) {
  const std::size_t used = std::strlen(site.message);
  if (used + 2 >= sizeof site.message) return;
  if (used) std::strcat(site.message, "; ");
  const std::size_t begin = std::strlen(site.message);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(site.message + begin, sizeof site.message - begin, format, arguments);
  va_end(arguments);
}

constexpr const char* local_rank_variables[] = {
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "SLURM_LOCALID",
    "MV2_COMM_WORLD_LOCAL_RANK",  "FLUX_TASK_LOCAL_ID", "PALS_LOCAL_RANKID"};
constexpr const char* rank_variables[] = {"PMI_RANK", "PMIX_RANK"};

// Returns the value of the first variable of these that is set; nullptr if none is.
template <std::size_t count>
const char* first_set(const char* const (&names)[count]) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

// Returns whether the launcher numbers this process as the first of its node, or of the job if it does not number those
// of a node. A process without such a number was started alone.
bool is_first_of_node() {
  const char* rank = first_set(local_rank_variables);
  if (!rank) rank = first_set(rank_variables);
  return !rank || std::strcmp(rank, "0") == 0;
}

bool is_launched() { return first_set(local_rank_variables) || first_set(rank_variables); }

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::strcmp(value, "0") != 0;
}

// Returns whether nobody but root and the library's owner can change a file or folder that has this status.
bool is_protected(const struct stat& status) {
  return (status.st_uid == 0 || status.st_uid == site.owner) && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

enum class FileState { absent, unusable, whole };

// Reads a file that decides what other users' programs do. It is used only if nobody but the library's owner and root
// can change it, and if it is shorter than `size`; otherwise a note says so.
FileState read_protected(const char* path, char* text, std::size_t size) {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) return FileState::absent;
    note("%s cannot be read: %s", path, std::strerror(errno));
    return FileState::unusable;
  }
  struct stat status;
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_safe = is_file && is_protected(status);
  const ssize_t length = is_safe ? read(file, text, size) : -1;
  close(file);
  const bool is_whole = length >= 0 && static_cast<std::size_t>(length) < size;
  text[is_whole ? length : 0] = '\0';
  if (!is_safe)
    note("%s is not used, since others than its owner and root may change it (chmod go-w, chown root)", path);
  else if (!is_whole)
    note("%s is not used: it cannot be read, or is too long", path);
  return is_whole ? FileState::whole : FileState::unusable;
}

char* trim(char* text) {
  text += std::strspn(text, " \t");
  std::size_t length = std::strlen(text);
  while (length && std::strchr(" \t\r", text[length - 1])) text[--length] = '\0';
  return text;
}

// Calls use(key, value) for each line "key = value" of a text. Returns the number of the first line that has no "=" or
// for which use() returned false; 0 if there is no such line.
template <class Use>
int each_line(char* text, Use use) {
  int first_bad = 0;
  for (int number = 1; *text; ++number) {
    char* line = text;
    text += std::strcspn(text, "\n");
    if (*text) *text++ = '\0';
    line = trim(line);
    if (!*line || *line == '#') continue;
    char* equals = std::strchr(line, '=');
    if (equals) *equals = '\0';
    if ((!equals || !use(trim(line), trim(equals + 1))) && !first_bad) first_bad = number;
  }
  return first_bad;
}

struct Mpi {
  char name[64] = "";  // such as "openmpi 5.0"; empty if this process has no MPI that rules can be for
  bool is_there = false;
};

// Returns the family and the first two numbers of the version, from the text by which the library describes itself.
Mpi find_mpi() {
  Mpi mpi;
  auto* describe = reinterpret_cast<int (*)(char*, int*)>(next_mpi_function("PMPI_Get_library_version"));
  if (!describe) return mpi;
  mpi.is_there = true;
  static char text[8192];  // MPI_MAX_LIBRARY_VERSION_STRING of all MPIs is at most this long
  int length = 0;
  if (describe(text, &length) != 0) return mpi;
  struct Family {
    const char *begin, *name;
  };
  for (const Family& family :
       {Family{"Open MPI v", "openmpi"}, Family{"MPICH Version:", "mpich"}, Family{"Intel(R) MPI Library ", "intel"}}) {
    const std::size_t begin = std::strlen(family.begin);
    if (std::strncmp(text, family.begin, begin) != 0) continue;
    const char* version = text + begin + std::strspn(text + begin, " \t");
    int major = 0, minor = 0;
    if (std::sscanf(version, "%d.%d", &major, &minor) == 2)
      std::snprintf(mpi.name, sizeof mpi.name, "%s %d.%d", family.name, major, minor);
  }
  return mpi;
}

// A rules file as it was read. Its texts are parts of `text`.
struct RulesFile {
  char text[max_file_bytes];
  const char *mpi, *processor, *caches, *distances, *heap;
  struct Variable {
    const char *name, *value;
  } variable[32];
  int num_variables;
};

bool is_allowed(const char* variable) {
  for (const char* name : allowed_variables) {
    const std::size_t length = std::strlen(name);
    if (name[length - 1] == '_' ? std::strncmp(variable, name, length) == 0 : std::strcmp(variable, name) == 0)
      return true;
  }
  return false;
}

bool read_line(RulesFile& rules, const char* key, const char* value) {
  struct Key {
    const char* name;
    const char* RulesFile::* value;
  };
  for (const Key& one :
       {Key{"mpi", &RulesFile::mpi}, Key{"processor", &RulesFile::processor}, Key{"cache_bytes", &RulesFile::caches},
        Key{"distances", &RulesFile::distances}, Key{"heap", &RulesFile::heap}})
    if (std::strcmp(key, one.name) == 0) {
      rules.*one.value = value;
      return one.value != &RulesFile::heap || are_valid_settings(value);
    }
  if (std::strncmp(key, "set ", 4) != 0 || !is_allowed(key + 4 + std::strspn(key + 4, " ")) ||
      rules.num_variables == 32)
    return false;
  rules.variable[rules.num_variables++] = {key + 4 + std::strspn(key + 4, " "), value};
  return true;
}

// Reads a rules file. Returns whether it can be used; if it cannot, a note says why.
bool read_rules(const char* name, RulesFile& rules) {
  char path[sizeof site.prefix + max_name_bytes + 16];
  std::snprintf(path, sizeof path, "%s/rules.d/%s", site.prefix, name);
  rules.mpi = rules.processor = rules.caches = rules.distances = rules.heap = nullptr;
  rules.num_variables = 0;
  if (read_protected(path, rules.text, sizeof rules.text) != FileState::whole) return false;
  const int line = each_line(rules.text, [&](char* key, char* value) { return read_line(rules, key, value); });
  const bool is_complete = rules.mpi && rules.processor && rules.caches && rules.distances;
  if (line)
    note("%s is not used: line %d is not understood", path, line);
  else if (!is_complete)
    note("%s is not used: mpi, processor, cache_bytes or distances is missing", path);
  return is_complete && !line;
}

struct Node {
  char processor[sizeof NodeType::processor], caches[128], distances[96];

  Node() {
    const NodeType type = read_node_type();
    std::strcpy(processor, type.processor);
    caches[0] = '\0';
    for (int i = 0; i < type.num_caches; ++i) {
      const std::size_t used = std::strlen(caches);
      std::snprintf(caches + used, sizeof caches - used, "%s%ld", used ? " " : "", type.cache_bytes[i]);
    }
    format_distances(type, distances, sizeof distances);
  }

  // Returns what differs from the node that rules are for; nullptr if nothing does.
  const char* difference(const RulesFile& rules) const {
    if (std::strcmp(processor, rules.processor) != 0) return "another processor";
    if (std::strcmp(caches, rules.caches) != 0) return "other caches";
    if (std::strcmp(distances, rules.distances) != 0) return "cores at other distances";
    return nullptr;
  }
};

int compare_names(const void* a, const void* b) { return std::strcmp(*(char* const*)a, *(char* const*)b); }

// Finds the rules for a node and an MPI, and reads them into `rules`. Returns the file's name, or an empty text and, in
// `reason`, why there are none.
const char* find_rules(const Node& node, const char* mpi, RulesFile& rules, char* reason, std::size_t reason_bytes) {
  static char names[max_files][max_name_bytes];
  static char* sorted[max_files];
  std::size_t count = 0;
  char path[sizeof site.prefix + 16];
  std::snprintf(path, sizeof path, "%s/rules.d", site.prefix);
  DIR* folder = opendir(path);
  struct stat status;
  if (!folder || fstat(dirfd(folder), &status) != 0 || !is_protected(status)) {
    std::snprintf(reason, reason_bytes,
                  folder ? "others than the owner of %s and root may change it (chmod go-w)" : "%s cannot be read",
                  path);
    if (folder) closedir(folder);
    return "";
  }
  while (const dirent* entry = readdir(folder)) {
    const std::size_t length = std::strlen(entry->d_name);
    if (length < 6 || length >= max_name_bytes || std::strcmp(entry->d_name + length - 5, ".conf") != 0) continue;
    if (entry->d_name[0] == '.' || count == max_files) continue;
    sorted[count] = std::strcpy(names[count], entry->d_name);
    ++count;
  }
  closedir(folder);
  std::qsort(sorted, count, sizeof *sorted, compare_names);
  std::snprintf(reason, reason_bytes, "%s has none for this MPI", path);
  for (std::size_t i = 0; i < count; ++i) {
    if (!read_rules(sorted[i], rules) || std::strcmp(rules.mpi, mpi) != 0) continue;
    const char* why = node.difference(rules);
    if (!why) return sorted[i];
    std::snprintf(reason, reason_bytes, "%s is for %s (here: %s; caches %s; %s)", sorted[i], why, node.processor,
                  node.caches, node.distances);
  }
  return "";
}

void switch_off(Settings& settings, const char* reason) {
  settings.enabled = 0;
  std::snprintf(site.reason, sizeof site.reason, "%s", reason);
}

// Reads site.conf. Returns whether the site allows rules; a file that exists but cannot be used allows none.
bool read_site_settings(char* text, std::size_t size, char* reason, std::size_t reason_bytes) {
  char path[sizeof site.prefix + 16];
  std::snprintf(path, sizeof path, "%s/site.conf", site.prefix);
  const FileState state = read_protected(path, text, size);
  if (state == FileState::unusable) std::snprintf(reason, reason_bytes, "%s cannot be used", path);
  if (state != FileState::whole) return state == FileState::absent;
  const int line = each_line(text, [&](const char* key, const char* value) {
    if (std::strcmp(key, "log") == 0 && std::strlen(value) < sizeof site.log)
      std::strcpy(site.log, value);
    else if (std::strcmp(key, "off") == 0)
      std::snprintf(reason, reason_bytes, "the site has switched it off: %s", value);
    else
      return false;
    return true;
  });
  if (line) note("%s: line %d is not understood", path, line);
  return !reason[0];
}

}  // namespace

bool is_off_for_user() { return is_set("NEARFIELD_OFF"); }

void read_site(Settings& settings) {
  Dl_info own;
  char path[sizeof site.prefix + 16];
  if (!dladdr(reinterpret_cast<void*>(&read_site), &own) || !own.dli_fname || own.dli_fname[0] != '/') return;
  if (std::strlen(own.dli_fname) >= sizeof site.prefix || std::getenv("NEARFIELD_HEAP")) return;
  char prefix[sizeof site.prefix];
  std::strcpy(prefix, own.dli_fname);
  char* slash = std::strrchr(prefix, '/');  // before the name of the library
  *slash = '\0';
  slash = std::strrchr(prefix, '/');
  if (!slash || std::strcmp(slash, "/lib") != 0) return;
  *slash = '\0';
  struct stat library, folder;
  std::snprintf(path, sizeof path, "%s/rules.d", prefix);
  if (stat(own.dli_fname, &library) != 0 || stat(path, &folder) != 0 || !S_ISDIR(folder.st_mode)) return;
  settings.enabled = 0;  // until rules say otherwise
  const char* use = std::getenv("NEARFIELD_SITE");
  if (use && std::strcmp(use, "0") == 0) return;
  std::strcpy(site.prefix, prefix);
  site.owner = library.st_uid;
}

void apply_site_rules(Settings& settings) {
  if (!site.prefix[0] || site.is_applied || is_off_for_user()) return;
  const Mpi mpi = find_mpi();
  if (!mpi.is_there) return;  // not yet: a library may bring it
  site.is_applied = true;
  site.pid = getpid();
  std::strcpy(site.mpi, mpi.name);
  static RulesFile rules;
  char reason[512] = "";
  if (!read_site_settings(rules.text, sizeof rules.text, reason, sizeof reason)) return switch_off(settings, reason);
  const Node node;
  const char* name = "";
  if (mpi.name[0])
    name = find_rules(node, site.mpi, rules, reason, sizeof reason);
  else
    std::snprintf(reason, sizeof reason, "this MPI is none of Open MPI, MPICH and Intel MPI");
  if (!*name) {
    note("no rules for %s on this node: %s; the MPI's defaults are used (NEARFIELD_OFF=1 ends this)",
         mpi.name[0] ? site.mpi : "this program", reason);
    return switch_off(settings, reason);
  }
  std::snprintf(site.rules, sizeof site.rules, "%s", name);
  int num_set = 0;
  for (int i = 0; i < rules.num_variables; ++i) {
    num_set += std::getenv(rules.variable[i].name) == nullptr;
    setenv(rules.variable[i].name, rules.variable[i].value, 0);
  }
  settings.enabled = 1;
  if (rules.heap)
    read_settings(rules.heap, settings);
  else
    switch_off(settings, "the rules of this node do not use it");
  if (is_set("NEARFIELD_VERBOSE"))
    note("%s: rules.d/%s, %d of %d variables set, the shared heap is %s", site.mpi, name, num_set, rules.num_variables,
         rules.heap ? "on" : "off");
}

const char* site_reason() { return site.reason[0] ? site.reason : nullptr; }

void report_site() {
  if (is_first_of_node()) print_line(site.message);
  site.message[0] = '\0';
}

void note_ranks(int count) { site.num_ranks = count; }

void log_job() {
  const bool is_job = site.num_ranks || is_launched();  // not ompi_info, which only links to an MPI
  if (site.log[0] && is_job && site.pid == getpid() && is_first_of_node())
    append_job_line(site.log, {site.mpi, site.rules, site.reason, site.num_ranks});
}

}  // namespace nearfield::heap
