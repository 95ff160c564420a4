// Two queues, as the stock transport has two lists of fragments: up to its eager limit, and longer. One lock for both,
// which the way back into rotation_give_back (from btl_alloc in place) may take twice.
#define _GNU_SOURCE  // the initializer
#include "rotation.h"

#include <pthread.h>

#include "modules.h"

enum { MOST_HELD = 64 };

struct queue {
  mca_btl_base_descriptor_t* fragments[MOST_HELD];
  size_t sizes[MOST_HELD];  // of what is written to each next time, about
  size_t bytes;
  unsigned first, count;
};
static struct queue queues[2];
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static void hold(struct queue* q, mca_btl_base_descriptor_t* fragment, size_t size) {
  const unsigned at = (q->first + q->count++) % MOST_HELD;
  q->fragments[at] = fragment;
  q->sizes[at] = size;
  q->bytes += size;
}

static void give_back_oldest(struct queue* q) {
  mca_btl_base_module_t* stock = stock_module();
  stock->btl_free(stock, q->fragments[q->first]);
  q->bytes -= q->sizes[q->first];
  q->first = (q->first + 1) % MOST_HELD;
  --q->count;
}

void rotation_hold_and_give_back(struct mca_btl_base_endpoint_t* endpoint, uint8_t order, size_t size, size_t message,
                                 size_t ring, uint32_t flags) {
  mca_btl_base_module_t* stock = stock_module();
  const bool longer = size > stock->btl_eager_limit;
  if (longer && size > stock->btl_max_send_size) return;
  struct queue* q = &queues[longer];
  const size_t room = message < ring ? ring - message : 0;
  pthread_mutex_lock(&lock);
  if (q->count == MOST_HELD) give_back_oldest(q);
  if (room) {
    mca_btl_base_descriptor_t* next = stock->btl_alloc(stock, endpoint, order, size, flags);
    if (next)
      hold(q, next, size);
    else if (q->count)
      give_back_oldest(q);
  }
  while (q->count && q->bytes > room) give_back_oldest(q);
  pthread_mutex_unlock(&lock);
}

bool rotation_give_back(void) {
  bool any = false;
  pthread_mutex_lock(&lock);
  for (int i = 0; i < 2; ++i)
    for (; queues[i].count; any = true) give_back_oldest(&queues[i]);
  pthread_mutex_unlock(&lock);
  return any;
}

void rotation_finish(void) {
  for (int i = 0; i < 2; ++i) queues[i] = (struct queue){.count = 0};
}
