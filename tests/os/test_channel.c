/* Lines over a socket: framing, many clients, clients that vanish, flood or say nothing. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/channel.h"
#include "testing.h"

/* The next event, waiting for it; fails the test when there is none. */
static ChannelEvent next(ChannelServer *s) {
  ChannelEvent e = {.client = -1};
  for (int i = 0; i < 200 && !channel_next(s, &e); i++) channel_wait(s, 0.01);
  return e;
}

static ChannelServer *server(const char *path) {
  ChannelServer *s = NULL;
  CHECK(channel_listen(&s, path) == GRPO_OK);
  return s;
}

static ChannelClient *client(const char *path) {
  ChannelClient *c = NULL;
  CHECK(channel_connect(&c, path) == GRPO_OK);
  return c;
}

TEST(lines_go_both_ways) {
  char path[512];
  snprintf(path, sizeof path, "%s/a.sock", test_tmp());
  ChannelServer *s = server(path);
  ChannelClient *c = client(path);
  const char *line;
  size_t n;
  CHECK(next(s).kind == CHANNEL_OPENED);
  CHECK(channel_write(c, "first\nsecond", 12) == GRPO_OK);
  ChannelEvent e = next(s);
  CHECK(e.kind == CHANNEL_TEXT && e.len == 5 && !memcmp(e.line, "first", 5));
  e = next(s);
  CHECK(e.kind == CHANNEL_TEXT && e.len == 6 && !memcmp(e.line, "second", 6));
  CHECK(!channel_next(s, &e));
  CHECK(channel_read(c, 0.01, &line, &n) == GRPO_OK && !line); /* nothing yet */
  channel_send(s, 0, "answer", 6);
  CHECK(channel_read(c, 2, &line, &n) == GRPO_OK && line && n == 6 && !memcmp(line, "answer", 6));
  channel_disconnect(c);
  CHECK(next(s).kind == CHANNEL_GONE);
  channel_close(s);
  CHECK(access(path, F_OK) != 0); /* the file is gone with the server */
}

