/* metrics.h - what a step reports: one number for each row of metrics.def. */
#ifndef GRPO_RL_METRICS_H
#define GRPO_RL_METRICS_H

#include <stdbool.h>

#include "grad/attrs.h"

/* A metric that does not apply to a step is NaN. */
typedef struct StepMetrics {
#define METRIC(field, name) double field;
#include "rl/metrics.def"
#undef METRIC
} StepMetrics;

void step_metrics_init(StepMetrics *m); /* all NaN */
/* Reports the metrics that a loss leaves behind. */
void loss_metrics_report(const LossMetrics *s, bool has_kl, StepMetrics *m);

#endif
