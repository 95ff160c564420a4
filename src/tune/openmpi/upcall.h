// Tells pml/ob1 by which class a message came.
//
// The stock transport calls the receiver with its own module, and pml/ob1 answers through the module it was called
// with; so the pointer must become the one of the sender's class. Open MPI 4 says nothing of the sender in that call,
// but the bytes lie in the sender's memory segment, and each segment is mapped at one place.
#pragma once

#include <opal/mca/btl/btl.h>

// Must be called after the peers changed. `modules` is by class index. On failure nothing is translated.
int upcall_set_peers(mca_btl_base_module_t* modules);

// Steps between the stock transport and the function for `tag`. It may be called repeatedly.
void upcall_wrap(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver);
// Steps between for all that were registered before there was a peer.
void upcall_wrap_registered(void);
// Puts back the receivers: this library is about to be unloaded.
void upcall_unwrap(void);
