// Passes an incoming message to pml/ob1 with the module of its sender's class.
//
// vader calls pml/ob1's receive function with vader's own module, and pml/ob1 replies through the module with which it
// was called; so the module must be replaced by that of the sender's class. Open MPI 4 does not identify the sender in
// the call, but the message lies in the sender's memory segment, and each segment is mapped at one address.
#pragma once

#include <opal/mca/btl/btl.h>

// Called after the table of peers has changed: rebuilds the table of segments. `modules` is indexed by class. Returns
// OPAL_SUCCESS, or an error, after which the table of segments is empty.
int rebuild_segment_table(mca_btl_base_module_t* modules);

// Replaces the receive callback for messages with `tag` by one that passes the sender's class module to `callback`. May
// be called repeatedly.
void wrap_receive_callback(mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t callback);
// Does the same for all receive callbacks that were registered before the first peer was added.
void wrap_registered_receive_callbacks(void);
// Restores the receive functions, since this library is about to be unloaded.
void restore_receive_callbacks(void);
