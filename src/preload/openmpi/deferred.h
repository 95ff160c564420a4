// Deferred fragments: fragments in ordinary memory, for use when vader has none left.
//
// All classes share the fragments of vader's module. If a send gets no fragment, pml/ob1 retries the send whenever it
// makes progress; but it retries an acknowledgement only when a fragment of the acknowledgement's class completes. If
// all fragments belonged to other classes, the acknowledgement would wait forever. So a class that gets no fragment
// from vader may allocate a few deferred ones. They are queued, and copied into vader's fragments when these are
// available again. An allocation fails only while deferred fragments of the same class are in flight.
#pragma once

#include "peers.h"

// Allocates a deferred fragment, as btl_alloc does. Returns NULL if the class has eight in flight, if `size` is more
// than vader ever sends in one fragment, or if there is no memory. (btl_prepare_src needs no such replacement, because
// it serves no acknowledgements.)
mca_btl_base_descriptor_t* allocate_deferred(int class_index, uint8_t order, size_t size, uint32_t flags);
bool is_deferred(const mca_btl_base_descriptor_t* fragment);
// Queues a deferred fragment, as btl_send would send it. Returns OPAL_SUCCESS or an error.
int queue_deferred(mca_btl_base_module_t* module, struct peer* peer, mca_btl_base_descriptor_t* fragment,
                   mca_btl_base_tag_t tag);
void free_deferred(mca_btl_base_descriptor_t* fragment);
// Frees the fragments that are still queued when MPI is finalised.
void free_queued_fragments(void);
