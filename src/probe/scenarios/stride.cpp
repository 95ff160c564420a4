// Implements scenario/stride.hpp under MPI.
#include "scenario/stride.hpp"

#include <algorithm>
#include <cmath>

#include "probe/buffer.hpp"
#include "probe/context.hpp"
#include "probe/scenario.hpp"

namespace nearfield::probe {
namespace {

constexpr int stride_tag = 3, tag_done = 8;
constexpr std::size_t element = sizeof(double);

// Positions of the elements of a message in its buffer, in doubles: `outer` blocks of `inner` elements.
struct Layout {
  std::size_t inner = 1, inner_step = 1, outer = 1, outer_step = 1;
  std::size_t count() const { return inner * outer; }
  std::size_t offset_of_element(std::size_t i) const { return i / inner * outer_step + i % inner * inner_step; }
  std::size_t extent() const { return (outer - 1) * outer_step + (inner - 1) * inner_step + 1; }
};

struct Case {
  std::int64_t size;
  std::int64_t stride;  // in doubles; 0: a face
  std::string face;     // x, y or z; empty: a vector
  std::string method, mode;
};

// Returns the layout of a face of an n x n x n block with one ghost layer, in C order.
Layout face_layout(const std::string& face, std::size_t n) {
  const std::size_t row = n + 2, plane = row * row;
  if (face == "x") return {n, 1, n, row};
  if (face == "y") return {n, 1, n, plane};
  return {n, row, n, plane};
}

Layout layout_of(const Case& c) {
  const auto count = static_cast<std::size_t>(c.size) / element;
  if (c.face.empty()) return {count, static_cast<std::size_t>(c.stride), 1, 1};
  return face_layout(c.face, static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(count)))));
}

std::vector<Case> stride_cases(const Context& ctx) {
  const bool quick = ctx.plan.tier == "quick";
  std::vector<Case> list;
  for (const auto size : stride_sizes(ctx.size_choice()))
    for (const auto stride : strides_in_doubles(ctx.plan.tier))
      for (const char* mode : {"standard", "synchronous", "buffered"}) {
        list.push_back({size, stride, "", "datatype", mode});
        if (stride == 1) list.push_back({size, 1, "", "contiguous", mode});
        if (!quick || std::string(mode) == "standard") list.push_back({size, stride, "", "manual-pack", mode});
      }
  for (const std::int64_t n : quick ? std::vector<std::int64_t>{64} : std::vector<std::int64_t>{32, 64, 128, 256})
    for (const char* face : {"x", "y", "z"})
      for (const char* method : {"datatype", "manual-pack"}) list.push_back({n * n * 8, 0, face, method, "standard"});
  return list;
}

