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

HaloExchange::HaloExchange(ExchangePlan move, const ProtocolSpec& spec, ExchangeContext& around, bool poison)
    : spec_(spec) {
  if (poison && !move.add && !move.in_place) poisoned_ = move;
  protocol_ = make_protocol(spec, around, std::move(move));
}

void HaloExchange::prepare() {
  protocol_->prepare_exchange();
  if (!poisoned_) return;
  for (const auto& field : poisoned_->fields)
    for (const auto& message : poisoned_->messages)
      for (const auto& strip : message.receive)
        poison_cells(field.mine.at(strip.mine.lo), strip.extents(), field.mine.cell_bytes);
}

}  // namespace nearfield::halo
