/* slices.c - a step in parts: grpo_trainer_begin and grpo_trainer_advance.
 *
 * Sampling, the reference and the update run on a thread of the trainer's own, as a coroutine: the
 * host's thread and this one wait for each other and never run at once.  The coroutine gives
 * control back between two pieces of work (base/progress.h) when the time of the slice is over.
 * Everything that calls the host, rewards and notices, runs on the host's thread.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/trainer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "rl/rollout.h"

typedef enum Phase { SAMPLE, SCORE, REFERENCE, UPDATE, ENDED } Phase;
/* The time that it takes to hand control over, about. */
enum { HAND_OVER_NS = 120000 };

typedef enum Turn { HOST, WORK } Turn;

struct Slices {
  grpo_trainer *t;
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t passed; /* control */
  Turn turn;             /* who runs; the other waits */
  bool quit;
  /* the step */
  grpo_step step;
  Phase phase;
  bool working; /* the coroutine is within the phase */
  size_t scored;
  const grpo_metrics *metrics;
  /* what the coroutine says when it gives control back */
  Status status; /* of the phase, once it has ended */
  char message[1024];
  const char *notice; /* a line for the host's log; NULL: none */
  LogLevel level;
  /* time */
  int64_t budget, until; /* of the slice; when the slice is over */
  int64_t last, longest; /* computed_ns() at the last look; of a piece, about */
  bool cancel;           /* the step ends at the next place where it can */
};

/* ---- handing over ----------------------------------------------------------------- */

/* Gives control to the other thread and waits until it comes back. */
static void hand_over(Slices *s, Turn to) {
  pthread_mutex_lock(&s->lock);
  s->turn = to;
  pthread_cond_broadcast(&s->passed);
  while (s->turn == to) pthread_cond_wait(&s->passed, &s->lock);
  pthread_mutex_unlock(&s->lock);
}

/* The time that this thread has computed, without that in which others had its core. */
static int64_t computed_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The time that is left free for the next piece: that of a long one and half as much, because the
 * clock goes on while others have the core, but not more than half of the slice, or one that was
 * very long would make all others short. */
static int64_t room_for_piece(const Slices *s) {
  const int64_t room = s->longest + s->longest / 2 + HAND_OVER_NS;
  return room < s->budget / 2 ? room : s->budget / 2;
}

/* Between two pieces: continues, or gives control back if the next one may not fit. */
static void between(void *user) {
  Slices *s = user;
  const int64_t now = computed_ns(), piece = now - s->last;
  s->longest -= s->longest / 4096; /* so that one long piece is forgotten after some steps */
  if (piece > s->longest) s->longest = piece;
  s->last = now;
  if (s->cancel || s->until - clock_ns() > room_for_piece(s)) return;
  hand_over(s, HOST);
  s->last = computed_ns();
}

static Status reached(void *user, const char *what, int64_t done, int64_t of) {
  Slices *s = user;
  (void)what, (void)done, (void)of;
  if (!s->cancel) between(s);
  if (s->cancel || atomic_load(&s->t->c->cancel))
    return fail(GRPO_ECANCELED, "the step was cancelled");
  return GRPO_OK;
}

/* The host's log is called on its own thread. */
static void pass_notice(void *user, LogLevel level, const char *line) {
  Slices *s = user;
  if (s->cancel) return;
  s->notice = line;
  s->level = level;
  hand_over(s, HOST);
}

static Status work_on(Slices *s) {
  const grpo_step *p = &s->step;
  if (s->phase == SAMPLE) return trainer_rollout(s->t, p->prompts, p->count, p->sampling);
  if (s->phase == REFERENCE) return trainer_reference(s->t);
  if (p->examples) return trainer_sft(s->t, p->examples, p->example_count, p->update, &s->metrics);
  return trainer_update(s->t, p->update, &s->metrics);
}

static void *work_main(void *arg) {
  Slices *s = arg;
  const LogTarget target = {pass_notice, s};
  const ProgressWatch watch = {reached, between, s};
  locale_enter();
  log_use(&target);
  pthread_mutex_lock(&s->lock);
  while (s->turn == HOST && !s->quit) pthread_cond_wait(&s->passed, &s->lock);
  pthread_mutex_unlock(&s->lock);
  while (!s->quit) {
    s->last = computed_ns();
    progress_watch(&watch);
    s->status = work_on(s);
    progress_watch(NULL);
    snprintf(s->message, sizeof s->message, "%s", err_message());
    s->working = false;
    hand_over(s, HOST);
  }
  return NULL;
}

/* ---- making and ending ------------------------------------------------------------- */

/* Ends the step in progress, if there is one. */
static void abandon(Slices *s) {
  s->cancel = true;
  while (s->working) hand_over(s, WORK);
  s->cancel = false;
  if (s->phase != ENDED) s->t->c->parts = NULL;
  s->phase = ENDED;
}

static void slices_free(Slices *s) {
  abandon(s);
  pthread_mutex_lock(&s->lock);
  s->quit = true;
  s->turn = WORK;
  pthread_cond_broadcast(&s->passed);
  pthread_mutex_unlock(&s->lock);
  pthread_join(s->thread, NULL);
  pthread_cond_destroy(&s->passed);
  pthread_mutex_destroy(&s->lock);
  mem_free(s);
}

/* The thread blocks all signals, as those of the pool do. */
static Status start(grpo_trainer *t) {
  sigset_t all, before;
  Slices *s = mem_zalloc(sizeof *s);
  if (!s) return fail(GRPO_ENOMEM, "a step in parts");
  s->t = t;
  s->phase = ENDED;
  pthread_mutex_init(&s->lock, NULL);
  pthread_cond_init(&s->passed, NULL);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int failed = pthread_create(&s->thread, NULL, work_main, s);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (failed) {
    pthread_cond_destroy(&s->passed);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
    return fail(GRPO_ENOMEM, "a step in parts: cannot start a thread");
  }
  t->slices = s;
  t->slices_free = slices_free;
  return GRPO_OK;
}

