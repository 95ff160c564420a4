#include "preload/heap/site_rules.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
// Variables that rules may set: those of transports inside a node. None of them loads code.
constexpr const char* allowed_variables[] = {"OMPI_MCA_btl_vader_", "OMPI_MCA_btl_sm_", "OMPI_MCA_smsc",
                                             "MPIR_CVAR_CH4_",      "I_MPI_SHM",        "UCX_"};

struct Site {
  char prefix[256] = "";  // empty: this library belongs to no site
  char log[256] = "";
  char reason[512] = "";  // why the heap is off
  char rules[max_name_bytes] = "";
  char mpi[64] = "";
  uid_t owner = 0;    // of this library
  int num_ranks = 0;  // of MPI_COMM_WORLD; 0: not known
  pid_t pid = 0;      // that applied the rules; its forked children log nothing
  bool is_applied = false;
};

constinit Site site;

void say(const char* format, ...) {
  char line[1024], host[65] = "this node";
  gethostname(host, sizeof host - 1);
  const int begun = std::snprintf(line, sizeof line - 1, "nearfield: %s: ", host);
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line + begun, sizeof line - 1 - static_cast<std::size_t>(begun), format, arguments);
  va_end(arguments);
  std::strcat(line, "\n");
  // One write, so that lines of several ranks do not mix.
  if (write(STDERR_FILENO, line, std::strlen(line)) < 0) return;
}

// The launchers' variables that number the ranks of a node; without any, this process was started alone.
bool is_first_of_node() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
    if (const char* rank = std::getenv(name)) return std::strcmp(rank, "0") == 0;
  const char* rank = std::getenv("PMI_RANK");
  return !rank || std::strcmp(rank, "0") == 0;
}

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value && std::strcmp(value, "0") != 0;
}

// Reads a file that decides what other users' programs do, so only the library's owner and root may be able to change
// it. Returns whether it was read; if others may change it, says so.
bool read_protected(const char* path, char* text, std::size_t size) {
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat status;
  const bool is_known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  const bool is_safe =
      is_known && (status.st_uid == 0 || status.st_uid == site.owner) && !(status.st_mode & (S_IWGRP | S_IWOTH));
  const ssize_t length = is_safe ? read(file, text, size - 1) : -1;
  close(file);
  if (is_known && !is_safe && is_first_of_node())
    say("%s is not used, since others than its owner and root may change it (chmod go-w, chown root)", path);
  text[length > 0 ? length : 0] = '\0';
  return length >= 0;
}

char* trim(char* text) {
  text += std::strspn(text, " \t");
  std::size_t length = std::strlen(text);
  while (length && std::strchr(" \t\r", text[length - 1])) text[--length] = '\0';
  return text;
}

// Calls use(key, value) with each line "key = value" of a text, and ends if it returns false. Returns the number of the
// line at which it ended, or that has no "="; 0 if there is none.
template <class Use>
int each_line(char* text, Use use) {
  for (int number = 1; *text; ++number) {
    char* line = text;
    text += std::strcspn(text, "\n");
    if (*text) *text++ = '\0';
    line = trim(line);
    if (!*line || *line == '#') continue;
    char* equals = std::strchr(line, '=');
    if (!equals) return number;
    *equals = '\0';
    if (!use(trim(line), trim(equals + 1))) return number;
  }
  return 0;
}

struct Mpi {
  char name[64] = "";  // such as "openmpi 5.0"; empty if this process has none
};

// Returns the family and the first two numbers of the version, from the text by which the library describes itself.
Mpi find_mpi() {
  Mpi mpi;
  auto* describe = reinterpret_cast<int (*)(char*, int*)>(next_mpi_function("PMPI_Get_library_version"));
  if (!describe) return mpi;
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
  for (const char* begin : allowed_variables)
    if (std::strncmp(variable, begin, std::strlen(begin)) == 0) return true;
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
      return true;
    }
  if (std::strncmp(key, "set ", 4) != 0 || !is_allowed(key + 4 + std::strspn(key + 4, " ")) ||
      rules.num_variables == 32)
    return false;
  rules.variable[rules.num_variables++] = {key + 4 + std::strspn(key + 4, " "), value};
  return true;
}

