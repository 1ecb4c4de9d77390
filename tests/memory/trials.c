/* trials.c - see trials.h. */
#define _GNU_SOURCE
#include "trials.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATH = 1024, STATES = 1 << 16, DESCRIPTORS = 64, SECONDS = 60 };

static int results = -1;
static pid_t process; /* whose allocations are tried */
static bool is_child;
static const char *expected, *states_dir;
static long stride = 1, first = 1;
static char home[PATH];
static struct {
  const char *name;
  int letter;
  bool on;
  long tried;
} hows[] = {{"once", 'o', false, 0}, {"from", 'f', false, 0}};
static uint64_t states[STATES]; /* what children left behind; 0: empty */

static long number_in(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

void trials_begin(void) {
  const char *file = getenv("MEMORY_TRIALS"), *how = getenv("MEMORY_HOW");
  if (!file) return;
  for (int i = 0; i < 2; i++) hows[i].on = how && strstr(how, hows[i].name);
  stride = number_in("MEMORY_STRIDE", 1);
  first = number_in("MEMORY_FIRST", 1);
  expected = getenv("MEMORY_EXPECTED");
  states_dir = getenv("MEMORY_STATES");
  process = (pid_t)syscall(SYS_getpid);
  if (!getcwd(home, sizeof home)) abort();
  results = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
  if (results < 0) abort();
}

/* ---- one clock, one process id and one peak of memory for all ------------------------------- */

static struct timespec tick(void) {
  static long ticks;
  ticks++;
  return (struct timespec){.tv_sec = 1700000000 + ticks / 1000000,
                           .tv_nsec = ticks % 1000000 * 1000};
}

int clock_gettime(clockid_t clock, struct timespec *t) {
  if (results < 0) return (int)syscall(SYS_clock_gettime, clock, t);
  *t = tick();
  return 0;
}

time_t time(time_t *t) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (t) *t = now.tv_sec;
  return now.tv_sec;
}

int getrusage(__rusage_who_t who, struct rusage *usage) {
  if (results < 0) return (int)syscall(SYS_getrusage, who, usage);
  *usage = (struct rusage){.ru_maxrss = 1};
  return 0;
}

pid_t getpid(void) { return process ? process : (pid_t)syscall(SYS_getpid); }

/* ---- trees of files -------------------------------------------------------------------------- */

/* Calls f(DIR/NAME, under/NAME) for each name in DIR. */
static void each(const char *dir, const char *under, void (*f)(const char *, const char *)) {
  DIR *d = opendir(dir);
  char a[PATH], b[PATH];
  if (!d) return;
  for (struct dirent *e; (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (snprintf(a, sizeof a, "%s/%s", dir, e->d_name) >= PATH) abort();
    if (snprintf(b, sizeof b, "%s/%s", under, e->d_name) >= PATH) abort();
    f(a, b);
  }
  closedir(d);
}

static void remove_tree(const char *path, const char *unused) {
  if (unlink(path) == 0 || errno == ENOENT) return;
  each(path, unused, remove_tree);
  if (rmdir(path) != 0) abort();
}

static void copy_file(const char *from, const char *to) {
  char block[1 << 14];
  const int in = open(from, O_RDONLY | O_CLOEXEC);
  const int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (in < 0 || out < 0) abort();
  for (ssize_t n; (n = read(in, block, sizeof block)) != 0;)
    if (n < 0 || write(out, block, (size_t)n) != n) abort();
  close(in);
  close(out);
}

static void copy_tree(const char *from, const char *to) {
  struct stat s;
  char target[PATH];
  if (lstat(from, &s) != 0) return;
  switch (s.st_mode & S_IFMT) {
  case S_IFDIR:
    if (mkdir(to, 0777) != 0) abort();
    each(from, to, copy_tree);
    break;
  case S_IFLNK: {
    const ssize_t n = readlink(from, target, sizeof target - 1);
    if (n < 0) abort();
    target[n] = '\0';
    if (symlink(target, to) != 0) abort();
    break;
  }
  case S_IFREG:
    copy_file(from, to);
    break;
  default: /* a socket */
    if (mknod(to, s.st_mode, 0) != 0) abort();
  }
}

/* Adds up a hash (FNV-1a) of each entry: its path, its type and its contents or target. */
static uint64_t sum_of_tree;

static uint64_t mix(uint64_t hash, const char *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) hash = (hash ^ (unsigned char)bytes[i]) * 1099511628211u;
  return hash;
}

static void add_tree(const char *path, const char *name) {
  struct stat s;
  char block[1 << 14];
  ssize_t n;
  uint64_t hash = mix(14695981039346656037u, name, strlen(name));
  if (lstat(path, &s) != 0) return;
  hash = mix(hash, (const char *)&s.st_mode, sizeof s.st_mode);
  if (S_ISDIR(s.st_mode)) each(path, name, add_tree);
  if (S_ISLNK(s.st_mode) && (n = readlink(path, block, sizeof block)) > 0)
    hash = mix(hash, block, (size_t)n);
  if (S_ISREG(s.st_mode)) {
    const int in = open(path, O_RDONLY | O_CLOEXEC);
    while ((n = read(in, block, sizeof block)) > 0) hash = mix(hash, block, (size_t)n);
    close(in);
  }
  sum_of_tree += hash;
}

