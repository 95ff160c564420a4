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
// have different values. A name that ends in '_' stands for all variables that begin with it.
// python/nearfield/apply/site.py has the same list.
constexpr const char* allowed_variables[] = {"OMPI_MCA_btl_vader_",
                                             "OMPI_MCA_btl_sm_",
                                             "OMPI_MCA_smsc",
                                             "MPIR_CVAR_CH4_SHM_POSIX_",
                                             "MPIR_CVAR_CH4_IPC_CMA_",
                                             "MPIR_CVAR_CH4_PACK_BUFFER_SIZE",
                                             "I_MPI_SHM",
                                             "I_MPI_SHM_CELL_",
                                             "UCX_POSIX_"};

struct SiteState {
  char install_prefix[256] = "";  // empty: this library belongs to no site
  char log_path[256] = "";
  char reason_heap_off[512] = "";
  char rules_file[max_name_bytes] = "";
  char mpi_version[64] = "";
  char message[1024] = "";  // for the first rank of the node, when MPI is initialised
  uid_t library_owner = 0;  // of this library
  int num_ranks = 0;        // of MPI_COMM_WORLD; 0: not known
  pid_t pid = 0;            // that applied the rules; its forked children log nothing
  bool is_applied = false;
};

constinit SiteState site_state;

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
void append_to_message(const char* format, ...) {
  const std::size_t used = std::strlen(site_state.message);
  if (used + 2 >= sizeof site_state.message) return;
  if (used) std::strcat(site_state.message, "; ");
  const std::size_t begin = std::strlen(site_state.message);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(site_state.message + begin, sizeof site_state.message - begin, format, arguments);
  va_end(arguments);
}

constexpr const char* local_rank_variables[] = {
    "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",    "SLURM_LOCALID",
    "MV2_COMM_WORLD_LOCAL_RANK",  "FLUX_TASK_LOCAL_ID", "PALS_LOCAL_RANKID"};
constexpr const char* rank_variables[] = {"PMI_RANK", "PMIX_RANK"};

// Returns the value of the first of these environment variables that is set; nullptr if none is set.
template <std::size_t count>
const char* first_set_variable(const char* const (&names)[count]) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return value;
  return nullptr;
}

// Returns whether this process is the first rank of its node, by the variables of the launcher; if the launcher does
// not number the ranks of a node, whether it is the first rank of the job. A process without such variables was started
// alone and counts as the first.
bool is_first_rank_of_node() {
  const char* rank = first_set_variable(local_rank_variables);
  if (!rank) rank = first_set_variable(rank_variables);
  return !rank || std::strcmp(rank, "0") == 0;
}

bool is_started_by_launcher() { return first_set_variable(local_rank_variables) || first_set_variable(rank_variables); }

bool is_variable_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::strcmp(value, "0") != 0;
}

// Returns whether nobody but root and the library's owner can change a file or folder that has this status.
bool is_protected(const struct stat& status) {
  return (status.st_uid == 0 || status.st_uid == site_state.library_owner) && !(status.st_mode & (S_IWGRP | S_IWOTH));
}

enum class ProtectedFileState { absent, unusable, readable };

// Reads a file that determines the behaviour of other users' programs. It is used only if nobody but the library's
// owner and root can change it, and if it is shorter than `size`; otherwise appends the reason to the message.
ProtectedFileState read_protected_file(const char* path, char* text, std::size_t size) {
  text[0] = '\0';
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) {
    if (errno == ENOENT) return ProtectedFileState::absent;
    append_to_message("%s cannot be read: %s", path, std::strerror(errno));
    return ProtectedFileState::unusable;
  }
  struct stat status;
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_safe = is_file && is_protected(status);
  const ssize_t length = is_safe ? read(file, text, size) : -1;
  close(file);
  const bool is_whole = length >= 0 && static_cast<std::size_t>(length) < size;
  text[is_whole ? length : 0] = '\0';
  if (!is_safe)
    append_to_message("%s is not used, since others than its owner and root may change it (chmod go-w, chown root)",
                      path);
  else if (!is_whole)
    append_to_message("%s is not used: it cannot be read, or is too long", path);
  return is_whole ? ProtectedFileState::readable : ProtectedFileState::unusable;
}

