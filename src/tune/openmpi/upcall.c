// From the address of a message to the module of its sender's class: a search in the few mapped segments, with the last
// hit first; nothing is searched when all peers are of one class.
#include "upcall.h"

#include <opal/mca/pmix/pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "modules.h"

struct segment {
  uintptr_t begin, end;
  mca_btl_base_module_t* module;
};

static struct segment* segments;  // sorted, disjoint
static size_t n_segments;
static struct segment last;           // the last hit; empty at first
static mca_btl_base_module_t* only;   // not NULL: every peer's
static mca_btl_base_module_t* stock;  // the pointer that is translated
static mca_btl_base_module_t* class_modules;
static mca_btl_base_module_recv_cb_fn_t receivers[MCA_BTL_TAG_MAX];

// ---- where the segments are

// The name of the file behind a peer's segment is in what its stock component has published. The layout of that is
// the component's own business, so the name is searched for. False if there is none.
static bool segment_name(const char* published, size_t size, char* name, size_t name_size) {
  static const char mark[] = "vader_segment.";
  const char* found = size ? memmem(published, size, mark, sizeof mark - 1) : NULL;
  if (!found) return false;
  const size_t left = size - (size_t)(found - published);
  const size_t length = strnlen(found, left);
  if (length >= name_size || length == left) return false;
  memcpy(name, found, length + 1);
  return true;
}

static char* published_name(const struct peer* peer) {
  const mca_base_component_t* component = &stock_component()->btl_version;
  char *published = NULL, name[512];
  size_t size = 0;
  int rc;
  OPAL_MODEX_RECV(rc, component, &peer->proc->proc_name, (void**)&published, &size);
  if (OPAL_SUCCESS != rc) return NULL;
  const bool found = segment_name(published, size, name, sizeof name);
  free(published);
  return found ? strdup(name) : NULL;
}

// One line of /proc/self/maps: 'begin-end flags offset device inode   path'.
static void note_mapping(const char* line, struct peer** peers, char** names, size_t n) {
  unsigned long begin, end;
  const char* slash = strrchr(line, '/');
  if (!slash || sscanf(line, "%lx-%lx", &begin, &end) != 2) return;
  const size_t length = strcspn(slash + 1, " \n");  // ' (deleted)' may follow
  for (size_t i = 0; i < n; ++i) {
    if (!names[i] || strlen(names[i]) != length || memcmp(names[i], slash + 1, length) != 0) continue;
    // A mapping may be told in several lines, in order of address.
    if (!peers[i]->begin) peers[i]->begin = begin;
    if (peers[i]->end && peers[i]->end != begin) peers[i]->begin = begin;
    peers[i]->end = end;
  }
}

bool upcall_locate(struct peer** peers, size_t n) {
  bool all = true;
  char line[4096], **names = calloc(n ? n : 1, sizeof *names);
  FILE* maps = fopen("/proc/self/maps", "re");
  for (size_t i = 0; names && i < n; ++i)
    if (peers[i]->reachable) names[i] = published_name(peers[i]);
  while (maps && names && fgets(line, sizeof line, maps))
    if (strstr(line, "vader_segment.")) note_mapping(line, peers, names, n);
  for (size_t i = 0; i < n; ++i) {
    if (peers[i]->reachable && !peers[i]->end) all = false;
    if (names) free(names[i]);
  }
  if (maps) fclose(maps);
  free(names);
  return all;
}

// ---- the table of segments

static int compare_segments(const void* a, const void* b) {
  const struct segment *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void count_segment(const struct peer* peer) {
  (void)peer;
  ++n_segments;
}

static void add_segment(const struct peer* peer) {
  segments[n_segments++] = (struct segment){peer->begin, peer->end, &class_modules[peer->class_index]};
}

int upcall_set_peers(mca_btl_base_module_t* stock_module, mca_btl_base_module_t* modules) {
  const int only_class = peers_only_class();
  stock = stock_module;
  class_modules = modules;
  only = only_class < 0 ? NULL : &modules[only_class];
  last = (struct segment){0, 0, NULL};
  free(segments);
  n_segments = 0;
  peers_each(count_segment);
  segments = calloc(n_segments ? n_segments : 1, sizeof *segments);
  n_segments = 0;
  if (!segments) return OPAL_ERR_OUT_OF_RESOURCE;
  peers_each(add_segment);
  qsort(segments, n_segments, sizeof *segments, compare_segments);
  return OPAL_SUCCESS;
}

// ---- for every message

static mca_btl_base_module_t* search(uintptr_t address) {
  size_t low = 0, high = n_segments;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (address >= segments[middle].end)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == n_segments || address < segments[low].begin) return stock;
  last = segments[low];
  return last.module;
}

static inline mca_btl_base_module_t* module_of(uintptr_t address) {
  if (only) return only;
  if (address - last.begin < last.end - last.begin) return last.module;
  return search(address);
}

static void translate(mca_btl_base_module_t* module, mca_btl_base_tag_t tag, mca_btl_base_descriptor_t* message,
                      void* data) {
  if (module == stock) module = module_of((uintptr_t)message->des_segments[0].seg_addr.pval);
  receivers[tag](module, tag, message, data);
}

void upcall_wrap(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver) {
  if (tag >= MCA_BTL_TAG_MAX || !receiver || receiver == translate) return;
  receivers[tag] = receiver;
  mca_btl_base_active_message_trigger[tag].cbfunc = translate;
}

void upcall_wrap_registered(void) {
  // Below are the transports' own messages, which are between two stock modules.
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_MAX; ++tag)
    upcall_wrap((mca_btl_base_tag_t)tag, mca_btl_base_active_message_trigger[tag].cbfunc);
}

void upcall_unwrap(void) {
  for (int tag = 0; tag < MCA_BTL_TAG_MAX; ++tag)
    if (mca_btl_base_active_message_trigger[tag].cbfunc == translate)
      mca_btl_base_active_message_trigger[tag].cbfunc = receivers[tag];
  free(segments);
  segments = NULL;
  n_segments = 0;
  only = stock = NULL;
}
