#include "stock.h"

#include <opal/mca/btl/base/base.h>
#include <string.h>

mca_btl_base_component_t* stock_component;
mca_btl_base_module_t* stock;

bool stock_look_up(void) {
  mca_btl_base_selected_module_t* selected;
  OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
    if (strcmp(selected->btl_component->btl_version.mca_component_name, "vader") != 0) continue;
    stock_component = selected->btl_component;
    stock = selected->btl_module;
  }
  return stock != NULL;
}
