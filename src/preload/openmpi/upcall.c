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
static size_t num_segments;
static struct segment last_segment_hit;       // the segment of the last hit; empty at first
static mca_btl_base_module_t* common_module;  // the module of all peers if they are in one class; else NULL
static mca_btl_base_module_t* class_modules;
static mca_btl_base_module_recv_cb_fn_t receive_callbacks[MCA_BTL_TAG_MAX];

// ---- the table of segments

static int compare_segments(const void* a, const void* b) {
  const struct segment *x = a, *y = b;
  return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static void add_segment(const struct peer* peer) {
  segments[num_segments++] =
      (struct segment){peer->segment_begin, peer->segment_end, &class_modules[peer->class_index]};
}

int rebuild_segment_table(mca_btl_base_module_t* modules) {
  const int common_class = common_class_of_peers();
  class_modules = modules;
  common_module = common_class < 0 ? NULL : &modules[common_class];
  last_segment_hit = (struct segment){0, 0, NULL};
  free(segments);
  num_segments = 0;
  segments = calloc(peer_count() + 1, sizeof *segments);
  if (!segments) return OPAL_ERR_OUT_OF_RESOURCE;
  for_each_peer_with_class(add_segment);
  qsort(segments, num_segments, sizeof *segments, compare_segments);
  return OPAL_SUCCESS;
}

// ---- called for every message

// Returns the module of the segment that contains the address; vader's if there is none.
static mca_btl_base_module_t* search_segments_for_module(uintptr_t address) {
  size_t low = 0, high = num_segments;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (address >= segments[middle].end)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == num_segments || address < segments[low].begin) return vader;
  last_segment_hit = segments[low];
  return last_segment_hit.module;
}

static inline mca_btl_base_module_t* module_for_address(uintptr_t address) {
  if (common_module) return common_module;
  if (address - last_segment_hit.begin < last_segment_hit.end - last_segment_hit.begin) return last_segment_hit.module;
  return search_segments_for_module(address);
}

// The receive callback that Open MPI calls instead of that of pml/ob1: calls the callback of pml/ob1 with the module of
// the sender's class.
static void receive_with_class_module(mca_btl_base_module_t* module, mca_btl_base_tag_t tag,
                                      mca_btl_base_descriptor_t* message, void* data) {
  if (module == vader) module = module_for_address((uintptr_t)message->des_segments[0].seg_addr.pval);
  receive_callbacks[tag](module, tag, message, data);
}

void wrap_receive_callback(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t callback) {
  if (tag >= MCA_BTL_TAG_MAX || !callback || callback == receive_with_class_module) return;
  receive_callbacks[tag] = callback;
  mca_btl_base_active_message_trigger[tag].cbfunc = receive_with_class_module;
}

void wrap_registered_receive_callbacks(void) {
  // Lower tags are vader's own messages, which its modules exchange.
  for (int tag = MCA_BTL_TAG_PML; tag < MCA_BTL_TAG_MAX; ++tag)
    wrap_receive_callback((mca_btl_base_tag_t)tag, mca_btl_base_active_message_trigger[tag].cbfunc);
}

void restore_receive_callbacks(void) {
  for (int tag = 0; tag < MCA_BTL_TAG_MAX; ++tag)
    if (mca_btl_base_active_message_trigger[tag].cbfunc == receive_with_class_module)
      mca_btl_base_active_message_trigger[tag].cbfunc = receive_callbacks[tag];
  free(segments);
  segments = NULL;
  num_segments = 0;
  common_module = NULL;
}
