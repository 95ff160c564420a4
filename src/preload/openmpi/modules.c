// The class modules, which pml/ob1 and bml/r2 use and which delegate to vader's module.
//
// Life cycle: create_modules() runs in btl_init, before vader's module is known. At the first add_procs vader's module
// is looked up and its btl_add_procs replaced by one that uses the table of peers; from then on only add_new_peers()
// calls the original. finalize restores it.
//
// One-sided communication is not changed: osc/rdma requires one module that reaches every peer and has atomic
// operations. The class modules hide their atomic operations, and vader's module stays visible to osc/rdma, for RDMA
// only: its exclusivity is lower than that of the class modules, so r2 never sends messages by it.
#include "modules.h"

#include <opal/mca/btl/base/base.h>
#include <stdlib.h>

#include "deferred.h"
#include "locality.h"
#include "peers.h"
#include "upcall.h"
#include "vader.h"

static mca_btl_base_module_t class_modules[NUM_CLASSES];
static const struct pair_rules* rules;
static mca_btl_base_module_add_procs_fn_t vader_add_procs;

typedef struct mca_btl_base_endpoint_t endpoint_t;

static inline endpoint_t* vader_endpoint(endpoint_t* endpoint) { return ((struct peer*)endpoint)->vader; }
static inline int class_of_module(const mca_btl_base_module_t* module) { return (int)(module - class_modules); }

// ---- called for every message

static mca_btl_base_descriptor_t* nf_alloc(mca_btl_base_module_t* module, endpoint_t* endpoint, uint8_t order,
                                           size_t size, uint32_t flags) {
  mca_btl_base_descriptor_t* fragment = vader->btl_alloc(vader, vader_endpoint(endpoint), order, size, flags);
  if (OPAL_LIKELY(fragment != NULL)) return fragment;
  return allocate_deferred(class_of_module(module), order, size, flags);
}

static int nf_free(mca_btl_base_module_t* module, mca_btl_base_descriptor_t* fragment) {
  (void)module;
  if (OPAL_LIKELY(!is_deferred(fragment))) return vader->btl_free(vader, fragment);
  free_deferred(fragment);
  return OPAL_SUCCESS;
}

static mca_btl_base_descriptor_t* nf_prepare_src(mca_btl_base_module_t* module, endpoint_t* endpoint,
                                                 struct opal_convertor_t* convertor, uint8_t order, size_t reserve,
                                                 size_t* size, uint32_t flags) {
  (void)module;
  return vader->btl_prepare_src(vader, vader_endpoint(endpoint), convertor, order, reserve, size, flags);
}

static int nf_send(mca_btl_base_module_t* module, endpoint_t* endpoint, mca_btl_base_descriptor_t* fragment,
                   mca_btl_base_tag_t tag) {
  if (OPAL_LIKELY(!is_deferred(fragment))) return vader->btl_send(vader, vader_endpoint(endpoint), fragment, tag);
  return queue_deferred(module, (struct peer*)endpoint, fragment, tag);
}

static int nf_sendi(mca_btl_base_module_t* module, endpoint_t* endpoint, struct opal_convertor_t* convertor,
                    void* header, size_t header_size, size_t payload_size, uint8_t order, uint32_t flags,
                    mca_btl_base_tag_t tag, mca_btl_base_descriptor_t** fragment) {
  (void)module;
  return vader->btl_sendi(vader, vader_endpoint(endpoint), convertor, header, header_size, payload_size, order, flags,
                          tag, fragment);
}

static int nf_put(mca_btl_base_module_t* module, endpoint_t* endpoint, void* local, uint64_t remote,
                  struct mca_btl_base_registration_handle_t* local_handle,
                  struct mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags, int order,
                  mca_btl_base_rdma_completion_fn_t done, void* context, void* data) {
  (void)module;
  return vader->btl_put(vader, vader_endpoint(endpoint), local, remote, local_handle, remote_handle, size, flags, order,
                        done, context, data);
}

static int nf_get(mca_btl_base_module_t* module, endpoint_t* endpoint, void* local, uint64_t remote,
                  struct mca_btl_base_registration_handle_t* local_handle,
                  struct mca_btl_base_registration_handle_t* remote_handle, size_t size, int flags, int order,
                  mca_btl_base_rdma_completion_fn_t done, void* context, void* data) {
  (void)module;
  return vader->btl_get(vader, vader_endpoint(endpoint), local, remote, local_handle, remote_handle, size, flags, order,
                        done, context, data);
}

