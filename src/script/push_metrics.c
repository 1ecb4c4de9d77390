#include "script/push_metrics.h"

#include <math.h>

#include "script/args.h"

void push_metrics(lua_State *L, const StepMetrics *m) {
  const struct {
    const char *name;
    double value;
  } rows[] = {
#define METRIC(field, name) {name, m->field},
#include "rl/metrics.def"
#undef METRIC
  };
  lua_createtable(L, 0, 24);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (!isnan(rows[i].value)) set_number(L, rows[i].name, rows[i].value);
}
