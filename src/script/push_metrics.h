/* push_metrics.h - the metrics of a step as a Lua table. */
#ifndef GRPO_SCRIPT_PUSH_METRICS_H
#define GRPO_SCRIPT_PUSH_METRICS_H

#include <lua.h>

#include "rl/metrics.h"

/* Pushes a table with the metrics that apply. */
void push_metrics(lua_State *L, const StepMetrics *m);

#endif
