// Passes to pml/ob1 the module of the class from which a message came.
//
// vader calls the receiver with its own module, and pml/ob1 replies through the module with which it was called; so the
// pointer must be replaced by the module of the sender's class. Open MPI 4 does not identify the sender in that call,
// but the bytes lie in the sender's memory segment, and each segment is mapped at one address.
#pragma once

#include <opal/mca/btl/btl.h>

// To be called after the peers changed. `modules` is indexed by class. On failure nothing is translated.
int upcall_set_peers(mca_btl_base_module_t* modules);

// Interposes on the function for `tag`. May be called repeatedly.
void upcall_wrap(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver);
// Interposes on all functions that were registered before there was a peer.
void upcall_wrap_registered(void);
// Restores the receivers, since this library is about to be unloaded.
void upcall_unwrap(void);
