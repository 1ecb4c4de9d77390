/* fuzz_channel.c - any bytes in any pieces through the sockets of os/channel.h: each side gets the
 * lines that the other one sent, and no other ones, and a peer that sends too much is dropped.
 *
 * The input is the client's bytes, a NUL and the server's bytes.  Each byte 0x1f ends a piece and
 * is left out; after a piece the other side takes all that has arrived. */
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "files.h"
#include "os/channel.h"

enum { PIECE_END = 0x1f };

static struct sockaddr_un address_of(const char *path) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  FUZZ_CHECK(strlen(path) < sizeof a.sun_path);
  memcpy(a.sun_path, path, strlen(path) + 1);
  return a;
}

static int connect_raw(const char *path) {
  const struct sockaddr_un a = address_of(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  FUZZ_CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0);
  return fd;
}

static int listen_raw(const char *path) {
  const struct sockaddr_un a = address_of(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  unlink(path);
  FUZZ_CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0);
  return fd;
}

/* Sends the bytes up to the next end of a piece; *data moves behind it. */
static void send_piece(int fd, const uint8_t **data, size_t *size, Buf *sent) {
  const uint8_t *end = memchr(*data, PIECE_END, *size);
  const size_t n = end ? (size_t)(end - *data) : *size;
  if (n) FUZZ_CHECK(send(fd, *data, n, MSG_NOSIGNAL) == (ssize_t)n);
  buf_put(sent, *data, n);
  *data += end ? n + 1 : n;
  *size -= end ? n + 1 : n;
}

static void put_line(Buf *b, const char *line, size_t n) {
  FUZZ_CHECK(!n || !memchr(line, '\n', n));
  buf_put(b, line, n);
  buf_putc(b, '\n');
}

/* The lines that came are the whole lines of what was sent. */
static void check_lines(const Buf *got, const Buf *sent) {
  size_t whole = sent->len;
  while (whole && sent->data[whole - 1] != '\n') whole--;
  FUZZ_CHECK(got->len == whole && (!whole || memcmp(got->data, sent->data, whole) == 0));
}

static void take_events(ChannelServer *s, Buf *got, int *opened, int *gone) {
  ChannelEvent e;
  while (channel_next(s, &e)) {
    if (e.kind == CHANNEL_OPENED) ++*opened;
    if (e.kind == CHANNEL_GONE) ++*gone;
    if (e.kind != CHANNEL_TEXT) continue;
    put_line(got, e.line, e.len);
    channel_send(s, e.client, e.line, e.len);
  }
}

static void check_server(const uint8_t *data, size_t size) {
  char path[FUZZ_PATH];
  ChannelServer *s = NULL;
  Buf sent = {0}, got = {0};
  int opened = 0, gone = 0;
  snprintf(path, sizeof path, "%s", fuzz_path("server"));
  FUZZ_CHECK(channel_listen(&s, path) == GRPO_OK);
  const int fd = connect_raw(path), silent = connect_raw(path);
  while (size) {
    send_piece(fd, &data, &size, &sent);
    take_events(s, &got, &opened, &gone);
  }
  take_events(s, &got, &opened, &gone);
  check_lines(&got, &sent);
  close(fd);
  take_events(s, &got, &opened, &gone);
  FUZZ_CHECK(opened == 2 && gone == 1);
  channel_close(s);
  close(silent);
  buf_free(&sent);
  buf_free(&got);
}

static void take_lines(ChannelClient *c, Buf *got) {
  const char *line;
  size_t n;
  while (channel_read(c, 0, &line, &n) == GRPO_OK && line) put_line(got, line, n);
}

static void check_client(const uint8_t *data, size_t size) {
  char path[FUZZ_PATH];
  ChannelClient *c = NULL;
  Buf sent = {0}, got = {0};
  snprintf(path, sizeof path, "%s", fuzz_path("client"));
  const int at = listen_raw(path);
  FUZZ_CHECK(channel_connect(&c, path) == GRPO_OK);
  const int fd = accept(at, NULL, NULL);
  FUZZ_CHECK(fd >= 0);
  while (size) {
    send_piece(fd, &data, &size, &sent);
    take_lines(c, &got);
  }
  take_lines(c, &got);
  check_lines(&got, &sent);
  close(fd);
  const char *line;
  size_t n;
  FUZZ_CHECK(channel_read(c, 0, &line, &n) == GRPO_EIO && !strchr(err_message(), '\n'));
  channel_disconnect(c);
  close(at);
  buf_free(&sent);
  buf_free(&got);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const uint8_t *request;
  const size_t n = fuzz_part(&data, &size, &request);
  if (n > 1 << 15 || size > 1 << 15) return 0; /* more does not fit a socket at once */
  check_server(request, n);
  check_client(data, size);
  return 0;
}