char* trim_blanks(char* text) {
  text += std::strspn(text, " \t");
  std::size_t length = std::strlen(text);
  while (length && std::strchr(" \t\r", text[length - 1])) text[--length] = '\0';
  return text;
}

// Calls use(key, value) for each line "key = value" of a text. Returns the number of the first line that has no "=" or
// for which use() returned false; 0 if there is no such line.
template <class Use>
int for_each_setting(char* text, Use use_setting) {
  int first_invalid_line = 0;
  for (int number = 1; *text; ++number) {
    char* line = text;
    text += std::strcspn(text, "\n");
    if (*text) *text++ = '\0';
    line = trim_blanks(line);
    if (!*line || *line == '#') continue;
    char* equals = std::strchr(line, '=');
    if (equals) *equals = '\0';
    if ((!equals || !use_setting(trim_blanks(line), trim_blanks(equals + 1))) && !first_invalid_line)
      first_invalid_line = number;
  }
  return first_invalid_line;
}

struct MpiVersion {
  char name[64] = "";  // such as "openmpi 5.0"; empty if this process has no MPI that rules can be for
  bool is_loaded = false;
};

// Returns the family and the first two numbers of the version, from the text by which the library describes itself.
MpiVersion find_mpi() {
  MpiVersion mpi;
  auto* describe = reinterpret_cast<int (*)(char*, int*)>(next_mpi_function("PMPI_Get_library_version"));
  if (!describe) return mpi;
  mpi.is_loaded = true;
  static char text[8192];  // MPI_MAX_LIBRARY_VERSION_STRING of all MPIs is at most this long
  int length = 0;
  if (describe(text, &length) != 0) return mpi;
  struct MpiFamily {
    const char *begin, *name;
  };
  for (const MpiFamily& family : {MpiFamily{"Open MPI v", "openmpi"}, MpiFamily{"MPICH Version:", "mpich"},
                                  MpiFamily{"Intel(R) MPI Library ", "intel"}}) {
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

bool is_allowed_variable(const char* variable) {
  for (const char* name : allowed_variables) {
    const std::size_t length = std::strlen(name);
    if (name[length - 1] == '_' ? std::strncmp(variable, name, length) == 0 : std::strcmp(variable, name) == 0)
      return true;
  }
  return false;
}

bool read_rules_line(RulesFile& rules, const char* key, const char* value) {
  struct Key {
    const char* name;
    const char* RulesFile::* value;
  };
  for (const Key& field :
       {Key{"mpi", &RulesFile::mpi}, Key{"processor", &RulesFile::processor}, Key{"cache_bytes", &RulesFile::caches},
        Key{"distances", &RulesFile::distances}, Key{"heap", &RulesFile::heap}})
    if (std::strcmp(key, field.name) == 0) {
      rules.*field.value = value;
      return field.value != &RulesFile::heap || are_valid_settings(value);
    }
  if (std::strncmp(key, "set ", 4) != 0 || !is_allowed_variable(key + 4 + std::strspn(key + 4, " ")) ||
      rules.num_variables == 32)
    return false;
  rules.variable[rules.num_variables++] = {key + 4 + std::strspn(key + 4, " "), value};
  return true;
}

// Reads a rules file. Returns whether it can be used; if not, appends the reason to the message.
bool read_rules(const char* name, RulesFile& rules) {
  char path[sizeof site_state.install_prefix + max_name_bytes + 16];
  std::snprintf(path, sizeof path, "%s/rules.d/%s", site_state.install_prefix, name);
  rules.mpi = rules.processor = rules.caches = rules.distances = rules.heap = nullptr;
  rules.num_variables = 0;
  if (read_protected_file(path, rules.text, sizeof rules.text) != ProtectedFileState::readable) return false;
  const int line =
      for_each_setting(rules.text, [&](char* key, char* value) { return read_rules_line(rules, key, value); });
  const bool is_complete = rules.mpi && rules.processor && rules.caches && rules.distances;
  if (line)
    append_to_message("%s is not used: line %d is not understood", path, line);
  else if (!is_complete)
    append_to_message("%s is not used: mpi, processor, cache_bytes or distances is missing", path);
  return is_complete && !line;
}

struct NodeDescription {
  char processor[sizeof NodeType::processor], caches[128], distances[96];

  NodeDescription() {
    const NodeType type = read_node_type();
    std::strcpy(processor, type.processor);
    caches[0] = '\0';
    for (int i = 0; i < type.num_caches; ++i) {
      const std::size_t used = std::strlen(caches);
      std::snprintf(caches + used, sizeof caches - used, "%s%ld", used ? " " : "", type.cache_bytes[i]);
    }
    format_distances(type, distances, sizeof distances);
  }

  // Returns a description of the first difference between this node and the node for which the rules are; nullptr if
  // there is no difference.
  const char* first_difference(const RulesFile& rules) const {
    if (std::strcmp(processor, rules.processor) != 0) return "another processor";
    if (std::strcmp(caches, rules.caches) != 0) return "other caches";
    if (std::strcmp(distances, rules.distances) != 0) return "cores at other distances";
    return nullptr;
  }
};

int compare_names(const void* a, const void* b) { return std::strcmp(*(char* const*)a, *(char* const*)b); }

// Finds the rules for a node and an MPI, and reads them into `rules`. Returns the file's name, or an empty text and, in
// `reason`, why there are none.
const char* find_rules(const NodeDescription& node, const char* mpi, RulesFile& rules, char* reason,
                       std::size_t reason_bytes) {
  static char names[max_files][max_name_bytes];
  static char* sorted[max_files];
  std::size_t count = 0;
  char path[sizeof site_state.install_prefix + 16];
  std::snprintf(path, sizeof path, "%s/rules.d", site_state.install_prefix);
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
    const char* mismatch = node.first_difference(rules);
    if (!mismatch) return sorted[i];
    std::snprintf(reason, reason_bytes, "%s is for %s (here: %s; caches %s; %s)", sorted[i], mismatch, node.processor,
                  node.caches, node.distances);
  }
  return "";
}

void switch_heap_off(Settings& settings, const char* reason) {
  settings.is_enabled = 0;
  std::snprintf(site_state.reason_heap_off, sizeof site_state.reason_heap_off, "%s", reason);
}

// Reads site.conf. Returns whether the site allows rules; a file that exists but cannot be used allows none.
bool read_site_conf(char* text, std::size_t size, char* reason, std::size_t reason_bytes) {
  char path[sizeof site_state.install_prefix + 16];
  std::snprintf(path, sizeof path, "%s/site.conf", site_state.install_prefix);
  const ProtectedFileState state = read_protected_file(path, text, size);
  if (state == ProtectedFileState::unusable) std::snprintf(reason, reason_bytes, "%s cannot be used", path);
  if (state != ProtectedFileState::readable) return state == ProtectedFileState::absent;
  const int line = for_each_setting(text, [&](const char* key, const char* value) {
    if (std::strcmp(key, "log") == 0 && std::strlen(value) < sizeof site_state.log_path)
      std::strcpy(site_state.log_path, value);
    else if (std::strcmp(key, "off") == 0)
      std::snprintf(reason, reason_bytes, "the site has switched it off: %s", value);
    else
      return false;
    return true;
  });
  if (line) append_to_message("%s: line %d is not understood", path, line);
  return !reason[0];
}

}  // namespace

