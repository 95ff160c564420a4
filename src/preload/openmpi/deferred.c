// The FIFO queue of deferred fragments. The first send registers a progress callback with Open MPI, which drains the
// queue.
#include "deferred.h"

#include <opal/runtime/opal_progress.h>
#include <stdlib.h>
#include <string.h>

#include "preload/pair_rules/pair_rules.h"
#include "vader.h"

enum { MAX_DEFERRED_PER_CLASS = 8 };

struct deferred {
  mca_btl_base_descriptor_t super;
  mca_btl_base_segment_t segment;
  mca_btl_base_module_t* module;
  struct peer* peer;
  struct deferred* next;
  int class_index;
  mca_btl_base_tag_t tag;
  _Alignas(64) unsigned char bytes[];
};
typedef struct deferred deferred_t;
static OBJ_CLASS_INSTANCE(deferred_t, mca_btl_base_descriptor_t, NULL, NULL);

static struct deferred *queue_head, **queue_tail = &queue_head;
static int num_in_flight[NUM_CLASSES];
static bool is_progress_registered;

bool is_deferred(const mca_btl_base_descriptor_t* fragment) {
  return ((const opal_object_t*)fragment)->obj_class == OBJ_CLASS(deferred_t);
}

mca_btl_base_descriptor_t* allocate_deferred(int class_index, uint8_t order, size_t size, uint32_t flags) {
  if (num_in_flight[class_index] >= MAX_DEFERRED_PER_CLASS) return NULL;
  if (size > vader->btl_max_send_size && size > vader->btl_eager_limit) return NULL;
  const size_t bytes = (sizeof(struct deferred) + size + 63) / 64 * 64;
  struct deferred* fragment_to_send = aligned_alloc(64, bytes);
  if (!fragment_to_send) return NULL;
  memset(fragment_to_send, 0, sizeof *fragment_to_send);
  OBJ_CONSTRUCT(fragment_to_send, deferred_t);
  fragment_to_send->segment.seg_addr.pval = fragment_to_send->bytes;
  fragment_to_send->segment.seg_len = size;
  fragment_to_send->super.des_segments = &fragment_to_send->segment;
  fragment_to_send->super.des_segment_count = 1;
  fragment_to_send->super.des_flags = flags;
  fragment_to_send->super.order = order;
  fragment_to_send->class_index = class_index;
  ++num_in_flight[class_index];
  return &fragment_to_send->super;
}

void free_deferred(mca_btl_base_descriptor_t* fragment) {
  struct deferred* fragment_to_send = (struct deferred*)fragment;
  --num_in_flight[fragment_to_send->class_index];
  OBJ_DESTRUCT(fragment_to_send);
  free(fragment_to_send);
}

// Completion callback of the fragment that vader sends in place of a deferred one. Does nothing, because the callback
// of the deferred fragment has been called already.
static void ignore_completion(mca_btl_base_module_t* module, struct mca_btl_base_endpoint_t* endpoint,
                              mca_btl_base_descriptor_t* copy, int status) {
  (void)module, (void)endpoint, (void)copy, (void)status;
}

// Copies a deferred fragment into a fragment of vader and sends that. Returns false if vader has none.
static bool send_deferred_copy(struct deferred* fragment_to_send) {
  const uint32_t flags =
      (fragment_to_send->super.des_flags & MCA_BTL_DES_FLAGS_PRIORITY) | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
  mca_btl_base_descriptor_t* copy = vader->btl_alloc(
      vader, fragment_to_send->peer->vader, fragment_to_send->super.order, fragment_to_send->segment.seg_len, flags);
  if (!copy) return false;
  memcpy(copy->des_segments[0].seg_addr.pval, fragment_to_send->bytes, fragment_to_send->segment.seg_len);
  copy->des_cbfunc = ignore_completion;
  if (vader->btl_send(vader, fragment_to_send->peer->vader, copy, fragment_to_send->tag) >= 0) return true;
  vader->btl_free(vader, copy);
  return false;
}

// Progress callback: sends deferred fragments as long as vader has fragments. Returns the number sent.
static int send_deferred_fragments(void) {
  static bool is_running;
  int num_sent = 0;
  if (!queue_head || is_running) return 0;
  is_running = true;
  while (queue_head && send_deferred_copy(queue_head)) {
    struct deferred* fragment_to_send = queue_head;
    queue_head = fragment_to_send->next;
    if (!queue_head) queue_tail = &queue_head;
    const bool is_owned_by_btl = fragment_to_send->super.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    fragment_to_send->super.des_cbfunc(fragment_to_send->module,
                                       (struct mca_btl_base_endpoint_t*)fragment_to_send->peer,
                                       &fragment_to_send->super, OPAL_SUCCESS);
    if (is_owned_by_btl) free_deferred(&fragment_to_send->super);
    ++num_sent;
  }
  is_running = false;
  return num_sent;
}

int queue_deferred(mca_btl_base_module_t* module, struct peer* peer, mca_btl_base_descriptor_t* fragment,
                   mca_btl_base_tag_t tag) {
  struct deferred* fragment_to_send = (struct deferred*)fragment;
  if (!is_progress_registered && OPAL_SUCCESS != opal_progress_register(send_deferred_fragments))
    return OPAL_ERR_OUT_OF_RESOURCE;
  is_progress_registered = true;
  fragment_to_send->module = module;
  fragment_to_send->peer = peer;
  fragment_to_send->tag = tag;
  fragment_to_send->next = NULL;
  *queue_tail = fragment_to_send;
  queue_tail = &fragment_to_send->next;
  return OPAL_SUCCESS;
}

void free_queued_fragments(void) {
  if (is_progress_registered) opal_progress_unregister(send_deferred_fragments);
  is_progress_registered = false;
  while (queue_head) {
    struct deferred* fragment_to_send = queue_head;
    queue_head = fragment_to_send->next;
    free_deferred(&fragment_to_send->super);
  }
  queue_tail = &queue_head;
}
