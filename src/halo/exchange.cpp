#include "halo/exchange.hpp"

#include <cstring>
#include <utility>

namespace nearfield::halo {
namespace {

void poison_cells(const StridedCells& place, const Triple& extents, std::size_t cell_bytes) {
  for (Index i = 0; i < extents[0]; ++i)
    for (Index j = 0; j < extents[1]; ++j)
      for (Index k = 0; k < extents[2]; ++k)
        std::memset(place.first + i * place.strides[0] + j * place.strides[1] + k * place.strides[2], 0xff, cell_bytes);
}

}  // namespace

HaloExchange::HaloExchange(ExchangePlan plan, const ProtocolSpec& spec, ExchangeContext& context, bool should_poison)
    : protocol_spec_(spec) {
  if (should_poison && !plan.should_add && !plan.reads_in_place) poisoned_plan_ = plan;
  protocol_ = make_protocol(spec, context, std::move(plan));
}

void HaloExchange::prepare() {
  protocol_->prepare_exchange();
  if (!poisoned_plan_) return;
  for (const auto& field : poisoned_plan_->fields)
    for (const auto& message : poisoned_plan_->messages)
      for (const auto& strip : message.receive)
        poison_cells(field.local_array.at(strip.local_box.lo), strip.extents(), field.local_array.cell_bytes);
}

}  // namespace nearfield::halo