bool is_off_for_user() { return is_variable_set("NEARFIELD_OFF"); }

void detect_site(Settings& settings) {
  Dl_info library_info;
  char path[sizeof site_state.install_prefix + 16];
  if (!dladdr(reinterpret_cast<void*>(&detect_site), &library_info) || !library_info.dli_fname ||
      library_info.dli_fname[0] != '/')
    return;
  if (std::strlen(library_info.dli_fname) >= sizeof site_state.install_prefix || std::getenv("NEARFIELD_HEAP")) return;
  char prefix[sizeof site_state.install_prefix];
  std::strcpy(prefix, library_info.dli_fname);
  char* slash = std::strrchr(prefix, '/');  // before the name of the library
  *slash = '\0';
  slash = std::strrchr(prefix, '/');
  if (!slash || std::strcmp(slash, "/lib") != 0) return;
  *slash = '\0';
  struct stat library, folder;
  std::snprintf(path, sizeof path, "%s/rules.d", prefix);
  if (stat(library_info.dli_fname, &library) != 0 || stat(path, &folder) != 0 || !S_ISDIR(folder.st_mode)) return;
  settings.is_enabled = 0;  // until rules say otherwise
  const char* site_switch = std::getenv("NEARFIELD_SITE");
  if (site_switch && std::strcmp(site_switch, "0") == 0) return;
  std::strcpy(site_state.install_prefix, prefix);
  site_state.library_owner = library.st_uid;
}

