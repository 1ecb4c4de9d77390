/* report.h - the metrics of an update, summed over its passes. */
#ifndef GRPO_RL_REPORT_H
#define GRPO_RL_REPORT_H

#include "rl/metrics.h"
#include "rl/update_state.h"

/* norm: the sum of the iterations' gradient norms; seconds: of the whole update. */
void update_report(const Update *u, int iterations, double norm, double seconds, StepMetrics *m);

#endif
