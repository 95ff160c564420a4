#include "in_place.h"

#include "rotation.h"

static mca_btl_base_module_t *stock, before;  // the module, and its functions as they were
static const struct rules* rules;

typedef struct mca_btl_base_endpoint_t endpoint_t;

static mca_btl_base_descriptor_t* alloc_or_give_back(mca_btl_base_module_t* module, endpoint_t* endpoint, uint8_t order,
                                                     size_t size, uint32_t flags) {
  mca_btl_base_descriptor_t* fragment = before.btl_alloc(module, endpoint, order, size, flags);
  if (OPAL_UNLIKELY(fragment == NULL) && rotation_give_back())
    fragment = before.btl_alloc(module, endpoint, order, size, flags);
  return fragment;
}

static mca_btl_base_descriptor_t* prepare_src_in_turn(mca_btl_base_module_t* module, endpoint_t* endpoint,
                                                      struct opal_convertor_t* convertor, uint8_t order, size_t reserve,
                                                      size_t* size, uint32_t flags) {
  rotation_turn(endpoint, order, reserve + *size, convertor, rules->ring, flags);
  mca_btl_base_descriptor_t* fragment =
      before.btl_prepare_src(module, endpoint, convertor, order, reserve, size, flags);
  if (OPAL_UNLIKELY(fragment == NULL) && rotation_give_back())
    fragment = before.btl_prepare_src(module, endpoint, convertor, order, reserve, size, flags);
  return fragment;
}

static struct mca_btl_base_registration_handle_t* register_up_to_limit(mca_btl_base_module_t* module,
                                                                       endpoint_t* endpoint, void* base, size_t size,
                                                                       uint32_t flags) {
  static char nothing_to_register;
  if (flags == MCA_BTL_REG_FLAG_REMOTE_READ && size > rules->single_copy_upto) return NULL;
  if (before.btl_register_mem) return before.btl_register_mem(module, endpoint, base, size, flags);
  return (struct mca_btl_base_registration_handle_t*)&nothing_to_register;
}

static int deregister(mca_btl_base_module_t* module, struct mca_btl_base_registration_handle_t* handle) {
  return before.btl_deregister_mem ? before.btl_deregister_mem(module, handle) : OPAL_SUCCESS;
}

void in_place_begin(mca_btl_base_module_t* stock_module, const struct rules* from) {
  stock = stock_module;
  rules = from;
  before = *stock;
  if (rules->ring) {
    stock->btl_alloc = alloc_or_give_back;
    stock->btl_prepare_src = prepare_src_in_turn;
  }
  if (rules->single_copy_upto) {
    stock->btl_register_mem = register_up_to_limit;
    stock->btl_deregister_mem = deregister;
    stock->btl_min_rdma_pipeline_size = SIZE_MAX;  // or ob1 would have the sender write what may not be read
  }
}

void in_place_end(void) {
  if (!stock) return;
  stock->btl_alloc = before.btl_alloc;
  stock->btl_prepare_src = before.btl_prepare_src;
  stock->btl_register_mem = before.btl_register_mem;
  stock->btl_deregister_mem = before.btl_deregister_mem;
  stock->btl_min_rdma_pipeline_size = before.btl_min_rdma_pipeline_size;
  stock = NULL;
}
