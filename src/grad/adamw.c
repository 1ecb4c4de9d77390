#include "grad/adamw.h"

#include "base/exponential.h"

static const Option option_rows[] = {
#define OPTIONS_OF AdamWOptions
#include "base/option_rows.h"
#include "grad/adamw.def"
};

const OptionSet adamw_option_set = OPTION_SET("train.optimizer.", option_rows);

void adamw_options_init(AdamWOptions *o) { options_init_rows(&adamw_option_set, o); }

AdamW adamw_at(const AdamWOptions *o, uint64_t step, double lr, double max_norm, double norm) {
  const double t = (double)step, clip = max_norm > 0 ? max_norm / (norm + 1e-6) : 1;
  return (AdamW){.lr = lr,
                 .beta1 = o->beta1,
                 .beta2 = o->beta2,
                 .eps = o->eps,
                 .weight_decay = o->weight_decay,
                 .bias1 = 1 - math_pow(o->beta1, t),
                 .bias2 = 1 - math_pow(o->beta2, t),
                 .grad_scale = clip < 1 ? clip : 1};
}
