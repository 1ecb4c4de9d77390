#include "rl/metrics.h"

#include <math.h>

void step_metrics_init(StepMetrics *m) {
  *m = (StepMetrics){
#define METRIC(field, name) .field = NAN,
#include "rl/metrics.def"
#undef METRIC
  };
}

static double ratio_of(double a, double b) { return b > 0 ? a / b : NAN; }

void loss_metrics_report(const LossMetrics *s, bool has_kl, StepMetrics *m) {
  const bool clips = s->clip_count > 0;
  m->kl = has_kl ? ratio_of(s->kl_sum, s->tokens) : NAN;
  m->entropy = ratio_of(s->entropy_sum, s->tokens);
  m->clip_low_mean = ratio_of(s->clip_low, s->clip_count);
  m->clip_high_mean = ratio_of(s->clip_high, s->clip_count);
  m->clip_region_mean = ratio_of(s->clip_low + s->clip_high, s->clip_count);
  m->clip_low_min = clips ? s->clip_low_min : NAN;
  m->clip_high_max = clips ? s->clip_high_max : NAN;
  m->sampler_mean = ratio_of(s->sampler_sum, s->sampler_count);
  m->sampler_min = s->sampler_count > 0 ? s->sampler_min : NAN;
  m->sampler_max = s->sampler_count > 0 ? s->sampler_max : NAN;
}
