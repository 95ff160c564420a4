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
constexpr std::size_t element_bytes = sizeof(double);

// The positions of a message's elements in its buffer, in doubles: `outer` blocks of `inner` elements; blocks begin
// `outer_step` doubles apart, elements in a block `inner_step`.
struct ElementLayout {
  std::size_t inner = 1, inner_step = 1, outer = 1, outer_step = 1;
  std::size_t num_elements() const { return inner * outer; }
  std::size_t offset_of_element(std::size_t i) const { return i / inner * outer_step + i % inner * inner_step; }
  std::size_t extent() const { return (outer - 1) * outer_step + (inner - 1) * inner_step + 1; }
};

struct StrideCase {
  std::int64_t size;
  std::int64_t stride;  // in doubles; 0: a face
  std::string face;     // x, y or z; empty: a vector
  std::string method, mode;
};

// Returns the layout of a face of an n x n x n block with one ghost layer, in C order.
ElementLayout face_layout(const std::string& face, std::size_t n) {
  const std::size_t row = n + 2, plane = row * row;
  if (face == "x") return {n, 1, n, row};
  if (face == "y") return {n, 1, n, plane};
  return {n, row, n, plane};
}

ElementLayout layout_of(const StrideCase& c) {
  const auto num_elements = static_cast<std::size_t>(c.size) / element_bytes;
  if (c.face.empty()) return {num_elements, static_cast<std::size_t>(c.stride), 1, 1};
  return face_layout(c.face, static_cast<std::size_t>(std::lround(std::sqrt(static_cast<double>(num_elements)))));
}