/* ---- a child --------------------------------------------------------------------------------- */

static const char *const trees[] = {"runs", "saved", "out", "err", "lines.lua"};
enum { TREES = sizeof trees / sizeof *trees };

static void make_files(void) {
  char to[PATH];
  for (int i = 0; i < TREES; i++) {
    snprintf(to, sizeof to, "trial/%s", trees[i]);
    remove_tree(to, "");
    copy_tree(trees[i], to);
  }
}

/* Opens what descriptor `fd` has open again, in the directory of the trial if it is a file of this
 * one, so that neither its contents nor its offset are shared. */
static void open_again(int fd) {
  char link[64], path[PATH], other[2 * PATH];
  struct stat s;
  if (fstat(fd, &s) != 0 || !(S_ISREG(s.st_mode) || S_ISDIR(s.st_mode))) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  if (n < 0) abort();
  path[n] = '\0';
  const size_t length = strlen(home);
  const bool ours = strncmp(path, home, length) == 0 && path[length] == '/';
  if (ours)
    snprintf(other, sizeof other, "%s/trial%s", home, path + length);
  else
    snprintf(other, sizeof other, "%s", link);
  const int flags = fcntl(fd, F_GETFL), cloexec = fcntl(fd, F_GETFD) & FD_CLOEXEC;
  const int again = open(other, flags & ~(O_CREAT | O_EXCL | O_TRUNC));
  if (again < 0) return; /* a file that has been removed */
  lseek(again, lseek(fd, 0, SEEK_CUR), SEEK_SET);
  dup3(again, fd, cloexec ? O_CLOEXEC : 0);
  close(again);
}

static void become_trial(void) {
  is_child = true;
  for (int fd = 0; fd < DESCRIPTORS; fd++)
    if (fd != results) open_again(fd);
  if (chdir("trial") != 0) abort();
  alarm(SECONDS);
}

/* ---- how it ended ---------------------------------------------------------------------------- */

static bool same_file(const char *a, const char *b) {
  char x[4096], y[4096];
  FILE *f = fopen(a, "r"), *g = fopen(b, "r");
  bool same = f && g;
  for (size_t n = 1; same && n > 0;) {
    n = fread(x, 1, sizeof x, f);
    same = fread(y, 1, sizeof y, g) == n && memcmp(x, y, n) == 0;
  }
  if (f) fclose(f);
  if (g) fclose(g);
  return same;
}

static void say_problem(const char *how, long n, const char *what, const char *text) {
  dprintf(results, "problem %s %ld %s: %.*s\n", how, n, what, (int)strcspn(text, "\n"), text);
}

static void judge(const char *how, long n, int status) {
  char text[2048] = "", what[64];
  const int in = open("trial/err", O_RDONLY | O_CLOEXEC);
  const ssize_t got = in < 0 ? 0 : read(in, text, sizeof text - 1);
  if (in >= 0) close(in);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    if (!same_file("trial/out", expected))
      say_problem(how, n, "another output, with status 0", text);
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == 5) {
    const char *end = strchr(text, '\n');
    if (strncmp(text, "grpo: ", 6) != 0 || end != text + got - 1)
      say_problem(how, n, "not one line", text);
  } else {
    const bool killed = WIFSIGNALED(status);
    snprintf(what, sizeof what, "%s %d", killed ? "signal" : "status",
             killed ? WTERMSIG(status) : WEXITSTATUS(status));
    say_problem(how, n, what, text);
  }
}

/* Keeps the tree that the child has left, unless another has left the same. */
static void keep_state(const char *how, long n, int status) {
  char to[PATH];
  sum_of_tree = 1 + (uint64_t)status;
  add_tree("trial/runs", "runs");
  uint64_t at = sum_of_tree % STATES;
  for (int i = 0; states[at] && states[at] != sum_of_tree; at = (at + 1) % STATES)
    if (++i == STATES) abort();
  if (states[at]) return;
  states[at] = sum_of_tree;
  snprintf(to, sizeof to, "%s/%s-%ld", states_dir, how, n);
  if (rename("trial/runs", to) != 0 && mkdir(to, 0777) != 0) abort();
  dprintf(results, "state %s %ld %d\n", how, n, WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool is_alone(void) {
  struct stat s;
  siginfo_t info;
  const bool threads = stat("/proc/self/task", &s) != 0 || s.st_nlink != 3;
  return !threads && waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0;
}

int trials_at(long n) {
  if (results < 0 || is_child || n < first || (n - first) % stride != 0) return 0;
  const int error = errno;
  for (int i = 0; i < 2; i++) {
    if (!hows[i].on) continue;
    if (!is_alone()) {
      dprintf(results, "alone %s %ld\n", hows[i].name, n);
      continue;
    }
    make_files();
    int status;
    const pid_t child = fork();
    if (child < 0) abort();
    if (child == 0) {
      become_trial();
      return hows[i].letter;
    }
    if (waitpid(child, &status, 0) != child) abort();
    hows[i].tried++;
    judge(hows[i].name, n, status);
    if (states_dir) keep_state(hows[i].name, n, status);
  }
  errno = error;
  return 0;
}

void trials_end(void) {
  if (results < 0 || is_child) return;
  for (int i = 0; i < 2; i++)
    if (hows[i].on) dprintf(results, "tried %s %ld\n", hows[i].name, hows[i].tried);
}
