/* link.c - a cable between network namespaces, for tools/check-hosts: a switch of tap devices that
 * delays frames and loses some, and that can be cut.  Kernels without netem have it too.
 *
 *   link DELAY_MS LOSS_PERCENT CUT_FILE COUNT_FILE NAMESPACE...
 *
 * In each namespace of /run/netns a device `grpo0` appears; the caller gives it its address.  Every
 * frame goes to all other namespaces, or to the one whose address it has.  While CUT_FILE is there,
 * the last namespace gets and gives nothing.  COUNT_FILE is rewritten with the bytes that each
 * namespace has sent so far.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 8, FRAME = 2048, WAITING = 16384, ADDRESS = 6 };

typedef struct Frame {
  double due;
  int to, n;
  unsigned char data[FRAME];
} Frame;

static Frame waiting[WAITING]; /* a ring; all have one delay, so the first is the first due */
static int first, nwaiting;
static int tap[MOST], ntaps;
static unsigned char address[MOST][ADDRESS];
static uint64_t sent[MOST], frames[MOST], lost, seed = 88172645463325252u;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double chance(void) {
  seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
  return (double)(seed >> 11) / 9007199254740992.0;
}

static int make_tap(const char *name) {
  char path[256];
  struct ifreq r = {.ifr_name = "grpo0", .ifr_flags = IFF_TAP | IFF_NO_PI};
  snprintf(path, sizeof path, "/run/netns/%s", name);
  const int home = open("/proc/self/ns/net", O_RDONLY), there = open(path, O_RDONLY);
  if (there < 0 || setns(there, CLONE_NEWNET)) return -1;
  const int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  if (fd < 0 || ioctl(fd, TUNSETIFF, &r) || setns(home, CLONE_NEWNET)) return -1;
  close(home);
  close(there);
  return fd;
}

static void queue(int to, const unsigned char *data, int n, double due) {
  if (nwaiting == WAITING) return; /* a full queue loses, too */
  Frame *f = &waiting[(first + nwaiting++) % WAITING];
  f->due = due;
  f->to = to;
  f->n = n;
  memcpy(f->data, data, (size_t)n);
}

static void take(int from, double delay, double loss, int cut) {
  unsigned char data[FRAME];
  for (;;) {
    const int n = (int)read(tap[from], data, sizeof data);
    if (n < 2 * ADDRESS) return;
    sent[from] += (uint64_t)n;
    frames[from]++;
    memcpy(address[from], data + ADDRESS, ADDRESS);
    if (cut && from == ntaps - 1) continue;
    if (chance() < loss) {
      lost++;
      continue;
    }
    int only = -1;
    for (int i = 0; i < ntaps; i++)
      if (!memcmp(address[i], data, ADDRESS)) only = i;
    for (int i = 0; i < ntaps; i++)
      if (i != from && (only < 0 || only == i) && !(cut && i == ntaps - 1))
        queue(i, data, n, now() + delay);
  }
}

static void give(int cut) {
  for (; nwaiting && waiting[first].due <= now(); nwaiting--) {
    const Frame *f = &waiting[first];
    if (!(cut && f->to == ntaps - 1)) (void)!write(tap[f->to], f->data, (size_t)f->n);
    first = (first + 1) % WAITING;
  }
}

static void write_counts(const char *path) {
  char other[512];
  snprintf(other, sizeof other, "%s.new", path);
  FILE *f = fopen(other, "w");
  if (!f) return;
  for (int i = 0; i < ntaps; i++)
    fprintf(f, "%llu %llu\n", (unsigned long long)sent[i], (unsigned long long)frames[i]);
  fprintf(f, "lost %llu\n", (unsigned long long)lost);
  fclose(f);
  rename(other, path);
}

int main(int argc, char **argv) {
  if (argc < 6 || argc - 5 > MOST) return 2;
  const double delay = atof(argv[1]) / 1000, loss = atof(argv[2]) / 100;
  double counted = 0;
  for (int i = 5; i < argc; i++) {
    tap[ntaps] = make_tap(argv[i]);
    if (tap[ntaps++] < 0) {
      fprintf(stderr, "link: no tap device in %s: %s\n", argv[i], strerror(errno));
      return 1;
    }
  }
  puts("ready");
  fflush(stdout);
  for (;;) {
    struct pollfd p[MOST];
    for (int i = 0; i < ntaps; i++) p[i] = (struct pollfd){.fd = tap[i], .events = POLLIN};
    const double left = nwaiting ? waiting[first].due - now() : 0.1;
    const struct timespec wait = {.tv_nsec = left > 0 ? (long)(left * 1e9) : 0};
    ppoll(p, (nfds_t)ntaps, &wait, NULL);
    const int cut = access(argv[3], F_OK) == 0;
    for (int i = 0; i < ntaps; i++)
      if (p[i].revents) take(i, delay, loss, cut);
    give(cut);
    if (now() - counted > 0.2) write_counts(argv[4]), counted = now();
  }
}
