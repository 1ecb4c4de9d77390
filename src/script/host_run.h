/* host_run.h - a whole run inside a host program: what grpo_run_execute() of grpo.h does.
 *
 * It opens a Lua state, runs lua/grpo/commands/host_run.lua in it and closes it again.  It prints
 * nothing and handles no signals.
 */
#ifndef GRPO_SCRIPT_HOST_RUN_H
#define GRPO_SCRIPT_HOST_RUN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "grpo.h"

typedef struct HostReward {
  const char *name;
  double weight;
  grpo_reward_fn fn;
  void *user;
} HostReward;

typedef struct Hosted {
  const grpo_run_options *o;
  int threads; /* 0: all cores */
  size_t nrewards;
  const HostReward *rewards;
  grpo_step_fn on_step; /* may be NULL */
  void *step_user;
  const atomic_bool *stop;
  /* results */
  int64_t steps;
  bool stopped;
  Buf directory; /* freed by the caller */
} Hosted;

Status hosted_run(Hosted *h);

#endif
