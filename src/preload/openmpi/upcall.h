// Passes an incoming message to pml/ob1 with the module of its sender's class.
//
// vader calls pml/ob1's receive function with vader's own module, and pml/ob1 replies through the module with which it
// was called; so the module must be replaced by that of the sender's class. Open MPI 4 does not identify the sender in
// the call, but the message lies in the sender's memory segment, and each segment is mapped at one address.
#pragma once

#include <opal/mca/btl/btl.h>

// Called after the table of peers has changed: rebuilds the table of segments. `modules` is indexed by class. Returns
// OPAL_SUCCESS, or an error, after which the table of segments is empty.
int upcall_set_peers(mca_btl_base_module_t* modules);

// Interposes on the receive function for messages with `tag`. May be called repeatedly.
void upcall_wrap(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver);
// Interposes on all receive functions that were registered before the first peer was added.
void upcall_wrap_registered(void);
// Restores the receive functions, since this library is about to be unloaded.
void upcall_unwrap(void);