// pml/ob1 lets the receiver read a message from the sender's memory only if the sender can register that memory. So the
// registration fails for messages below the class's limit. ob1 passes MCA_BTL_REG_FLAG_REMOTE_READ without other flags
// only for this purpose.
static struct mca_btl_base_registration_handle_t* nf_register_mem(mca_btl_base_module_t* module, endpoint_t* endpoint,
                                                                  void* base, size_t size, uint32_t flags) {
  static char nothing_to_register;
  const size_t min_bytes = rules->limits[class_of_module(module)].single_copy_from;
  if (flags == MCA_BTL_REG_FLAG_REMOTE_READ && size < min_bytes) return NULL;
  if (!vader->btl_register_mem) return (struct mca_btl_base_registration_handle_t*)&nothing_to_register;
  endpoint_t* vader_or_any = endpoint == MCA_BTL_ENDPOINT_ANY ? endpoint : vader_endpoint(endpoint);
  return vader->btl_register_mem(vader, vader_or_any, base, size, flags);
}

static int nf_deregister_mem(mca_btl_base_module_t* module, struct mca_btl_base_registration_handle_t* handle) {
  (void)module;
  return vader->btl_deregister_mem ? vader->btl_deregister_mem(vader, handle) : OPAL_SUCCESS;
}

static void nf_dump(mca_btl_base_module_t* module, endpoint_t* endpoint, int verbose) {
  (void)module;
  if (vader && vader->btl_dump) vader->btl_dump(vader, endpoint ? vader_endpoint(endpoint) : NULL, verbose);
}

// ---- adding and removing processes

static bool vader_has_one_sided(void) {
  const uint32_t needed_flags = MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_FOPS;
  return (vader->btl_flags & needed_flags) == needed_flags;
}

static int class_of_proc(const opal_proc_t* proc) {
  return class_of_pair(rules, OPAL_PROC_MY_NAME.vpid, proc->proc_name.vpid,
                       distance_of_locality((uint16_t)proc->proc_flags));
}

// Returns the limit of a class: `class_limit`, at most vader's `vader_limit`; 0 means vader's.
static size_t capped_limit(size_t class_limit, size_t vader_limit) {
  return class_limit && class_limit < vader_limit ? class_limit : vader_limit;
}

// Sets the attributes of a class module to vader's, with the limits of the class. Called repeatedly, because vader's
// module may change its attributes while it adds processes (no CMA between user namespaces).
static void copy_vader_limits(int class_index) {
  mca_btl_base_module_t* module = &class_modules[class_index];
  const struct limits* limits = &rules->limits[class_index];
  module->btl_eager_limit = capped_limit(limits->eager_limit, vader->btl_eager_limit);
  // The first fragment of a rendezvous must not exceed the class's maximum.
  module->btl_rndv_eager_limit = capped_limit(limits->max_send_size, vader->btl_rndv_eager_limit);
  module->btl_max_send_size = capped_limit(limits->max_send_size, vader->btl_max_send_size);
  module->btl_rdma_pipeline_send_length = vader->btl_rdma_pipeline_send_length;
  module->btl_rdma_pipeline_frag_size = vader->btl_rdma_pipeline_frag_size;
  module->btl_min_rdma_pipeline_size = vader->btl_min_rdma_pipeline_size;
  module->btl_latency = vader->btl_latency;
  // ob1 requires that the modules by which it reads have half of the total bandwidth, and counts vader's module as
  // well, although it does not use it.
  module->btl_bandwidth = 2 * vader->btl_bandwidth;
  module->btl_flags = vader->btl_flags & ~(uint32_t)(MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS);
  module->btl_registration_handle_size = vader->btl_registration_handle_size;
  module->btl_get_limit = vader->btl_get_limit;
  module->btl_get_alignment = vader->btl_get_alignment;
  module->btl_put_limit = vader->btl_put_limit;
  module->btl_put_alignment = vader->btl_put_alignment;
  module->btl_get_local_registration_threshold = vader->btl_get_local_registration_threshold;
  module->btl_put_local_registration_threshold = vader->btl_put_local_registration_threshold;
  module->btl_sendi = vader->btl_sendi ? nf_sendi : NULL;
  module->btl_put = vader->btl_put ? nf_put : NULL;
  module->btl_get = vader->btl_get ? nf_get : NULL;
  if (limits->single_copy_from || vader->btl_register_mem) {
    module->btl_register_mem = nf_register_mem;
    module->btl_deregister_mem = nf_deregister_mem;
  }
  // Otherwise ob1 would let the sender write the messages that the receiver is not allowed to read.
  if (limits->single_copy_from) module->btl_min_rdma_pipeline_size = SIZE_MAX;
}

