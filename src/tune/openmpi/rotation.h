// Fragments that come round late.
//
// The stock transport uses the fragment next that came back last. Every line of it is then still in the private cache
// of the receiver, who has just read it, and the sender must take it from there before it may write, at a quarter of
// the speed on a Zen 4 (bench/come_round.py). So the last that came back are held, the oldest of them
// returned, until the memory that a message and those held take is a ring that the private caches have lost.
//
// Messages of up to STORE_BUFFER_BYTES, about what fits the sender's store buffer, do not wait for their lines; they go
// as ever.
#ifndef NEARFIELD_TUNE_OPENMPI_ROTATION_H
#define NEARFIELD_TUNE_OPENMPI_ROTATION_H

#include <opal/datatype/opal_convertor.h>
#include <stddef.h>

#include "peers.h"

// Not for callers: what rotation_turn does where it does anything.
void rotation_hold_and_give_back(struct mca_btl_base_endpoint_t* endpoint, uint8_t order, size_t size, size_t message,
                                 size_t ring, uint32_t flags);

enum { STORE_BUFFER_BYTES = 12 << 10 };

// Before a fragment of `size` bytes of a message is taken from the stock module. All in bytes; `ring` 0: as they come.
static inline void rotation_turn(struct mca_btl_base_endpoint_t* endpoint, uint8_t order, size_t size,
                                 const struct opal_convertor_t* message, size_t ring, uint32_t flags) {
  if (size > STORE_BUFFER_BYTES && ring)
    rotation_hold_and_give_back(endpoint, order, size, message->local_size, ring, flags);
}
// Gives back all that are held; false if there are none.
bool rotation_give_back(void);
// Nothing is sent any more, and the stock module may be gone: what is held, it frees itself.
void rotation_finish(void);

#endif
