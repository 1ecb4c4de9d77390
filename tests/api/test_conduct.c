/* The library leaves its host alone: memory, output, locale, signals, working directory, log. */
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "host.h"

static const char script[] =
    "local grpo = require 'grpo'\n"
    "print('half:', 0.5)\n"
    "return grpo.experiment {\n"
    "  model = { tokenizer = grpo.tokenizer.chars('abcd'), config = { model_type = 'llama',\n"
    "    hidden_size = 16, intermediate_size = 24, num_hidden_layers = 1, num_attention_heads = "
    "2,\n"
    "    max_position_embeddings = 32, initializer_range = 0.2 } },\n"
    "  data = { train = grpo.data.list { { prompt = 'a' }, { prompt = 'b' } },\n"
    "    eval = grpo.data.list { { prompt = 'a' } }, max_prompt_tokens = 4 },\n"
    "  sampling = { group_size = 4, max_new_tokens = 4, stop_regex = 'aa+' },\n"
    "  rewards = { right = function(text) return #text / 4 end },\n"
    "  train = { steps = 2, prompts_per_step = 2, lr = 0.01, kl = 0.02 },\n"
    "  checkpoint = { every = 1 },\n"
    "}\n";

typedef struct Counts {
  atomic_int blocks;
  atomic_llong calls, fail_at;
  bool misaligned;
} Counts;
static Counts counts;

static void *count_alloc(void *user, size_t bytes, size_t alignment) {
  Counts *n = user;
  const long long call = atomic_fetch_add(&n->calls, 1) + 1;
  if (atomic_load(&n->fail_at) && call >= atomic_load(&n->fail_at)) return NULL;
  void *p = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if ((uintptr_t)p % 64) n->misaligned = true;
  if (p) atomic_fetch_add(&n->blocks, 1);
  return p;
}
static void count_free(void *user, void *memory) {
  if (memory) atomic_fetch_sub(&((Counts *)user)->blocks, 1);
  free(memory);
}

static const grpo_allocator counting = {sizeof counting, count_alloc, count_free, &counts};

static grpo_status whole_run(grpo_context *c, const char *directory, grpo_log_fn unused) {
  grpo_run_options o;
  grpo_run *r = NULL;
  (void)unused;
  grpo_run_options_init(&o, sizeof o);
  o.script = script;
  o.directory = directory;
  grpo_status s = grpo_run_new(c, &o, &r);
  if (s == GRPO_OK) s = grpo_run_execute(r);
  grpo_run_free(r);
  return s;
}

TEST(a_hosts_allocator_sees_everything_and_gets_it_back) {
  Host h;
  OK(NULL, grpo_set_allocator(&counting));
  host_open(&h, 2);
  REFUSED(NULL, GRPO_EARG, "before the first", grpo_set_allocator(NULL));
  CHECK(atomic_load(&counts.blocks) > 20 && grpo_memory_live() > 1000);
  host_step(&h, 0);
  const long long warm = atomic_load(&counts.calls);
  host_step(&h, 1);
  CHECK(atomic_load(&counts.calls) - warm <= 8); /* the list of prompts; no tensor */
  OK(h.c, whole_run(h.c, test_path("%s/counted", test_tmp()), NULL));
  host_close(&h);
  CHECK(atomic_load(&counts.blocks) == 0 && grpo_memory_live() == 0 && !counts.misaligned);
  OK(NULL, grpo_set_allocator(NULL));
}

