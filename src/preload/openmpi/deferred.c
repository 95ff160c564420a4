// The FIFO queue of deferred fragments. The first send registers a progress callback with Open MPI, which drains the
// queue.
#include "deferred.h"

#include <opal/runtime/opal_progress.h>
#include <stdlib.h>
#include <string.h>

#include "classes.h"
#include "vader.h"

enum { MAX_PER_CLASS = 8 };

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

static struct deferred *head, **tail = &head;
static int in_flight[CLASSES];
static bool is_progress_registered;

bool is_deferred(const mca_btl_base_descriptor_t* fragment) {
  return ((const opal_object_t*)fragment)->obj_class == OBJ_CLASS(deferred_t);
}

mca_btl_base_descriptor_t* deferred_alloc(int class_index, uint8_t order, size_t size, uint32_t flags) {
  if (in_flight[class_index] >= MAX_PER_CLASS) return NULL;
  if (size > vader->btl_max_send_size && size > vader->btl_eager_limit) return NULL;
  const size_t bytes = (sizeof(struct deferred) + size + 63) / 64 * 64;
  struct deferred* d = aligned_alloc(64, bytes);
  if (!d) return NULL;
  memset(d, 0, sizeof *d);
  OBJ_CONSTRUCT(d, deferred_t);
  d->segment.seg_addr.pval = d->bytes;
  d->segment.seg_len = size;
  d->super.des_segments = &d->segment;
  d->super.des_segment_count = 1;
  d->super.des_flags = flags;
  d->super.order = order;
  d->class_index = class_index;
  ++in_flight[class_index];
  return &d->super;
}

void deferred_free(mca_btl_base_descriptor_t* fragment) {
  struct deferred* d = (struct deferred*)fragment;
  --in_flight[d->class_index];
  OBJ_DESTRUCT(d);
  free(d);
}

// Completion callback of the fragment that vader sends in place of a deferred one. Does nothing, because the callback
// of the deferred fragment has been called already.
static void ignore_completion(mca_btl_base_module_t* module, struct mca_btl_base_endpoint_t* endpoint,
                              mca_btl_base_descriptor_t* copy, int status) {
  (void)module, (void)endpoint, (void)copy, (void)status;
}

// Copies a deferred fragment into a fragment of vader and sends that. Returns false if vader has none.
static bool send_copy(struct deferred* d) {
  const uint32_t flags = (d->super.des_flags & MCA_BTL_DES_FLAGS_PRIORITY) | MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
  mca_btl_base_descriptor_t* copy = vader->btl_alloc(vader, d->peer->vader, d->super.order, d->segment.seg_len, flags);
  if (!copy) return false;
  memcpy(copy->des_segments[0].seg_addr.pval, d->bytes, d->segment.seg_len);
  copy->des_cbfunc = ignore_completion;
  if (vader->btl_send(vader, d->peer->vader, copy, d->tag) >= 0) return true;
  vader->btl_free(vader, copy);
  return false;
}

// Progress callback: sends deferred fragments as long as vader has fragments. Returns the number sent.
static int send_queued(void) {
  static bool inside;
  int done = 0;
  if (!head || inside) return 0;
  inside = true;
  while (head && send_copy(head)) {
    struct deferred* d = head;
    head = d->next;
    if (!head) tail = &head;
    const bool ours_to_free = d->super.des_flags & MCA_BTL_DES_FLAGS_BTL_OWNERSHIP;
    d->super.des_cbfunc(d->module, (struct mca_btl_base_endpoint_t*)d->peer, &d->super, OPAL_SUCCESS);
    if (ours_to_free) deferred_free(&d->super);
    ++done;
  }
  inside = false;
  return done;
}

int deferred_send(mca_btl_base_module_t* module, struct peer* peer, mca_btl_base_descriptor_t* fragment,
                  mca_btl_base_tag_t tag) {
  struct deferred* d = (struct deferred*)fragment;
  if (!is_progress_registered && OPAL_SUCCESS != opal_progress_register(send_queued)) return OPAL_ERR_OUT_OF_RESOURCE;
  is_progress_registered = true;
  d->module = module;
  d->peer = peer;
  d->tag = tag;
  d->next = NULL;
  *tail = d;
  tail = &d->next;
  return OPAL_SUCCESS;
}

void deferred_finish(void) {
  if (is_progress_registered) opal_progress_unregister(send_queued);
  is_progress_registered = false;
  while (head) {
    struct deferred* d = head;
    head = d->next;
    deferred_free(&d->super);
  }
  tail = &head;
}