// Adds new peers to the table, and updates everything that depends on the table. Returns OPAL_SUCCESS or an error.
static int update_peers(size_t n, opal_proc_t** procs) {
  const int result = add_new_peers(vader, vader_add_procs, n, procs, class_of_proc);
  for (int c = 0; c < NUM_CLASSES; ++c) copy_vader_limits(c);
  return OPAL_SUCCESS == result ? rebuild_segment_table(class_modules) : result;
}

// Replaces vader's btl_add_procs. Returns endpoints for the peers that have no class, and for all peers if vader has
// the operations that osc/rdma requires.
static int vader_add_procs_by_table(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs,
                                    endpoint_t** endpoints, opal_bitmap_t* reachable) {
  (void)module;
  const int result = update_peers(n, procs);
  for (size_t i = 0; i < n; ++i) {
    const struct peer* peer = OPAL_SUCCESS == result ? find_peer(procs[i]) : NULL;
    const bool is_visible = peer && (peer->class_index < 0 || vader_has_one_sided());
    endpoints[i] = is_visible ? peer->vader : NULL;
    if (is_visible && peer->is_reachable && reachable) opal_bitmap_set_bit(reachable, (int)i);
  }
  return result;
}

static bool interpose_on_vader(void) {
  if (!find_vader()) return false;
  vader_add_procs = vader->btl_add_procs;
  vader->btl_add_procs = vader_add_procs_by_table;
  // The component has vader's progress function, which r2 calls once for both: only vader's module has progress to
  // make.
  mca_btl_nearfield_component.btl_progress = vader_component->btl_progress;
  wrap_registered_receive_callbacks();
  return true;
}

static int nf_add_procs(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs, endpoint_t** endpoints,
                        opal_bitmap_t* reachable) {
  for (size_t i = 0; i < n; ++i) endpoints[i] = NULL;
  if (!vader && !interpose_on_vader()) return OPAL_SUCCESS;
  const int result = update_peers(n, procs);
  for (size_t i = 0; OPAL_SUCCESS == result && i < n; ++i) {
    struct peer* peer = find_peer(procs[i]);
    if (!peer || peer->class_index != class_of_module(module)) continue;
    endpoints[i] = (endpoint_t*)peer;
    if (reachable) opal_bitmap_set_bit(reachable, (int)i);
  }
  return result;
}

// Calls vader's btl_del_procs only for peers for which vader's module was not visible; for the other peers, r2 calls
// it.
static int nf_del_procs(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs, endpoint_t** endpoints) {
  (void)module;
  (void)procs;
  for (size_t i = 0; i < n; ++i) {
    struct peer* peer = (struct peer*)endpoints[i];
    if (!peer) continue;
    if (!vader_has_one_sided()) vader->btl_del_procs(vader, 1, &peer->proc, &peer->vader);
    remove_peer(peer);
    endpoints[i] = NULL;
  }
  return rebuild_segment_table(class_modules);
}

static int nf_register(mca_btl_base_module_t* module, mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t callback,
                       void* data) {
  (void)module;
  (void)data;
  if (vader) wrap_receive_callback(tag, callback);
  return OPAL_SUCCESS;
}

// Called once per module; the first call restores all replaced functions.
static int nf_finalize(mca_btl_base_module_t* module) {
  (void)module;
  if (!vader) return OPAL_SUCCESS;
  free_queued_fragments();
  restore_receive_callbacks();
  vader->btl_add_procs = vader_add_procs;
  vader = NULL;
  clear_peers();
  return OPAL_SUCCESS;
}

mca_btl_base_module_t** create_modules(const struct pair_rules* parsed_rules, int* n) {
  mca_btl_base_module_t** class_list = calloc(NUM_CLASSES, sizeof *class_list);
  rules = parsed_rules;
  *n = 0;
  for (int c = 0; class_list && c < NUM_CLASSES; ++c) {
    class_modules[c] = (mca_btl_base_module_t){
        .btl_component = &mca_btl_nearfield_component,
        .btl_eager_limit = 4096,  // until vader's limit is known; ob1 refuses 0
        .btl_rndv_eager_limit = 4096,
        .btl_max_send_size = 4096,
        .btl_exclusivity = MCA_BTL_EXCLUSIVITY_HIGH + 1,
        .btl_flags = MCA_BTL_FLAGS_SEND,
        .btl_add_procs = nf_add_procs,
        .btl_del_procs = nf_del_procs,
        .btl_register = nf_register,
        .btl_finalize = nf_finalize,
        .btl_alloc = nf_alloc,
        .btl_free = nf_free,
        .btl_prepare_src = nf_prepare_src,
        .btl_send = nf_send,
        .btl_dump = nf_dump,
    };
    if (has_class(rules, c)) class_list[(*n)++] = &class_modules[c];
  }
  return class_list;
}