TEST(only_this_user_may_open_the_file) {
  char path[512];
  struct stat st;
  snprintf(path, sizeof path, "%s/mode.sock", test_tmp());
  ChannelServer *s = server(path);
  CHECK(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
  channel_close(s);
}

TEST(a_stale_file_is_replaced_and_a_dead_server_is_named) {
  char path[512];
  ChannelClient *c = NULL;
  snprintf(path, sizeof path, "%s/stale.sock", test_tmp());
  FILE *f = fopen(path, "w");
  fclose(f);
  CHECK(channel_connect(&c, path) == GRPO_ENOENT);
  ChannelServer *s = server(path);
  channel_disconnect(client(path));
  channel_close(s);
  CHECK(channel_connect(&c, path) == GRPO_ENOENT);
}

TEST(a_client_without_end_of_line_is_dropped) {
  char path[512];
  snprintf(path, sizeof path, "%s/flood.sock", test_tmp());
  ChannelServer *s = server(path);
  ChannelClient *c = client(path);
  CHECK(next(s).kind == CHANNEL_OPENED);
  ChannelEvent e = {.kind = CHANNEL_OPENED};
  bool gone = false;
  /* the end of line that channel_write adds comes after far more than a line may have */
  char *big = mem_alloc(2 * CHANNEL_LINE);
  memset(big, 'x', 2 * CHANNEL_LINE);
  const pid_t writer = fork();
  if (writer == 0) {
    channel_close(s); /* its copy, or the parent's would not be the last one */
    channel_write(c, big, 2 * CHANNEL_LINE);
    _exit(0);
  }
  for (int i = 0; i < 500 && !gone; i++) {
    if (channel_next(s, &e))
      gone = e.kind == CHANNEL_GONE;
    else
      channel_wait(s, 0.01);
  }
  CHECK(gone);
  kill(writer, SIGKILL);
  waitpid(writer, NULL, 0);
  mem_free(big);
  channel_disconnect(c);
  channel_close(s);
}

TEST(an_answer_may_be_longer_than_a_request) {
  char path[512];
  snprintf(path, sizeof path, "%s/long.sock", test_tmp());
  ChannelServer *s = server(path);
  ChannelClient *c = client(path);
  const char *line = NULL;
  size_t n = 0;
  enum { LONG = 3 * CHANNEL_LINE };
  char *text = mem_alloc(LONG);
  memset(text, 'z', LONG);
  CHECK(next(s).kind == CHANNEL_OPENED);
  channel_send(s, 0, text, LONG);
  channel_send(s, 0, "end", 3);
  for (int i = 0; i < 1000 && !line; i++) {
    ChannelEvent e;
    CHECK(!channel_next(s, &e)); /* which sends what the client has made room for */
    CHECK(channel_read(c, 0, &line, &n) == GRPO_OK);
  }
  CHECK(line && n == LONG && !memcmp(line, text, LONG));
  CHECK(channel_read(c, 2, &line, &n) == GRPO_OK && line && n == 3 && !memcmp(line, "end", 3));
  mem_free(text);
  channel_disconnect(c);
  channel_close(s);
}

TEST(clients_take_turns) {
  char path[512];
  snprintf(path, sizeof path, "%s/turns.sock", test_tmp());
  ChannelServer *s = server(path);
  ChannelClient *loud = client(path), *quiet = client(path);
  CHECK(next(s).kind == CHANNEL_OPENED);
  CHECK(next(s).kind == CHANNEL_OPENED);
  char many[500 * 4];
  for (int i = 0; i < 500; i++) memcpy(many + 4 * i, "now\n", 4);
  CHECK(channel_write(loud, many, sizeof many - 1) == GRPO_OK);
  CHECK(channel_write(quiet, "please", 6) == GRPO_OK);
  bool heard = false;
  for (int i = 0; i < 3 && !heard; i++) heard = next(s).len == 6;
  CHECK(heard);
  int others = 0;
  for (ChannelEvent e; channel_next(s, &e);) others += e.len == 3;
  CHECK(others >= 497);
  channel_disconnect(loud);
  channel_disconnect(quiet);
  channel_close(s);
}

TEST(a_client_that_reads_nothing_does_not_block) {
  char path[512];
  snprintf(path, sizeof path, "%s/slow.sock", test_tmp());
  ChannelServer *s = server(path);
  ChannelClient *c = client(path);
  CHECK(next(s).kind == CHANNEL_OPENED);
  static char text[1 << 16];
  memset(text, 'y', sizeof text);
  for (int i = 0; i < 2 * CHANNEL_BACKLOG / (int)sizeof text; i++)
    channel_send(s, 0, text, sizeof text);
  CHECK(next(s).kind == CHANNEL_GONE);
  channel_disconnect(c);
  channel_close(s);
}

TEST(more_clients_than_places_and_long_paths) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%0150d", test_tmp(), 7);
  CHECK(mkdir(path, 0700) == 0);
  strcat(path, "/control.sock");
  ChannelServer *s = server(path);
  ChannelClient *c[CHANNEL_CLIENTS + 1];
  const char *line;
  size_t n;
  for (int i = 0; i <= CHANNEL_CLIENTS; i++) c[i] = client(path);
  for (int i = 0; i < CHANNEL_CLIENTS; i++) CHECK(next(s).kind == CHANNEL_OPENED);
  CHECK(channel_read(c[CHANNEL_CLIENTS], 2, &line, &n) == GRPO_EIO); /* turned away */
  for (int i = 0; i <= CHANNEL_CLIENTS; i++) channel_disconnect(c[i]);
  for (int i = 0; i < CHANNEL_CLIENTS; i++) CHECK(next(s).kind == CHANNEL_GONE);
  channel_close(s);
}