void apply_site_rules(Settings& settings) {
  if (!site_state.install_prefix[0] || site_state.is_applied || is_off_for_user()) return;
  const MpiVersion mpi = find_mpi();
  if (!mpi.is_loaded) return;  // not yet: a library may bring it
  site_state.is_applied = true;
  site_state.pid = getpid();
  std::strcpy(site_state.mpi_version, mpi.name);
  static RulesFile rules;
  char reason[512] = "";
  if (!read_site_conf(rules.text, sizeof rules.text, reason, sizeof reason)) return switch_heap_off(settings, reason);
  const NodeDescription node;
  const char* name = "";
  if (mpi.name[0])
    name = find_rules(node, site_state.mpi_version, rules, reason, sizeof reason);
  else
    std::snprintf(reason, sizeof reason, "this MPI is none of Open MPI, MPICH and Intel MPI");
  if (!*name) {
    append_to_message("no rules for %s on this node: %s; the MPI's defaults are used (NEARFIELD_OFF=1 ends this)",
                      mpi.name[0] ? site_state.mpi_version : "this program", reason);
    return switch_heap_off(settings, reason);
  }
  std::snprintf(site_state.rules_file, sizeof site_state.rules_file, "%s", name);
  int num_newly_set = 0;
  for (int i = 0; i < rules.num_variables; ++i) {
    num_newly_set += std::getenv(rules.variable[i].name) == nullptr;
    setenv(rules.variable[i].name, rules.variable[i].value, 0);
  }
  settings.is_enabled = 1;
  if (rules.heap)
    parse_settings(rules.heap, settings);
  else
    switch_heap_off(settings, "the rules of this node do not use it");
  if (is_variable_set("NEARFIELD_VERBOSE"))
    append_to_message("%s: rules.d/%s, %d of %d variables set, the shared heap is %s", site_state.mpi_version, name,
                      num_newly_set, rules.num_variables, rules.heap ? "on" : "off");
}

const char* reason_site_closed_heap() { return site_state.reason_heap_off[0] ? site_state.reason_heap_off : nullptr; }

void print_site_message() {
  if (is_first_rank_of_node()) print_line(site_state.message);
  site_state.message[0] = '\0';
}

void record_num_ranks(int count) { site_state.num_ranks = count; }

void write_job_log_line() {
  const bool is_job = site_state.num_ranks || is_started_by_launcher();  // not ompi_info, which only links to an MPI
  if (site_state.log_path[0] && is_job && site_state.pid == getpid() && is_first_rank_of_node())
    append_job_line(site_state.log_path,
                    {site_state.mpi_version, site_state.rules_file, site_state.reason_heap_off, site_state.num_ranks});
}

}  // namespace nearfield::heap
