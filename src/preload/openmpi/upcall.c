// Maps the address of a message to the module of its sender's class, by a binary search in the mapped segments. The
// last hit is tried first, and there is no search if all peers are in one class.
#include "upcall.h"

#include <stdlib.h>

#include "peers.h"
#include "vader.h"

struct segment {
  uintptr_t begin, end;
  mca_btl_base_module_t* module;
};

static struct segment* segments;  // sorted, disjoint
static size_t n_segments;
static struct segment last_hit;             // the segment of the last hit; empty at first
static mca_btl_base_module_t* only_module;  // the module of all peers if they are in one class; else NULL
static mca_btl_base_module_t* class_modules;
static mca_btl_base_module_recv_cb_fn_t receivers[MCA_BTL_TAG_MAX];

// ---- the table of segments

static int compare_segments(const void* a, const void* b) {
  const struct segment *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_segment(const struct peer* peer) {
  segments[n_segments++] = (struct segment){peer->begin, peer->end, &class_modules[peer->class_index]};
}

int upcall_set_peers(mca_btl_base_module_t* modules) {
  const int only_class = peers_only_class();
  class_modules = modules;
  only_module = only_class < 0 ? NULL : &modules[only_class];
  last_hit = (struct segment){0, 0, NULL};
  free(segments);
  n_segments = 0;
  segments = calloc(peers_count() + 1, sizeof *segments);
  if (!segments) return OPAL_ERR_OUT_OF_RESOURCE;
  peers_each(add_segment);
  qsort(segments, n_segments, sizeof *segments, compare_segments);
  return OPAL_SUCCESS;
}

// ---- called for every message

// Returns the module of the segment that contains the address; vader's if there is none.
static mca_btl_base_module_t* search_segments(uintptr_t address) {
  size_t low = 0, high = n_segments;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (address >= segments[middle].end)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == n_segments || address < segments[low].begin) return vader;
  last_hit = segments[low];
  return last_hit.module;
}

static inline mca_btl_base_module_t* module_of(uintptr_t address) {
  if (only_module) return only_module;
  if (address - last_hit.begin < last_hit.end - last_hit.begin) return last_hit.module;
  return search_segments(address);
}

// The receiver that Open MPI calls in place of pml/ob1's: calls the latter with the module of the sender's class.
static void receive_with_class_module(mca_btl_base_module_t* module, mca_btl_base_tag_t tag,
                                      mca_btl_base_descriptor_t* message, void* data) {
  if (module == vader) module = module_of((uintptr_t)message->des_segments[0].seg_addr.pval);
  receivers[tag](module, tag, message, data);
}

void upcall_wrap(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver) {
  if (tag >= MCA_BTL_TAG_MAX || !receiver || receiver == receive_with_class_module) return;
  receivers[tag] = receiver;
  mca_btl_base_active_message_trigger[tag].cbfunc = receive_with_class_module;
}

void upcall_wrap_registered(void) {
  // Lower tags are vader's own messages, which its modules exchange.
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_MAX; ++tag)
    upcall_wrap((mca_btl_base_tag_t)tag, mca_btl_base_active_message_trigger[tag].cbfunc);
}

void upcall_unwrap(void) {
  for (int tag = 0; tag < MCA_BTL_TAG_MAX; ++tag)
    if (mca_btl_base_active_message_trigger[tag].cbfunc == receive_with_class_module)
      mca_btl_base_active_message_trigger[tag].cbfunc = receivers[tag];
  free(segments);
  segments = NULL;
  n_segments = 0;
  only_module = NULL;
}