TEST(out_of_memory_is_a_status_and_nothing_is_lost) {
  OK(NULL, grpo_set_allocator(&counting));
  int failures = 0;
  for (long long n = 1; n < 4000; n = n + 1 + n / 8) {
    grpo_context *c = NULL;
    grpo_tokenizer *t = NULL;
    grpo_model *m = NULL;
    grpo_trainer *trainer = NULL;
    grpo_trainer_options o;
    grpo_trainer_options_init(&o, sizeof o);
    o.prompts_per_step = 1, o.group_size = 2, o.max_prompt_tokens = 4, o.max_new_tokens = 4;
    atomic_store(&counts.calls, 0);
    atomic_store(&counts.fail_at, n);
    grpo_status s = grpo_context_new(NULL, &c);
    if (!s) s = grpo_tokenizer_chars(c, "abcd", 4, &t);
    if (!s) s = grpo_model_new(c, tiny_config, t, NULL, &m);
    if (!s) s = grpo_trainer_new(m, NULL, t, &o, &trainer);
    if (!s) s = whole_run(c, NULL, NULL);
    CHECK(s == GRPO_OK || s == GRPO_ENOMEM || s == GRPO_EARG || s == GRPO_ESCRIPT);
    failures += s != GRPO_OK;
    grpo_trainer_free(trainer), grpo_model_free(m), grpo_tokenizer_free(t);
    grpo_context_free(c);
    CHECK(atomic_load(&counts.blocks) == 0);
  }
  atomic_store(&counts.fail_at, 0);
  CHECK(failures > 20);
  OK(NULL, grpo_set_allocator(NULL));
}

/* ---- output, directory, signals --------------------------------------------------- */

static off_t size_of(int fd) { return lseek(fd, 0, SEEK_END); }

TEST(nothing_is_printed_and_directory_signals_and_locale_stay) {
  static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGPIPE, SIGCHLD};
  struct sigaction before[5], after;
  char cwd[2][512];
  Host h;
  CHECK(getcwd(cwd[0], sizeof cwd[0]) != NULL);
  for (int i = 0; i < 5; i++) sigaction(signals[i], NULL, &before[i]);
  fflush(stdout);
  const int out = dup(1), err = dup(2);
  const int to = open(test_path("%s/output", test_tmp()), O_RDWR | O_CREAT | O_TRUNC, 0600);
  dup2(to, 1);
  dup2(to, 2);
  host_open(&h, 1);
  host_step(&h, 0);
  const grpo_status s = whole_run(h.c, test_path("%s/silent", test_tmp()), NULL);
  host_close(&h);
  fflush(NULL);
  dup2(out, 1);
  dup2(err, 2);
  CHECK(s == GRPO_OK && size_of(to) == 0);
  close(out), close(err), close(to);
  CHECK(getcwd(cwd[1], sizeof cwd[1]) != NULL);
  CHECK_STR(cwd[1], cwd[0]);
  for (int i = 0; i < 5; i++) {
    sigaction(signals[i], NULL, &after);
    CHECK(after.sa_handler == before[i].sa_handler);
  }
  CHECK_STR(setlocale(LC_ALL, NULL), "C");
}

/* ---- locale ----------------------------------------------------------------------- */