std::vector<StrideCase> list_stride_cases(const Context& ctx) {
  const bool quick = ctx.plan.tier == "quick";
  std::vector<StrideCase> list;
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
      : Scenario(ctx), stride_cases_(list_stride_cases(ctx)), types_(stride_cases_.size(), MPI_DATATYPE_NULL) {
    std::size_t extent = 0, packed = 0;
    for (const auto& c : stride_cases_) {
      cases_.push_back(case_parameters(c));
      extent = std::max(extent, layout_of(c).extent());
      packed = std::max(packed, layout_of(c).num_elements());
    }
    for (std::size_t i = 0; i < stride_cases_.size(); ++i) types_[i] = make_datatype(stride_cases_[i]);
    send_ = Buffer(extent * element_bytes);
    receive_ = Buffer(extent * element_bytes);
    packed_send_ = Buffer(packed * element_bytes);
    packed_receive_ = Buffer(packed * element_bytes);
    bsend_buffer_ = Buffer(4 * packed * element_bytes + 64 * MPI_BSEND_OVERHEAD);
    MPI_Buffer_attach(bsend_buffer_.data(), static_cast<int>(bsend_buffer_.size()));
  }

  ~StrideScenario() override {
    void* memory = nullptr;
    int bytes = 0;
    MPI_Buffer_detach(&memory, &bytes);
    for (auto& type : types_)
      if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }

  void select_case(std::size_t index) override {
    const StrideCase& c = stride_cases_[index];
    layout_ = layout_of(c);
    type_ = types_[index];
    is_packed_ = c.method == "manual-pack";
    is_contiguous_ = c.method == "contiguous";
    send_function_ = c.mode == "standard" ? MPI_Send : c.mode == "synchronous" ? MPI_Ssend : MPI_Bsend;
  }

  void run_timed(std::span<double> values) override {
    const Ticks start = now();
    if (ctx_.is_sender()) {
      send_message();
      receive_message();
      values[0] = static_cast<double>(now() - start) / 2;
      MPI_Send(nullptr, 0, MPI_BYTE, 1, tag_done, ctx_.timed_comm);
    } else {
      receive_message();
      send_message();
      values[0] = not_measured_here();
      // A buffered send returns before the payload is transferred, and the transfer progresses only inside MPI calls.
      MPI_Recv(nullptr, 0, MPI_BYTE, 0, tag_done, ctx_.timed_comm, MPI_STATUS_IGNORE);
    }
  }

  void fill_buffers(unsigned seed) override {
    const std::size_t n = layout_.num_elements();
    for (std::size_t i = 0; i < n; ++i) {
      as_doubles(send_)[layout_.offset_of_element(i)] = element_value(seed + static_cast<unsigned>(ctx_.rank), i);
      as_doubles(receive_)[layout_.offset_of_element(i)] = -1;
    }
  }

  std::string check_received_data(unsigned seed) override {
    for (std::size_t i = 0; i < layout_.num_elements(); ++i)
      if (as_doubles(receive_)[layout_.offset_of_element(i)] !=
          element_value(seed + static_cast<unsigned>(ctx_.peer_rank()), i))
        return "element " + std::to_string(i) + " is wrong";
    return "";
  }

  // The middle byte of this span belongs to an element of the message.
  std::span<std::byte> received_data() override {
    return {receive_.data() + layout_.offset_of_element(layout_.num_elements() / 2) * element_bytes, element_bytes};
  }

 private:
  static Parameters case_parameters(const StrideCase& c) {
    const auto bytes = static_cast<std::int64_t>(layout_of(c).num_elements() * element_bytes);
    if (c.face.empty()) return {{"size_bytes", bytes}, {"stride", c.stride}, {"method", c.method}, {"mode", c.mode}};
    return {{"size_bytes", bytes}, {"face", c.face}, {"method", c.method}, {"mode", c.mode}};
  }

  static double element_value(unsigned seed, std::size_t i) { return seed * 1e6 + static_cast<double>(i); }
  static double* as_doubles(const Buffer& buffer) { return reinterpret_cast<double*>(buffer.data()); }

  static MPI_Datatype make_datatype(const StrideCase& c) {
    if (c.method != "datatype") return MPI_DATATYPE_NULL;
    const ElementLayout l = layout_of(c);
    MPI_Datatype type, inner;
    MPI_Type_vector(static_cast<int>(l.inner), 1, static_cast<int>(l.inner_step), MPI_DOUBLE, &type);
    if (l.outer > 1) {
      inner = type;
      if (l.inner_step == 1)
        MPI_Type_vector(static_cast<int>(l.outer), static_cast<int>(l.inner), static_cast<int>(l.outer_step),
                        MPI_DOUBLE, &type);
      else
        MPI_Type_create_hvector(static_cast<int>(l.outer), 1, static_cast<MPI_Aint>(l.outer_step * element_bytes),
                                inner, &type);
      MPI_Type_free(&inner);
    }
    MPI_Type_commit(&type);
    return type;
  }

  void send_message() {
    const int n = static_cast<int>(layout_.num_elements()), peer = ctx_.peer_rank();
    if (is_packed_) {
      pack_elements();
      send_function_(packed_send_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed_comm);
    } else if (is_contiguous_) {
      send_function_(send_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed_comm);
    } else {
      send_function_(send_.data(), 1, type_, peer, stride_tag, ctx_.timed_comm);
    }
  }

  void receive_message() {
    const int n = static_cast<int>(layout_.num_elements()), peer = ctx_.peer_rank();
    if (is_packed_) {
      MPI_Recv(packed_receive_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
      unpack_elements();
    } else if (is_contiguous_) {
      MPI_Recv(receive_.data(), n, MPI_DOUBLE, peer, stride_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
    } else {
      MPI_Recv(receive_.data(), 1, type_, peer, stride_tag, ctx_.timed_comm, MPI_STATUS_IGNORE);
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

  std::vector<StrideCase> stride_cases_;
  std::vector<MPI_Datatype> types_;
  Buffer send_, receive_, packed_send_, packed_receive_, bsend_buffer_;
  ElementLayout layout_;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  bool is_packed_ = false, is_contiguous_ = false;
  int (*send_function_)(const void*, int, MPI_Datatype, int, int, MPI_Comm) = nullptr;
};

}  // namespace

extern const Spec stride_spec;
const Spec stride_spec{stride_info, 5.0, make_implementation<Scenario, StrideScenario>};

}  // namespace nearfield::probe
