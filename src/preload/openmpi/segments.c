#include "segments.h"

#include <opal/mca/pmix/pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"
#include "vader.h"

// Copies the name of the file behind a peer's segment out of the data that vader has published about the peer. Their
// layout is private to vader, so the data are searched for the name. Returns false if they contain none.
static bool find_segment_name(const char* published, size_t size, char* name, size_t name_size) {
  static const char mark[] = "vader_segment.";
  const char* found = size ? memmem(published, size, mark, sizeof mark - 1) : NULL;
  if (!found) return false;
  const size_t left = size - (size_t)(found - published);
  const size_t length = strnlen(found, left);
  if (length >= name_size || length == left) return false;
  memcpy(name, found, length + 1);
  return true;
}

// Returns the name of the file behind a peer's segment, which the caller frees; NULL if there is none.
static char* published_name(const struct peer* peer) {
  const mca_base_component_t* component = &vader_component->btl_version;
  char *published = NULL, name[512];
  size_t size = 0;
  int rc;
  OPAL_MODEX_RECV(rc, component, &peer->proc->proc_name, (void**)&published, &size);
  if (OPAL_SUCCESS != rc) return NULL;
  const bool found = find_segment_name(published, size, name, sizeof name);
  free(published);
  return found ? strdup(name) : NULL;
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
    if (!peers[i]->begin) peers[i]->begin = begin;
    if (peers[i]->end && peers[i]->end != begin) peers[i]->begin = begin;
    peers[i]->end = end;
  }
}

bool segments_locate(struct peer** peers, size_t n) {
  bool all = true;
  char line[4096], **names = calloc(n ? n : 1, sizeof *names);
  FILE* maps = fopen("/proc/self/maps", "re");
  for (size_t i = 0; names && i < n; ++i)
    if (peers[i]->reachable) names[i] = published_name(peers[i]);
  while (maps && names && fgets(line, sizeof line, maps))
    if (strstr(line, "vader_segment.")) add_mapping(line, peers, names, n);
  for (size_t i = 0; i < n; ++i) {
    if (peers[i]->reachable && !peers[i]->end) all = false;
    if (names) free(names[i]);
  }
  if (maps) fclose(maps);
  free(names);
  return all;
}