/* Its size before steps could be supervised. */
enum { FIRST_STEP = offsetof(grpo_step, examples) };

static Status check_step(const grpo_step *p) {
  if (p->examples && (p->prompts || p->reward))
    return fail(GRPO_EARG, "grpo_step: set prompts and reward, or examples, not both");
  if (p->examples) return GRPO_OK;
  if (!p->reward) return fail(GRPO_EARG, "grpo_step: the reward callback is NULL");
  try(prompts_check(p->prompts, p->count));
  if (p->sampling && p->sampling->size > offsetof(grpo_sampling, on_token) && p->sampling->on_token)
    return fail(GRPO_EARG, "grpo_step: sampling.on_token is set, but a step in parts calls nothing "
                           "while it samples; leave it out");
  return GRPO_OK;
}

static Status begin(grpo_trainer *t, const grpo_step *step) {
  grpo_step own = {.size = sizeof own};
  if (t->c->parts && t->c->parts != t)
    return fail(GRPO_EARG, "another trainer of this context makes a step in parts; call "
                           "grpo_trainer_advance until it is done");
  if (t->slices) abandon(t->slices);
  atomic_store(&t->c->cancel, false); /* it was for the step that is given up */
  if (!step) return GRPO_OK;
  try(options_take_grown(&own, sizeof own, FIRST_STEP, step, "grpo_step"));
  try(check_step(&own));
  if (!t->slices) try(start(t));
  Slices *s = t->slices;
  s->step = own;
  s->phase = own.examples ? UPDATE : SAMPLE;
  s->working = false;
  s->scored = 0;
  s->metrics = NULL;
  t->c->parts = t;
  return GRPO_OK;
}

grpo_status grpo_step_init(grpo_step *p, size_t size) {
  const grpo_step d = {.size = sizeof d};
  return options_init_grown(p, size, &d, sizeof d, FIRST_STEP);
}

grpo_status grpo_trainer_begin(grpo_trainer *t, const grpo_step *step) {
  in_call(call_part, t ? t->c : NULL, begin(t, step));
}

/* ---- a slice ------------------------------------------------------------------------ */

static bool time_is_over(const Slices *s) { return clock_ns() >= s->until; }

/* Lets the coroutine work until it gives control back for good. */
static Status run_work(Slices *s) {
  s->working = true;
  do {
    s->notice = NULL;
    hand_over(s, WORK);
    if (s->notice) log_message(s->level, "%s", s->notice);
  } while (s->notice);
  if (s->working || s->status == GRPO_OK) return GRPO_OK;
  return fail(s->status, "%s", s->message);
}

/* Calls the reward; at least one completion a slice. */
static Status run_score(Slices *s) {
  grpo_trainer *t = s->t;
  const size_t n = grpo_trainer_sample_count(t);
  while (s->scored < n) {
    try(trainer_score_one(t, s->scored, s->step.reward, s->step.user));
    if (++s->scored < n && time_is_over(s)) return GRPO_OK;
  }
  t->scored = true;
  return trainer_advantages(t, s->step.advantages, NULL, 0);
}

static bool wants_reference(const grpo_trainer *t, const grpo_step *p) {
  const grpo_loss_options *l = p->update ? p->update->loss : NULL;
  return l && l->kl > 0 && engine_reference_model(t->e);
}

static Phase next_phase(const Slices *s) {
  if (s->phase == SCORE) return wants_reference(s->t, &s->step) ? REFERENCE : UPDATE;
  return s->phase == UPDATE ? ENDED : s->phase + 1;
}

static Status run_slice(Slices *s) {
  do {
    const bool scores = s->phase == SCORE;
    try(scores ? run_score(s) : run_work(s));
    if (scores ? s->scored < grpo_trainer_sample_count(s->t) : s->working) return GRPO_OK;
    s->phase = next_phase(s);
  } while (s->phase != ENDED && !time_is_over(s));
  return GRPO_OK;
}

static Status advance(grpo_trainer *t, int64_t budget_us, int32_t *done,
                      const grpo_metrics **metrics) {
  Slices *s = t->slices;
  try(need(done, "done"));
  if (budget_us < 0 || budget_us > INT64_MAX / 4000)
    return fail(GRPO_EARG, "budget_us: %lld, want microseconds, or 0 for no limit",
                (long long)budget_us);
  if (!s || s->phase == ENDED)
    return fail(GRPO_EARG, "no step has begun; call grpo_trainer_begin first");
  if (atomic_load(&t->c->cancel)) {
    abandon(s);
    return fail(GRPO_ECANCELED, "the step was cancelled by grpo_cancel");
  }
  s->budget = budget_us * 1000;
  s->until = budget_us ? clock_ns() + s->budget : INT64_MAX;
  const Status st = run_slice(s);
  if (st != GRPO_OK) s->phase = ENDED;
  if (s->phase == ENDED) t->c->parts = NULL;
  try(st);
  *done = s->phase == ENDED;
  if (metrics) *metrics = s->phase == ENDED ? s->metrics : NULL;
  return GRPO_OK;
}

grpo_status grpo_trainer_advance(grpo_trainer *t, int64_t budget_us, int32_t *done,
                                 const grpo_metrics **metrics) {
  in_call(call_part, t ? t->c : NULL, advance(t, budget_us, done, metrics));
}
