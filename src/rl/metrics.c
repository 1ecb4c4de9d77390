#include "rl/metrics.h"

#include <math.h>

void step_metrics_init(StepMetrics *m) {
  *m = (StepMetrics){
#define METRIC(field, name) .field = NAN,
#include "rl/metrics.def"
#undef METRIC
  };
}
