/* loss_options.h - the options of a loss, for grpo.loss and for a training step.
 *
 * index holds a table (or nothing: no option is set); `where` starts the messages ("train",
 * "loss").  A value that is absent leaves *o alone, except that clip_high follows a clip that is
 * given.
 */
#ifndef GRPO_SCRIPT_LOSS_OPTIONS_H
#define GRPO_SCRIPT_LOSS_OPTIONS_H

#include "grad/policy.h"
#include "script/binding.h"

void check_loss_options(lua_State *L, int index, const char *where, LossOptions *o);

#endif
