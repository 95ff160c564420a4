// The class modules, which pml/ob1 and bml/r2 use and which delegate to vader's module.
//
// Life cycle: modules_make() runs in btl_init, before vader's module is known. At the first add_procs vader's module is
// looked up and its btl_add_procs replaced by one that uses the table of peers; from then on only peers_resolve() calls
// the original. finalize restores it.
//
// One-sided communication is not changed: osc/rdma requires one module that reaches every peer and has atomic
// operations. The class modules hide their atomic operations, and vader's module stays visible to osc/rdma, for RDMA
// only: its exclusivity is lower than that of the class modules, so r2 never sends messages by it.
#include "modules.h"

#include <opal/mca/btl/base/base.h>
#include <stdlib.h>

#include "deferred.h"
#include "peers.h"
#include "upcall.h"
#include "vader.h"

static mca_btl_base_module_t modules[CLASSES];
static const struct rules* rules;
static mca_btl_base_module_add_procs_fn_t vader_add_procs;

typedef struct mca_btl_base_endpoint_t endpoint_t;

static inline endpoint_t* vader_endpoint(endpoint_t* endpoint) { return ((struct peer*)endpoint)->vader; }
static inline int class_of_module(const mca_btl_base_module_t* module) { return (int)(module - modules); }

// ---- called for every message

static mca_btl_base_descriptor_t* nf_alloc(mca_btl_base_module_t* module, endpoint_t* endpoint, uint8_t order,
                                           size_t size, uint32_t flags) {
  mca_btl_base_descriptor_t* fragment = vader->btl_alloc(vader, vader_endpoint(endpoint), order, size, flags);
  if (OPAL_LIKELY(fragment != NULL)) return fragment;
  return deferred_alloc(class_of_module(module), order, size, flags);
}

