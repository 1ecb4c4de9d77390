/* Messages over TCP: whole, in order, of any size; another stream ends the peer, and so does the
 * other side's end; nothing waits for who does not read. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "os/messages.h"
#include "os/random.h"
#include "testing.h"

typedef struct Pair {
  MessageListener *listener;
  MessagePeer *here, *there;
} Pair;

static Pair pair(void) {
  Pair p = {0};
  CHECK(messages_listen(&p.listener, "127.0.0.1", 0) == GRPO_OK);
  CHECK(messages_connect(&p.here, "127.0.0.1", messages_port(p.listener), 5) == GRPO_OK);
  for (int i = 0; i < 500 && !p.there; i++) {
    messages_wait(p.listener, NULL, 0, 0.01);
    CHECK(messages_accept(p.listener, &p.there) == GRPO_OK);
  }
  CHECK(p.there != NULL);
  return p;
}

static void part(Pair *p) {
  messages_close(p->here);
  messages_close(p->there);
  messages_stop(p->listener);
}

/* The next message of `to`, while `from` may have more to send; kind -1: none came. */
static Message next(MessagePeer *to, MessagePeer *from) {
  Message m, other;
  for (int i = 0; i < 1000 && !messages_failure(to); i++) {
    if (messages_next(to, &m)) return m;
    if (from && !messages_failure(from)) messages_next(from, &other);
    messages_wait(NULL, &to, 1, 0.01);
  }
  return (Message){.kind = -1};
}

TEST(messages_go_both_ways_whole_and_in_order) {
  Pair p = pair();
  CHECK(messages_send(p.here, 7, "first", 5) == GRPO_OK);
  CHECK(messages_send(p.here, 255, "", 0) == GRPO_OK);
  CHECK(messages_send(p.there, 1, "back\0\n", 6) == GRPO_OK);
  Message m = next(p.there, p.here);
  CHECK(m.kind == 7 && m.len == 5 && memcmp(m.data, "first", 5) == 0);
  m = next(p.there, p.here);
  CHECK(m.kind == 255 && m.len == 0);
  m = next(p.here, p.there);
  CHECK(m.kind == 1 && m.len == 6 && memcmp(m.data, "back\0\n", 6) == 0);
  CHECK(strncmp(messages_address(p.here), "127.0.0.1:", 10) == 0);
  CHECK(strncmp(messages_address(p.there), "127.0.0.1:", 10) == 0);
  part(&p);
}

TEST(a_message_of_many_megabytes_comes_piece_by_piece) {
  enum { BIG = 20 << 20 };
  char *big = malloc(BIG);
  Pair p = pair();
  for (int i = 0; i < BIG; i++) big[i] = (char)(i * 31 + (i >> 12));
  messages_limit(p.there, BIG);
  CHECK(messages_send(p.here, 3, big, BIG) == GRPO_OK);
  CHECK(messages_send(p.here, 4, "end", 3) == GRPO_OK);
  CHECK(messages_waiting(p.here) > 0); /* nobody has read, and nothing has blocked */
  Message m = next(p.there, p.here);
  CHECK(m.kind == 3 && m.len == BIG && memcmp(m.data, big, BIG) == 0);
  CHECK(next(p.there, p.here).kind == 4);
  CHECK(messages_waiting(p.here) == 0 && messages_sent(p.here) == messages_came(p.there));
  CHECK(messages_sent(p.here) == BIG + 3 + 2 * MESSAGES_HEADER);
  part(&p);
  free(big);
}

TEST(a_message_that_is_too_long_ends_the_peer) {
  char text[5000] = {0};
  Pair p = pair();
  CHECK(messages_send(p.here, 1, text, 4096) == GRPO_OK);
  CHECK(next(p.there, p.here).len == 4096);
  CHECK(messages_send(p.here, 1, text, 4097) == GRPO_OK);
  CHECK(next(p.there, p.here).kind == -1);
  CHECK(messages_failure(p.there) && strstr(messages_failure(p.there), "4097 bytes"));
  part(&p);
}

/* A socket that sends what it likes. */
static int raw(const Pair *p) {
  const struct sockaddr_in a = {.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)messages_port(p->listener)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(fd >= 0 && connect(fd, (const struct sockaddr *)&a, sizeof a) == 0);
  return fd;
}

static const char *failure_after(const void *bytes, size_t n, bool ends) {
  static char why[128];
  Pair p = {0};
  CHECK(messages_listen(&p.listener, "127.0.0.1", 0) == GRPO_OK);
  const int fd = raw(&p);
  for (int i = 0; i < 500 && !p.there; i++) {
    messages_wait(p.listener, NULL, 0, 0.01);
    CHECK(messages_accept(p.listener, &p.there) == GRPO_OK);
  }
  CHECK(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n);
  if (ends) close(fd);
  CHECK(next(p.there, NULL).kind == -1);
  snprintf(why, sizeof why, "%s", messages_failure(p.there) ? messages_failure(p.there) : "none");
  if (!ends) close(fd);
  part(&p);
  return why;
}

TEST(other_streams_end_the_peer_with_a_reason) {
  uint32_t wrong[] = {2, 1, 0, 0x6261}, kind[] = {0, 256, 0};
  CHECK_STR(failure_after(wrong, 14, false), "a message has the wrong checksum");
  CHECK(strstr(failure_after("GET / HTTP/1.1\r\n", 16, false), "another program"));
  CHECK(strstr(failure_after(kind, sizeof kind, false), "another program"));
  CHECK_STR(failure_after(wrong, 13, true), "the connection has ended"); /* in the middle */
}

TEST(an_end_is_noticed_and_later_messages_go_nowhere) {
  Pair p = pair();
  CHECK(messages_send(p.here, 9, "last", 4) == GRPO_OK);
  messages_close(p.here);
  p.here = NULL;
  CHECK(next(p.there, NULL).kind == 9);
  CHECK(next(p.there, NULL).kind == -1);
  CHECK_STR(messages_failure(p.there), "the connection has ended");
  CHECK(messages_send(p.there, 1, "x", 1) == GRPO_OK && messages_waiting(p.there) == 0);
  part(&p);
}

TEST(where_nobody_listens_is_an_error_of_one_line) {
  MessageListener *l = NULL;
  MessagePeer *p = NULL;
  CHECK(messages_listen(&l, "127.0.0.1", 0) == GRPO_OK);
  const int port = messages_port(l);
  messages_stop(l);
  CHECK(messages_connect(&p, "127.0.0.1", port, 5) == GRPO_EIO && !strchr(err_message(), '\n'));
  CHECK(messages_listen(&l, "192.0.2.1", 0) == GRPO_EIO && !strchr(err_message(), '\n'));
}

TEST(nothing_leaks) {
  const size_t before = mem_live_bytes();
  Pair p = pair();
  CHECK(messages_send(p.here, 1, "abc", 3) == GRPO_OK);
  CHECK(next(p.there, p.here).kind == 1);
  part(&p);
  CHECK(mem_live_bytes() == before);
}

TEST(random_bytes_differ) {
  char a[32] = {0}, b[32] = {0};
  CHECK(random_bytes(a, sizeof a) == GRPO_OK && random_bytes(b, sizeof b) == GRPO_OK);
  CHECK(memcmp(a, b, sizeof a) != 0);
}