// Reads a rules file. Returns whether it can be used; if it is damaged, says so.
bool read_rules(const char* name, RulesFile& rules) {
  char path[sizeof site.prefix + max_name_bytes + 16];
  std::snprintf(path, sizeof path, "%s/rules.d/%s", site.prefix, name);
  rules.mpi = rules.processor = rules.caches = rules.distances = rules.heap = nullptr;
  rules.num_variables = 0;
  if (!read_protected(path, rules.text, sizeof rules.text)) return false;
  int line = each_line(rules.text, [&](char* key, char* value) { return read_line(rules, key, value); });
  const bool is_whole = rules.mpi && rules.processor && rules.caches && rules.distances;
  if ((line || !is_whole) && is_first_of_node())
    say(line ? "%s is not used: line %d is not understood"
             : "%s is not used: mpi, processor, cache_bytes or distances "
               "is missing",
        path, line);
  return is_whole && !line;
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
  if (DIR* folder = opendir(path)) {
    while (const dirent* entry = readdir(folder)) {
      const std::size_t length = std::strlen(entry->d_name);
      if (length < 6 || length >= max_name_bytes || std::strcmp(entry->d_name + length - 5, ".conf") != 0) continue;
      if (entry->d_name[0] == '.' || count == max_files) continue;
      sorted[count] = std::strcpy(names[count], entry->d_name);
      ++count;
    }
    closedir(folder);
  }
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

}  // namespace

bool is_off_for_user() { return is_set("NEARFIELD_OFF"); }

void read_site() {
  Dl_info own;
  char path[sizeof site.prefix + 16];
  if (!dladdr(reinterpret_cast<void*>(&read_site), &own) || !own.dli_fname || own.dli_fname[0] != '/') return;
  if (std::strlen(own.dli_fname) >= sizeof site.prefix || std::getenv("NEARFIELD_HEAP")) return;
  std::strcpy(site.prefix, own.dli_fname);
  char* slash = std::strrchr(site.prefix, '/');  // before the name of the library
  *slash = '\0';
  slash = std::strrchr(site.prefix, '/');
  const bool is_in_lib = slash && std::strcmp(slash, "/lib") == 0;
  if (is_in_lib) *slash = '\0';
  struct stat library, folder;
  std::snprintf(path, sizeof path, "%s/rules.d", site.prefix);
  if (!is_in_lib || stat(own.dli_fname, &library) != 0 || stat(path, &folder) != 0 || !S_ISDIR(folder.st_mode)) {
    site.prefix[0] = '\0';
    return;
  }
  site.owner = library.st_uid;
}

void apply_site_rules(Settings& settings) {
  if (!site.prefix[0] || site.is_applied || is_off_for_user()) return;
  const Mpi mpi = find_mpi();
  if (!mpi.name[0]) return;  // not yet: a library may bring it
  site.is_applied = true;
  site.pid = getpid();
  std::strcpy(site.mpi, mpi.name);
  static RulesFile rules;
  char path[sizeof site.prefix + 16], reason[512] = "";
  std::snprintf(path, sizeof path, "%s/site.conf", site.prefix);
  if (read_protected(path, rules.text, sizeof rules.text)) {
    const int line = each_line(rules.text, [&](const char* key, const char* value) {
      if (std::strcmp(key, "log") == 0) return std::snprintf(site.log, sizeof site.log, "%s", value) < 256;
      if (std::strcmp(key, "off") != 0) return false;
      std::snprintf(reason, sizeof reason, "the site has switched it off: %s", value);
      return true;
    });
    if (line && is_first_of_node()) say("%s: line %d is not understood", path, line);
  }
  if (reason[0]) return switch_off(settings, reason);
  const Node node;
  const char* name = find_rules(node, site.mpi, rules, reason, sizeof reason);
  if (!*name) {
    if (is_first_of_node())
      say("no rules for %s on this node: %s; the MPI's defaults are used (NEARFIELD_OFF=1 ends this)", site.mpi,
          reason);
    return switch_off(settings, reason);
  }
  std::snprintf(site.rules, sizeof site.rules, "%s", name);
  for (int i = 0; i < rules.num_variables; ++i) setenv(rules.variable[i].name, rules.variable[i].value, 0);
  if (rules.heap)
    read_settings(rules.heap, settings);
  else
    switch_off(settings, "the rules of this node do not use it");
  if (is_set("NEARFIELD_VERBOSE") && is_first_of_node())
    say("%s: rules.d/%s, %d variables, the shared heap is %s", site.mpi, name, rules.num_variables,
        rules.heap ? "on" : "off");
}

const char* site_reason() { return site.reason[0] ? site.reason : nullptr; }

void note_ranks(int count) { site.num_ranks = count; }

void log_job() {
  if (site.log[0] && site.pid == getpid() && is_first_of_node())
    append_job_line(site.log, {site.mpi, site.rules, site.reason, site.num_ranks});
}

}  // namespace nearfield::heap