static int nf_free(mca_btl_base_module_t* module, mca_btl_base_descriptor_t* fragment) {
  (void)module;
  if (OPAL_LIKELY(!is_deferred(fragment))) return vader->btl_free(vader, fragment);
  deferred_free(fragment);
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
  return deferred_send(module, (struct peer*)endpoint, fragment, tag);
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
// registration fails for messages below the class's limit. ob1 uses MCA_BTL_REG_FLAG_REMOTE_READ alone only for this.
static struct mca_btl_base_registration_handle_t* nf_register_mem(mca_btl_base_module_t* module, endpoint_t* endpoint,
                                                                  void* base, size_t size, uint32_t flags) {
  static char nothing_to_register;
  const size_t from = rules->limits[class_of_module(module)].single_copy_from;
  if (flags == MCA_BTL_REG_FLAG_REMOTE_READ && size < from) return NULL;
  if (!vader->btl_register_mem) return (struct mca_btl_base_registration_handle_t*)&nothing_to_register;
  endpoint_t* to = endpoint == MCA_BTL_ENDPOINT_ANY ? endpoint : vader_endpoint(endpoint);
  return vader->btl_register_mem(vader, to, base, size, flags);
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
  const uint32_t needed = MCA_BTL_FLAGS_RDMA | MCA_BTL_FLAGS_ATOMIC_FOPS;
  return (vader->btl_flags & needed) == needed;
}

static int class_of_proc(const opal_proc_t* proc) {
  return rules_class_of(rules, OPAL_PROC_MY_NAME.vpid, proc->proc_name.vpid, (uint16_t)proc->proc_flags);
}

// Returns the limit of a class: `wanted`, at most vader's `real`; 0 means vader's.
static size_t capped_limit(size_t wanted, size_t real) { return wanted && wanted < real ? wanted : real; }

// Sets the attributes of a class module to vader's, with the limits of the class. Called repeatedly, because vader's
// module may change its attributes while it adds processes (no CMA between user namespaces).
static void copy_vader_limits(int class_index) {
  mca_btl_base_module_t* m = &modules[class_index];
  const struct limits* limits = &rules->limits[class_index];
  m->btl_eager_limit = capped_limit(limits->eager_limit, vader->btl_eager_limit);
  // The first fragment of a rendezvous must not exceed the class's maximum.
  m->btl_rndv_eager_limit = capped_limit(limits->max_send_size, vader->btl_rndv_eager_limit);
  m->btl_max_send_size = capped_limit(limits->max_send_size, vader->btl_max_send_size);
  m->btl_rdma_pipeline_send_length = vader->btl_rdma_pipeline_send_length;
  m->btl_rdma_pipeline_frag_size = vader->btl_rdma_pipeline_frag_size;
  m->btl_min_rdma_pipeline_size = vader->btl_min_rdma_pipeline_size;
  m->btl_latency = vader->btl_latency;
  // ob1 requires that the modules by which it reads have half of the total bandwidth, and counts vader's module as
  // well, although it does not use it.
  m->btl_bandwidth = 2 * vader->btl_bandwidth;
  m->btl_flags = vader->btl_flags & ~(uint32_t)(MCA_BTL_FLAGS_ATOMIC_OPS | MCA_BTL_FLAGS_ATOMIC_FOPS);
  m->btl_registration_handle_size = vader->btl_registration_handle_size;
  m->btl_get_limit = vader->btl_get_limit;
  m->btl_get_alignment = vader->btl_get_alignment;
  m->btl_put_limit = vader->btl_put_limit;
  m->btl_put_alignment = vader->btl_put_alignment;
  m->btl_get_local_registration_threshold = vader->btl_get_local_registration_threshold;
  m->btl_put_local_registration_threshold = vader->btl_put_local_registration_threshold;
  m->btl_sendi = vader->btl_sendi ? nf_sendi : NULL;
  m->btl_put = vader->btl_put ? nf_put : NULL;
  m->btl_get = vader->btl_get ? nf_get : NULL;
  if (limits->single_copy_from || vader->btl_register_mem) {
    m->btl_register_mem = nf_register_mem;
    m->btl_deregister_mem = nf_deregister_mem;
  }
  // Otherwise ob1 would let the sender write the messages that the receiver is not allowed to read.
  if (limits->single_copy_from) m->btl_min_rdma_pipeline_size = SIZE_MAX;
}

// Adds new peers to the table, and updates everything that depends on the table. Returns OPAL_SUCCESS or an error.
static int resolve_peers(size_t n, opal_proc_t** procs) {
  const int rc = peers_resolve(vader, vader_add_procs, n, procs, class_of_proc);
  for (int c = 0; c < CLASSES; ++c) copy_vader_limits(c);
  return OPAL_SUCCESS == rc ? upcall_set_peers(modules) : rc;
}

// Replaces vader's btl_add_procs. Returns endpoints for the peers that have no class, and for all peers if vader has
// the operations that osc/rdma requires.
static int chained_add_procs(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs, endpoint_t** endpoints,
                             opal_bitmap_t* reachable) {
  (void)module;
  const int rc = resolve_peers(n, procs);
  for (size_t i = 0; i < n; ++i) {
    const struct peer* peer = OPAL_SUCCESS == rc ? peers_find(procs[i]) : NULL;
    const bool visible = peer && (peer->class_index < 0 || vader_has_one_sided());
    endpoints[i] = visible ? peer->vader : NULL;
    if (visible && peer->reachable && reachable) opal_bitmap_set_bit(reachable, (int)i);
  }
  return rc;
}

static bool interpose_on_vader(void) {
  if (!find_vader()) return false;
  vader_add_procs = vader->btl_add_procs;
  vader->btl_add_procs = chained_add_procs;
  // The component has vader's progress function, which r2 calls once for both: only vader's module has progress to
  // make.
  mca_btl_nearfield_component.btl_progress = vader_component->btl_progress;
  upcall_wrap_registered();
  return true;
}

static int nf_add_procs(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs, endpoint_t** endpoints,
                        opal_bitmap_t* reachable) {
  for (size_t i = 0; i < n; ++i) endpoints[i] = NULL;
  if (!vader && !interpose_on_vader()) return OPAL_SUCCESS;
  const int rc = resolve_peers(n, procs);
  for (size_t i = 0; OPAL_SUCCESS == rc && i < n; ++i) {
    struct peer* peer = peers_find(procs[i]);
    if (!peer || peer->class_index != class_of_module(module)) continue;
    endpoints[i] = (endpoint_t*)peer;
    if (reachable) opal_bitmap_set_bit(reachable, (int)i);
  }
  return rc;
}

// Calls vader's btl_del_procs only for peers for which vader's module was not visible; for the others r2 calls it.
static int nf_del_procs(mca_btl_base_module_t* module, size_t n, opal_proc_t** procs, endpoint_t** endpoints) {
  (void)module;
  (void)procs;
  for (size_t i = 0; i < n; ++i) {
    struct peer* peer = (struct peer*)endpoints[i];
    if (!peer) continue;
    if (!vader_has_one_sided()) vader->btl_del_procs(vader, 1, &peer->proc, &peer->vader);
    peers_remove(peer);
    endpoints[i] = NULL;
  }
  return upcall_set_peers(modules);
}

static int nf_register(mca_btl_base_module_t* module, mca_btl_base_tag_t tag, mca_btl_base_module_recv_cb_fn_t receiver,
                       void* data) {
  (void)module;
  (void)data;
  if (vader) upcall_wrap(tag, receiver);
  return OPAL_SUCCESS;
}

// Called once per module; the first call restores everything.
static int nf_finalize(mca_btl_base_module_t* module) {
  (void)module;
  if (!vader) return OPAL_SUCCESS;
  deferred_finish();
  upcall_unwrap();
  vader->btl_add_procs = vader_add_procs;
  vader = NULL;
  peers_clear();
  return OPAL_SUCCESS;
}

mca_btl_base_module_t** modules_make(const struct rules* from, int* n) {
  mca_btl_base_module_t** list = calloc(CLASSES, sizeof *list);
  rules = from;
  *n = 0;
  for (int c = 0; list && c < CLASSES; ++c) {
    modules[c] = (mca_btl_base_module_t){
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
    if (rules_have_class(rules, c)) list[(*n)++] = &modules[c];
  }
  return list;
}
