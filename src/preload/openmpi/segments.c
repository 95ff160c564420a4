#include "segments.h"

#include <opal/mca/pmix/pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"
#include "vader.h"

// Copies the name of the file behind a peer's segment out of the data that vader has published about the peer. Their
// layout is private to vader, so the data are searched for the name. Returns false if they contain none.
static bool find_segment_name(const char* published_data, size_t size, char* name, size_t name_size) {
  static const char name_prefix[] = "vader_segment.";
  const char* name_start = size ? memmem(published_data, size, name_prefix, sizeof name_prefix - 1) : NULL;
  if (!name_start) return false;
  const size_t remaining_bytes = size - (size_t)(name_start - published_data);
  const size_t length = strnlen(name_start, remaining_bytes);
  if (length >= name_size || length == remaining_bytes) return false;
  memcpy(name, name_start, length + 1);
  return true;
}

// Returns the name of the file behind a peer's segment, which the caller frees; NULL if there is none.
static char* find_published_name(const struct peer* peer) {
  const mca_base_component_t* component = &vader_component->btl_version;
  char *published_data = NULL, name[512];
  size_t size = 0;
  int rc;
  OPAL_MODEX_RECV(rc, component, &peer->proc->proc_name, (void**)&published_data, &size);
  if (OPAL_SUCCESS != rc) return NULL;
  const bool has_name = find_segment_name(published_data, size, name, sizeof name);
  free(published_data);
  return has_name ? strdup(name) : NULL;
}

// Parses a line of /proc/self/maps, 'begin-end flags offset device inode   path', and adds the mapping to the peer
// whose file it names.
static void add_mapping(const char* line, struct peer** peers, char** names, size_t n) {
  unsigned long begin, end;
  const char* slash = strrchr(line, '/');
  if (!slash || sscanf(line, "%lx-%lx", &begin, &end) != 2) return;
  const size_t length = strcspn(slash + 1, " \n");  // ' (deleted)' may follow
  for (size_t i = 0; i < n; ++i) {
    if (!names[i] || strlen(names[i]) != length || memcmp(names[i], slash + 1, length) != 0) continue;
    // A segment may take several lines, in order of address.
    if (!peers[i]->segment_begin) peers[i]->segment_begin = begin;
    if (peers[i]->segment_end && peers[i]->segment_end != begin) peers[i]->segment_begin = begin;
    peers[i]->segment_end = end;
  }
}

bool locate_segments(struct peer** peers, size_t n) {
  bool are_all_located = true;
  char line[4096], **names = calloc(n ? n : 1, sizeof *names);
  FILE* maps = fopen("/proc/self/maps", "re");
  for (size_t i = 0; names && i < n; ++i)
    if (peers[i]->is_reachable) names[i] = find_published_name(peers[i]);
  while (maps && names && fgets(line, sizeof line, maps))
    if (strstr(line, "vader_segment.")) add_mapping(line, peers, names, n);
  for (size_t i = 0; i < n; ++i) {
    if (peers[i]->is_reachable && !peers[i]->segment_end) are_all_located = false;
    if (names) free(names[i]);
  }
  if (maps) fclose(maps);
  free(names);
  return are_all_located;
}