/* A locale with a decimal comma: an installed one, or one that localedef makes for us. */
static bool use_comma(void) {
  static const char *const names[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE.utf8", "fr_FR.utf8"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (setlocale(LC_ALL, names[i])) return true;
  const char *make = test_path("mkdir -p %s/locales && localedef -i de_DE -f UTF-8 "
                               "%s/locales/de_DE.UTF-8 >%s/localedef.log 2>&1",
                               test_tmp(), test_tmp(), test_tmp());
  if (system(make) != 0) return false;
  setenv("LOCPATH", test_path("%s/locales", test_tmp()), 1);
  return setlocale(LC_ALL, "de_DE.UTF-8") != NULL;
}

static char seen[64];
static void keep_line(void *user, int32_t level, const char *line) {
  (void)level;
  char own[32];
  snprintf(own, sizeof own, "%.1f", 0.5); /* a callback has the host's locale */
  *(bool *)user = strcmp(own, "0,5") == 0;
  if (!*seen) snprintf(seen, sizeof seen, "%s", line);
}

TEST(a_decimal_comma_of_the_hosts_changes_nothing_and_stays) {
  Host h;
  char text[32];
  bool own = false;
  host_open(&h, 1);
  host_step(&h, 0);
  const uint64_t plain = host_hash(h.model);
  host_close(&h);
  if (!use_comma()) {
    test_skip("no locale with a decimal comma, and localedef cannot make one");
    return;
  }
  host_open(&h, 1); /* reads tiny_config's 0.2 */
  host_step(&h, 0);
  CHECK(host_hash(h.model) == plain);
  host_close(&h);
  grpo_context_options o;
  grpo_context *c = NULL;
  OK(NULL, grpo_context_options_init(&o, sizeof o));
  o.log = keep_line;
  o.log_user = &own;
  OK(NULL, grpo_context_new(&o, &c));
  OK(c, whole_run(c, test_path("%s/comma", test_tmp()), NULL));
  CHECK_STR(seen, "half:\t0.5");
  CHECK(own);
  grpo_context_free(c);
  snprintf(text, sizeof text, "%.1f", 0.5);
  CHECK_STR(text, "0,5");
  setlocale(LC_ALL, "C");
}

/* ---- statuses, contexts ----------------------------------------------------------- */

TEST(statuses_have_the_names_of_the_header) {
  static const char *const names[] = {"OK",      "ENOMEM",    "ESHAPE",   "EARG",   "ENOENT",
                                      "EFORMAT", "EIO",       "ELIMIT",   "ESTALE", "EDIVERGED",
                                      "ESCRIPT", "EINTERNAL", "ECANCELED"};
  CHECK(GRPO_EINTERNAL == 11 && GRPO_ECANCELED == 12 && GRPO_ELIMIT == 7 && GRPO_ESCRIPT == 10);
  for (int i = 0; i < 13; i++) CHECK_STR(grpo_status_name(i), names[i]);
  CHECK_STR(grpo_status_text(GRPO_ESHAPE), "shapes do not agree");
  CHECK_STR(grpo_status_name(13), "?");
  CHECK_STR(grpo_status_name(-1), "?");
  CHECK(grpo_abi_version() == GRPO_ABI_VERSION);
  CHECK_STR(grpo_version(),
            test_path("%d.%d.%d", GRPO_VERSION_MAJOR, GRPO_VERSION_MINOR, GRPO_VERSION_PATCH));
  CHECK(GRPO_VERSION_NUMBER ==
        100 * GRPO_VERSION_MINOR + 10000 * GRPO_VERSION_MAJOR + GRPO_VERSION_PATCH);
}

TEST(structs_carry_their_size) {
  grpo_context *c = NULL;
  struct {
    grpo_context_options o;
    int64_t from_the_future;
  } larger;
  grpo_context_options o;
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_context_options_init(NULL, sizeof o));
  REFUSED(NULL, GRPO_EARG, "sizeof", grpo_context_options_init(&o, sizeof o - 1));
  REFUSED(NULL, GRPO_EARG, "sizeof", grpo_context_options_init(&o, (size_t)-1));
  OK(NULL, grpo_context_options_init(&o, sizeof o));
  o.size = 0;
  REFUSED(NULL, GRPO_EARG, "its size is 0", grpo_context_new(&o, &c));
  o.size = 1 << 30;
  REFUSED(NULL, GRPO_EARG, "size", grpo_context_new(&o, &c));
  OK(NULL, grpo_context_options_init((grpo_context_options *)&larger, sizeof larger));
  CHECK(larger.from_the_future == 0);
  OK(NULL, grpo_context_new((grpo_context_options *)&larger, &c));
  grpo_context_free(c);
  larger.from_the_future = 1;
  REFUSED(NULL, GRPO_EARG, "does not know", grpo_context_new((grpo_context_options *)&larger, &c));
  o.size = sizeof o;
  o.threads = -1;
  REFUSED(NULL, GRPO_EARG, "threads", grpo_context_new(&o, &c));
  REFUSED(NULL, GRPO_EARG, "NULL", grpo_context_new(NULL, NULL));
  grpo_context_free(NULL);
}

/* The struct of a program that was compiled before a field was added: the field gets its default,
 * and no byte behind the struct is read or written. */
