#include "rl/update_options.h"

#include "grad/policy.h"

static const Option option_rows[] = {
#define OPTIONS_OF UpdateOptions
#include "base/option_rows.h"
#include "rl/step_options.def"
#define OPTIONS_OF UpdateOptions
#include "base/option_rows.h"
#include "rl/update_options.def"
};

static const Option distill_rows[] = {
#define OPTIONS_OF DistillOptions
#include "base/option_rows.h"
#include "rl/distill_options.def"
};

const OptionSet distill_option_set = OPTION_SET("train.distill.", distill_rows);
const OptionSet update_option_set = OPTION_SET("train.", option_rows);

void update_options_init(UpdateOptions *o, LossKind kind) {
  *o = (UpdateOptions){0};
  options_init_rows(&update_option_set, o);
  options_init_rows(&distill_option_set, &o->distill);
  loss_options_init(&o->loss, kind);
}