class StrideScenario final : public Scenario {
 public:
  explicit StrideScenario(Context& ctx)
      : Scenario(ctx), list_(stride_cases(ctx)), types_(list_.size(), MPI_DATATYPE_NULL) {
    std::size_t extent = 0, packed = 0;
    for (const auto& c : list_) {
      cases_.push_back(case_parameters(c));
      extent = std::max(extent, layout_of(c).extent());
      packed = std::max(packed, layout_of(c).count());
    }
    for (std::size_t i = 0; i < list_.size(); ++i) types_[i] = make_datatype(list_[i]);
    send_ = Buffer(extent * element);
    receive_ = Buffer(extent * element);
    packed_send_ = Buffer(packed * element);
    packed_receive_ = Buffer(packed * element);
    buffered_ = Buffer(4 * packed * element + 64 * MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(buffered_.data(), static_cast<int>(buffered_.size()));
  }

  ~StrideScenario() override {
    void* memory = nullptr;
    int bytes = 0;
    MPI_Buffer_detach(&memory, &bytes);
    for (auto& type : types_)
      if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }

  void select_case(std::size_t index) override {
    const Case& c = list_[index];
    layout_ = layout_of(c);
    type_ = types_[index];
    pack_ = c.method == "manual-pack";
    contiguous_ = c.method == "contiguous";
    send_call_ = c.mode == "standard" ? MPI_Send : c.mode == "synchronous" ? MPI_Ssend : MPI_Bsend;
  }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    if (ctx_.is_sender()) {
      send_message();
      receive_message();
      values[0] = static_cast<double>(now() - start) / 2;
      MPI_Send(nullptr, 0, MPI_BYTE, 1, tag_done, ctx_.timed);
    } else {
      receive_message();
      send_message();
      values[0] = not_measured_here();
      // A buffered send returns before the payload is transferred, and the transfer progresses only inside MPI calls.
      MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag_done, ctx_.timed, MPI_STATUS_IGNORE);
    }
  }

  void fill_buffers(unsigned seed) override {
    const std::size_t n = layout_.count();
    for (std::size_t i = 0; i < n; ++i) {
      as_doubles(send_)[layout_.offset_of_element(i)] = element_value(seed + static_cast<unsigned>(ctx_.rank), i);
      as_doubles(receive_)[layout_.offset_of_element(i)] = -1;
    }
  }

  std::string check_received_data(unsigned seed) override {
    for (std::size_t i = 0; i < layout_.count(); ++i)
      if (as_doubles(receive_)[layout_.offset_of_element(i)] !=
          element_value(seed + static_cast<unsigned>(ctx_.peer_rank()), i))
        return "element " + std::to_string(i) + " is wrong";
    return "";
  }

  // The middle byte of this span belongs to an element of the message.
  std::span<std::byte> received_data() override {
    return {receive_.data() + layout_.offset_of_element(layout_.count() / 2) * element, element};
  }

 private:
  static Parameters case_parameters(const Case& c) {
    const auto bytes = static_cast<std::int64_t>(layout_of(c).count() * element);
    if (c.face.empty()) return {{"size_bytes", bytes}, {"stride", c.stride}, {"method", c.method}, {"mode", c.mode}};
    return {{"size_bytes", bytes}, {"face", c.face}, {"method", c.method}, {"mode", c.mode}};
  }

  static double element_value(unsigned seed, std::size_t i) { return seed * 1e6 + static_cast<double>(i); }
  static double* as_doubles(const Buffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }

  static MPI_Datatype make_datatype(const Case& c) {
    if (c.method != "datatype") return MPI_DATATYPE_NULL;
    const Layout l = layout_of(c);
    MPI_Datatype type, inner;
    MPI_Type_vector(static_cast<int>(l.inner), 1, static_cast<int>(l.inner_step), MPI_DOUBLE, &type);
    if (l.outer > 1) {
      inner = type;
      if (l.inner_step == 1)
        MPI_Type_vector(static_cast<int>(l.outer), static_cast<int>(l.inner), static_cast<int>(l.outer_step),
                        MPI_DOUBLE, &type);
      else
        MPI_Type_create_hvector(static_cast<int>(l.outer), 1, static_cast<MPI_Aint>(l.outer_step * element), inner,
                                &type);
      MPI_Type_free(&inner);
    }
    MPI_Type_commit(&type);
    return type;
  }

  void send_message() {
    const int n = static_cast<int>(layout_.count()), peer = ctx_.peer_rank();
    if (pack_) {
      pack_elements();
      send_call_(packed_send_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed);
    } else if (contiguous_) {
      send_call_(send_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed);
    } else {
      send_call_(send_.data(), 1, type_, peer, stride_tag, ctx_.timed);
    }
  }

  void receive_message() {
    const int n = static_cast<int>(layout_.count()), peer = ctx_.peer_rank();
    if (pack_) {
      MPI_Recv(packed_receive_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed, MPI_STATUS_IGNORE);
      unpack_elements();
    } else if (contiguous_) {
      MPI_Recv(receive_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(receive_.data(), 1, type_, peer, stride_tag, ctx_.timed, MPI_STATUS_IGNORE);
    }
  }

  void pack_elements() {
    const double* from = as_doubles(send_);
    double* to = as_doubles(packed_send_);
    for (std::size_t o = 0; o < layout_.outer; ++o, from += layout_.outer_step)
      for (std::size_t i = 0; i < layout_.inner; ++i) *to++ = from[i * layout_.inner_step];
  }

  void unpack_elements() {
    const double* from = as_doubles(packed_receive_);
    double* to = as_doubles(receive_);
    for (std::size_t o = 0; o < layout_.outer; ++o, to += layout_.outer_step)
      for (std::size_t i = 0; i < layout_.inner; ++i) to[i * layout_.inner_step] = *from++;
  }

  std::vector<Case> list_;
  std::vector<MPI_Datatype> types_;
  Buffer send_, receive_, packed_send_, packed_receive_, buffered_;
  Layout layout_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  bool pack_ = false, contiguous_ = false;
  int (*send_call_)(const void*, int, MPI_Datatype, int, int, MPI_Comm) = nullptr;
};

}  // namespace

extern const Spec stride_spec;
const Spec stride_spec{stride_info, 5.0, make_variant<Scenario, StrideScenario>};

}  // namespace nearfield::probe
