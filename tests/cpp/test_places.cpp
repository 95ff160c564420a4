// Does the engine find where two ranks' cores are most of the time, and notice that they moved during a visit?
#include <cmath>
#include <cstdio>

#include "check.hpp"
#include "probe/places.hpp"

using namespace nearfield::probe;

namespace {

void the_commonest_place_is_usual() {
  LatencyHistogram places;
  CHECK(places.is_dominant_latency(0));  // nothing was measured
  for (int i = 0; i < 10; ++i) places.add_visit(240 + i % 3);
  CHECK(places.is_dominant_latency(241) && !places.is_dominant_latency(55));
  for (int i = 0; i < 11; ++i) places.add_visit(55 + 0.3 * i);
  CHECK(places.is_dominant_latency(57) && places.is_dominant_latency(52) && !places.is_dominant_latency(241));
  CHECK(!places.is_dominant_latency(std::nan("")));
}

void a_visit_during_which_the_cores_moved_has_no_latency() {
  CHECK(latency_of_visit(55, 60) == 55 && latency_of_visit(60, 55) == 55);
  CHECK(std::isnan(latency_of_visit(55, 240)) && std::isnan(latency_of_visit(240, 55)));
  CHECK(latency_of_visit(0, 0) == 0);
}

}  // namespace

int main() {
  the_commonest_place_is_usual();
  a_visit_during_which_the_cores_moved_has_no_latency();
  std::printf("%d checks failed\n", failed_checks);
  return failed_checks != 0;
}
