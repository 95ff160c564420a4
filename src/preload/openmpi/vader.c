#include "vader.h"

#include <opal/mca/btl/base/base.h>
#include <string.h>

mca_btl_base_component_t* vader_component;
mca_btl_base_module_t* vader;

bool find_vader(void) {
  mca_btl_base_selected_module_t* selected;
  OPAL_LIST_FOREACH(selected, &mca_btl_base_modules_initialized, mca_btl_base_selected_module_t) {
    if (strcmp(selected->btl_component->btl_version.mca_component_name, "vader") != 0) continue;
    vader_component = selected->btl_component;
    vader = selected->btl_module;
  }
  return vader != NULL;
}
