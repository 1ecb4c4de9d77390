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

/* A function of the host's, under a name; exactly one of the four is not NULL. */
typedef struct HostFunction {
  const char *name;
  double weight; /* of a reward */
  grpo_reward_fn reward;
  grpo_group_reward_fn group;
  grpo_token_reward_fn tokens;
  grpo_call_fn call; /* grpo.host.NAME of the script */
  void *user;
} HostFunction;

struct grpo_answer {
  Buf json;
};

typedef struct Hosted {
  const grpo_run_options *o;
  int threads; /* 0: all cores */
  size_t nfunctions;
  const HostFunction *functions;
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