TEST(structs_of_older_versions_get_the_defaults_of_what_they_lack) {
  enum { V1 = offsetof(grpo_trainer_options, optimizer) };
  static const size_t versions[] = {V1, offsetof(grpo_trainer_options, gradient_blocks),
                                    offsetof(grpo_trainer_options, router_aux_loss_coef),
                                    sizeof(grpo_trainer_options)};
  union {
    grpo_trainer_options o;
    unsigned char bytes[sizeof(grpo_trainer_options) + 16];
  } old;
  uint64_t hash[3];
  for (int i = 0; i < 3; i++) {
    Host h;
    host_open(&h, 1);
    grpo_trainer_free(h.trainer);
    h.trainer = NULL;
    memset(old.bytes, 0xa5, sizeof old.bytes);
    OK(h.c, grpo_trainer_options_init(&old.o, versions[i]));
    CHECK(old.o.size == versions[i] && old.o.examples == 1);
    for (size_t k = versions[i]; k < sizeof old.bytes; k++) CHECK(old.bytes[k] == 0xa5);
    old.o.prompts_per_step = HOST_PROMPTS;
    old.o.group_size = HOST_GROUP;
    old.o.max_prompt_tokens = 8;
    old.o.max_new_tokens = HOST_NEW;
    OK(h.c, grpo_trainer_new(h.model, h.reference, h.tok, &old.o, &h.trainer));
    host_step(&h, 0);
    hash[i] = host_hash(h.model);
    host_close(&h);
  }
  CHECK(hash[0] == hash[2] && hash[1] == hash[2]);
  REFUSED(NULL, GRPO_EARG, "sizeof", grpo_trainer_options_init(&old.o, V1 - 8));
  REFUSED(NULL, GRPO_EARG, "sizeof", grpo_trainer_options_init(&old.o, V1 + 4));
}

TEST(programs_compiled_before_grammars_and_clip_cov_still_run) {
  struct {
    grpo_sampling o;
    unsigned char behind[16];
  } sampling;
  struct {
    grpo_loss_options o;
    unsigned char behind[16];
  } loss;
  const size_t old_sampling = offsetof(grpo_sampling, grammar);
  const size_t old_loss = offsetof(grpo_loss_options, clip_cov_ratio);
  Host h;
  host_open(&h, 1);
  memset(&sampling, 0xa5, sizeof sampling);
  OK(h.c, grpo_sampling_init(&sampling.o, old_sampling));
  sampling.o.max_new_tokens = 4;
  grpo_samples *s = NULL;
  const grpo_prompt prompt = {.ids = (const int32_t[]){1}, .length = 1};
  OK(h.c, grpo_generate(h.model, h.tok, &prompt, 1, &sampling.o, &s));
  grpo_samples_free(s);
  memset(&loss, 0xa5, sizeof loss);
  OK(h.c, grpo_loss_options_init(&loss.o, old_loss));
  const float logp[] = {-1, -2}, advantage[] = {1, 1};
  const grpo_loss_batch batch = {
      .size = sizeof batch, .count = 2, .sequences = 1, .advantage = advantage};
  double value = 0;
  OK(h.c, grpo_policy_loss(h.c, &loss.o, &batch, logp, NULL, &value, NULL, NULL));
  CHECK(((unsigned char *)&sampling)[old_sampling] == 0xa5);
  CHECK(((unsigned char *)&loss)[old_loss] == 0xa5);
  host_close(&h);
}

TEST(the_context_keeps_the_message_of_its_last_failure) {
  grpo_context *a = NULL, *b = NULL;
  grpo_tokenizer *t = NULL;
  OK(NULL, grpo_context_new(NULL, &a));
  OK(NULL, grpo_context_new(NULL, &b));
  CHECK_STR(grpo_message(a), "");
  CHECK(grpo_tokenizer_load(a, "no/such/a", &t) == GRPO_ENOENT);
  CHECK(grpo_tokenizer_load(b, "no/such/b", &t) == GRPO_ENOENT);
  OK(a, grpo_tokenizer_bytes(a, &t));
  CHECK(strstr(grpo_message(a), "no/such/a") && strstr(grpo_message(b), "no/such/b"));
  grpo_context_free(a);
  grpo_tokenizer_free(t); /* kept it alive */
  grpo_context_free(b);
}
