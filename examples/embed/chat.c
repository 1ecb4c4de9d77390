/* A conversation with a model: its own chat template, the answer as it comes, Ctrl-C ends it.
 *   cc chat.c $(pkg-config --cflags --libs grpo) -o chat && ./chat MODEL "a question" [template] */
#include <grpo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static grpo_context *context;
static void check(grpo_status s) {
  if (s != GRPO_OK) fprintf(stderr, "chat: %s\n", grpo_message(context)), exit(1);
}

static void on_interrupt(int number) {
  (void)number;
  grpo_cancel(context); /* the call in progress ends with GRPO_ECANCELED */
}

/* Shows what the newest token has completed.  The text so far never ends within a character. */
static grpo_status show(void *user, const grpo_sample *s) {
  size_t *shown = user;
  if (s->text_length > *shown) fputs(s->text + *shown, stdout), fflush(stdout);
  *shown = s->text_length;
  return GRPO_OK;
}

/* The question as JSON: a message of the user. */
static char *message_of(const char *text) {
  char *json = malloc(64 + 2 * strlen(text)), *at = json;
  if (!json) return NULL;
  at += sprintf(at, "[{\"role\": \"user\", \"content\": \"");
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') *at++ = '\\';
    *at++ = (unsigned char)*text < ' ' ? ' ' : *text;
  }
  memcpy(at, "\"}]", 4);
  return json;
}

int main(int argc, char **argv) {
  enum { MOST = 1 << 16 };
  static char text[MOST], options[MOST];
  static int32_t ids[MOST];
  grpo_tokenizer *tokenizer;
  grpo_model *model;
  grpo_samples *samples;
  grpo_sampling o;
  size_t length, count, shown = 0;
  if (argc < 3) return fputs("chat MODEL QUESTION [TEMPLATE]\n", stderr), 2;
  check(grpo_context_new(NULL, &context));
  check(grpo_tokenizer_load(context, argv[1], &tokenizer));
  check(grpo_model_load(context, argv[1], NULL, &model));
  snprintf(options, MOST,
           argc > 3 ? "{\"generation_prompt\": true, \"chat_template\": \"%s\"}"
                    : "{\"generation_prompt\": true}",
           argc > 3 ? argv[3] : "");
  char *messages = message_of(argv[2]);
  check(grpo_tokenizer_chat(tokenizer, messages, options, text, MOST, &length));
  check(grpo_tokenizer_encode(tokenizer, text, length, 0, ids, MOST, &count));
  check(grpo_sampling_init(&o, sizeof o));
  o.on_token = show, o.on_token_user = &shown;
  signal(SIGINT, on_interrupt);
  const grpo_status s =
      grpo_generate(model, tokenizer, &(grpo_prompt){ids, count, 0, 0}, 1, &o, &samples);
  puts(s == GRPO_ECANCELED ? " ..." : "");
  if (s != GRPO_ECANCELED) check(s), grpo_samples_free(samples);
  free(messages), grpo_model_free(model), grpo_tokenizer_free(tokenizer),
      grpo_context_free(context);
}
