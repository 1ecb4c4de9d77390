/* Commands in a jail: what they answer, what they cannot reach, and that nothing of them is left.
 *
 * The attacks are this program itself, which the jail may read: with ATTACK in its environment it
 * attacks and tells on its standard output what succeeded. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jail/jail.h"
#include "testing.h"

#ifdef __linux__
#include "burning.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* such a program maps terabytes */
#else
#define SANITIZED 0
#endif

extern char **environ;

/* ---- the attacks: in the jail ----------------------------------------------------- */

enum { PORT_BYTES = 16 };

static void attack_network(void) {
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(getenv("PORT")))};
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof a) == 0) puts("connected");
  if (socket(40 /* AF_VSOCK */, SOCK_STREAM, 0) >= 0) puts("a socket to the hypervisor");
}

static void attack_files(void) {
  const char *const secret[] = {"/etc/passwd", "/etc/shadow", "/etc/hostname", "/root",
                                "/home",       "/var",        "/sys",          getenv("SECRET")};
  for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
    if (access(secret[i], F_OK) == 0) printf("sees %s\n", secret[i]);
  const char *const places[] = {"/usr/jail-was-here", "/bin/jail-was-here", "/lib/jail-was-here",
                                "/dev/../usr/bin/jail-was-here"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (open(places[i], O_WRONLY | O_CREAT, 0644) >= 0) printf("writes %s\n", places[i]);
  if (chmod("/usr/bin/env", 0777) == 0) puts("changes a mode");
}

static void attack_forks(void) {
  int n = 0;
  for (pid_t pid; n < 1000 && (pid = fork()) >= 0; n++)
    if (pid == 0)
      for (;;) pause();
  printf("%d\n", n);
}

static void attack_memory(void) {
  size_t mib = 0;
  for (char *p; mib < 4096 && (p = malloc(1 << 20)); mib++) memset(p, 1, 1 << 20);
  printf("%zu\n", mib);
}

static void attack_flood(void) {
  static char piece[65536];
  while (write(1, piece, sizeof piece) > 0) continue;
}

static void attack_loop(void) {
  for (volatile unsigned i = 0;; i++) continue;
}

static void attack_wait(void) {
  for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
  for (;;) pause();
}

static void attack_daemon(void) {
  if (fork() == 0) {
    setsid();
    if (fork() == 0) execlp("sleep", "sleep", "987654", (char *)NULL);
    _exit(0);
  }
  wait(NULL);
  puts("left");
}

static void attack_disk(void) {
  static char piece[65536];
  size_t all = 0;
  signal(SIGXFSZ, SIG_IGN);
  for (int i = 0; i < 100; i++) {
    char name[32];
    snprintf(name, sizeof name, "/tmp/%d", i);
    const int fd = open(name, O_WRONLY | O_CREAT, 0600);
    for (ssize_t n; fd >= 0 && (n = write(fd, piece, sizeof piece)) > 0;) all += (size_t)n;
  }
  int files = 0;
  for (char name[32]; files < 100000; files++) {
    snprintf(name, sizeof name, "/dev/shm/%d", files);
    if (mknod(name, S_IFREG | 0600, 0)) break;
  }
  printf("%zu %d\n", all, files);
}

/* Process 1 of the jail is in the list, but cannot be looked at. */
static void attack_processes(void) {
  DIR *d = opendir("/proc");
  for (const struct dirent *e; d && (e = readdir(d));)
    if (atoi(e->d_name) > 1 && atoi(e->d_name) != getpid()) printf("sees process %s\n", e->d_name);
  const char *const files[] = {"/proc/1/cmdline", "/proc/1/environ", "/proc/1/mem",
                               "/proc/1/maps",    "/proc/1/fd",      "/proc/1/task/1/mem"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (open(files[i], O_RDONLY) >= 0) printf("opens %s\n", files[i]);
  if (ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0) puts("traces process 1");
  kill(1, SIGKILL);
  kill(-1, SIGKILL);
}

static void attack_descriptors(void) {
  for (int fd = 3; fd < 1024; fd++)
    if (fcntl(fd, F_GETFD) >= 0) printf("has descriptor %d\n", fd);
  for (char **e = environ; *e; e++)
    if (strncmp(*e, "ATTACK=", 7) != 0 && strcmp(*e, "PWD=/jail") != 0) printf("has %s\n", *e);
}

static void attack_kernel(void) {
  if (unshare(CLONE_NEWUSER) == 0) puts("unshare");
  if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) >= 0) puts("clone");
  if (mount("none", "/tmp", "tmpfs", 0, NULL) == 0) puts("mount");
  if (setuid(0) == 0) puts("setuid");
  if (syscall(SYS_memfd_create, "x", 0) >= 0) puts("memfd_create");
  if (syscall(SYS_shmget, 0, 4096, 01600) >= 0) puts("shmget");
  if (syscall(425 /* io_uring_setup */, 1, NULL) >= 0 || errno != EPERM) puts("io_uring_setup");
  if (prctl(PR_CAPBSET_READ, 0) == 1) puts("capabilities");
  if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) puts("new privileges");
  struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_CPU, &r) == 0) puts("setrlimit");
}

static const struct {
  const char *name;
  void (*attack)(void);
} attacks[] = {{"network", attack_network},
               {"files", attack_files},
               {"forks", attack_forks},
               {"memory", attack_memory},
               {"flood", attack_flood},
               {"loop", attack_loop},
               {"relay", attack_relay},
               {"deaf", attack_deaf},
               {"nowait", attack_nowait},
               {"orphans", attack_orphans},
               {"threads", attack_threads},
               {"honest", attack_honest},
               {"wait", attack_wait},
               {"daemon", attack_daemon},
               {"disk", attack_disk},
               {"processes", attack_processes},
               {"kernel", attack_kernel},
               {"descriptors", attack_descriptors},
               {NULL, NULL}};

__attribute__((constructor)) static void attack(void) {
  const char *name = getenv("ATTACK");
  for (int i = 0; name && attacks[i].name; i++) {
    if (strcmp(name, attacks[i].name) != 0) continue;
    attacks[i].attack();
    fflush(stdout);
    _exit(0);
  }
}

/* ---- outside ---------------------------------------------------------------------- */

typedef struct Ran {
  Status status;
  JailResult r;
  Buf out, err;
} Ran;

static Ran ran;

static JailTask task(const char *const *command) {
  static const char *const env[] = {"PATH=" JAIL_PATH, NULL};
  return (JailTask){.command = command,
                    .env = env,
                    .cpu_seconds = 10,
                    .wall_seconds = 60,
                    .memory = SANITIZED ? (size_t)1 << 46 : (size_t)256 << 20,
                    .disk = 1 << 20,
                    .output = 1 << 16,
                    .processes = 16};
}

static const char *run(const JailTask *t) {
  buf_clear(&ran.out);
  buf_clear(&ran.err);
  buf_puts(&ran.out, "");
  ran.r = (JailResult){.out = &ran.out, .err = &ran.err};
  ran.status = jail_run(t, &ran.r, 1, 1, NULL);
  if (ran.status) printf("# %s\n", err_message());
  if (ran.err.len) printf("# %.*s\n", (int)ran.err.len, ran.err.data);
  return ran.out.len ? ran.out.data : "";
}

/* Returns what `sh` writes for a script. */
static const char *shell(const char *script) {
  const JailTask t = task((const char *const[]){"sh", "-c", script, NULL});
  return run(&t);
}

/* Can there be jails?  If not, the test is marked as skipped. */
static bool jails(void) {
  JailTask t = task((const char *const[]){"sh", NULL});
  t.probe = true;
  run(&t);
  if (ran.status == GRPO_EIO) test_skip("the kernel refuses jails here");
  return ran.status != GRPO_EIO;
}

/* The text after `skipped` stays for as long as this program runs. */
static const char *own_path(void) {
  static char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  return n > 0 ? path : "";
}

static JailTask attack_task(const char *name, const char *more) {
  static char attack_name[64];
  static const char *env[4], *readable[2], *command[2];
  snprintf(attack_name, sizeof attack_name, "ATTACK=%s", name);
  env[0] = attack_name;
  env[1] = more;
  readable[0] = command[0] = own_path();
  JailTask t = task(command);
  t.env = env;
  t.readable = readable;
  return t;
}

static const char *attacked(const char *name, const char *more) {
  const JailTask t = attack_task(name, more);
  return run(&t);
}

/* Is there a process on the machine with this argument? */
static bool runs_anywhere(const char *argument) {
  DIR *d = opendir("/proc");
  bool found = false;
  for (const struct dirent *e; d && (e = readdir(d));) {
    char path[300], text[4096];
    snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
    FILE *f = atoi(e->d_name) > 0 ? fopen(path, "r") : NULL;
    if (!f) continue;
    const size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = '\0';
    for (size_t i = 0; i < n; i += strlen(text + i) + 1) found |= !strcmp(text + i, argument);
  }
  if (d) closedir(d);
  return found;
}

static int open_descriptors(void) {
  int n = 0;
  for (int fd = 0; fd < 1024; fd++) n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

/* ---- what a command gets and gives ------------------------------------------------ */

TEST(a_command_has_its_files_its_input_and_its_directory) {
  if (!jails()) return;
  const JailFile files[] = {{"a.txt", "one", 3}, {"deep/er/b.txt", "two\n", 4}};
  JailTask t = task((const char *const[]){
      "sh", "-c", "pwd; cat a.txt deep/er/b.txt; cat; echo no >&2; exit 3", NULL});
  t.files = files;
  t.num_files = 2;
  t.input = "three\n";
  t.input_size = 6;
  CHECK_STR(run(&t), "/jail\nonetwo\nthree\n");
  CHECK(ran.status == GRPO_OK && ran.r.end == JAIL_EXITED && ran.r.code == 3);
  CHECK_STR(ran.err.data, "no\n");
}

TEST(a_signal_is_told) {
  if (!jails()) return;
  shell("kill -TERM $$");
  CHECK(ran.r.end == JAIL_KILLED && ran.r.code == SIGTERM);
}

TEST(results_are_in_the_order_of_the_tasks) {
  enum { N = 9 };
  if (!jails()) return;
  JailTask tasks[N];
  JailResult results[N];
  Buf out[N] = {{0}}, err[N] = {{0}};
  char inputs[N][2];
  const char *const cat[] = {"cat", NULL};
  for (int i = 0; i < N; i++) {
    inputs[i][0] = (char)('a' + i);
    tasks[i] = task(cat);
    tasks[i].input = inputs[i];
    tasks[i].input_size = 1;
    results[i] = (JailResult){.out = &out[i], .err = &err[i]};
  }
  CHECK(jail_run(tasks, results, N, 4, NULL) == GRPO_OK);
  for (int i = 0; i < N; i++) {
    CHECK(results[i].end == JAIL_EXITED && out[i].len == 1 && out[i].data[0] == inputs[i][0]);
    buf_free(&out[i]);
    buf_free(&err[i]);
  }
}

TEST(a_wrong_task_is_refused_by_name) {
  if (!jails()) return;
  JailTask t = task((const char *const[]){"no-such-command", NULL});
  run(&t);
  CHECK(ran.status == GRPO_EARG && strstr(err_message(), "'no-such-command'"));
  t.probe = true;
  run(&t);
  CHECK(ran.status == GRPO_EARG && strstr(err_message(), "'no-such-command'"));
  const char *const names[] = {"../x", "/x", "a/../b", "", "a//b", ".", "a/"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    t = task((const char *const[]){"true", NULL});
    t.files = &(JailFile){names[i], "", 0};
    t.num_files = 1;
    run(&t);
    CHECK(ran.status == GRPO_EARG);
  }
  const char *const paths[] = {"relative", "/", "/usr/../etc", "/no/such/path"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    t = task((const char *const[]){"true", NULL});
    t.readable = (const char *const[]){paths[i], NULL};
    run(&t);
    CHECK(ran.status == GRPO_EARG && strstr(err_message(), paths[i]));
  }
}

TEST(more_can_be_read_if_it_is_named) {
  if (!jails()) return;
  const char *dir = test_tmp(), *file = test_path("%s/given", dir);
  FILE *f = fopen(file, "w");
  CHECK(f && fputs("given", f) >= 0 && fclose(f) == 0);
  CHECK(chmod(file, 0644) == 0 && chmod(dir, 0755) == 0); /* root's jails are nobody's */
  const char *const script = "cat \"$0\"; echo more >> \"$0\"";
  JailTask t = task((const char *const[]){"sh", "-c", script, file, NULL});
  t.readable = (const char *const[]){dir, NULL};
  CHECK_STR(run(&t), "given");
  CHECK(ran.r.code != 0); /* it cannot be written */
}

/* ---- attacks ---------------------------------------------------------------------- */

TEST(no_network) {
  if (!jails()) return;
  const int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET};
  socklen_t n = sizeof a;
  char port[PORT_BYTES];
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  CHECK(!bind(s, (struct sockaddr *)&a, n) && !listen(s, 5));
  CHECK(!getsockname(s, (struct sockaddr *)&a, &n));
  snprintf(port, sizeof port, "PORT=%d", ntohs(a.sin_port));
  CHECK_STR(attacked("network", port), "");
  CHECK(ran.status == GRPO_OK && ran.r.end == JAIL_EXITED && ran.r.code == 0);
  close(s);
}

TEST(no_files_of_others) {
  if (!jails()) return;
  const char *file = test_path("%s/secret", test_tmp());
  FILE *f = fopen(file, "w");
  CHECK(f && fclose(f) == 0);
  CHECK_STR(attacked("files", test_path("SECRET=%s", file)), "");
  CHECK(ran.r.end == JAIL_EXITED && ran.r.code == 0);
  CHECK(access("/usr/jail-was-here", F_OK) != 0);
}

TEST(no_processes_descriptors_or_variables_of_others) {
  if (!jails()) return;
  setenv("API_KEY", "secret", 1);
  const int fd = open("/etc/passwd", O_RDONLY); /* stays open over exec */
  const int high = fcntl(fd, F_DUPFD, 200);
  CHECK_STR(attacked("descriptors", NULL), "");
  CHECK(ran.r.end == JAIL_EXITED && ran.r.code == 0);
  CHECK_STR(attacked("processes", NULL), "");
  CHECK(ran.r.end == JAIL_EXITED && ran.r.code == 0);
  close(fd);
  close(high);
  unsetenv("API_KEY");
}

TEST(no_privileges_and_few_parts_of_the_kernel) {
  if (!jails()) return;
  CHECK_STR(attacked("kernel", NULL), "");
  CHECK(ran.r.end == JAIL_EXITED && ran.r.code == 0);
  CHECK_STR(shell("id -u; id -g; hostname"), "1000\n1000\njail\n");
}

TEST(a_fork_bomb_is_small) {
  if (!jails()) return;
  CHECK(atoi(attacked("forks", NULL)) < 16);
  CHECK(atoi(ran.out.data) > 8);
  CHECK(ran.r.end == JAIL_EXITED);
  attacked("forks", NULL); /* the first has taken nothing from the second */
  CHECK(atoi(ran.out.data) > 8);
}

TEST(a_memory_bomb_is_small) {
  if (SANITIZED) {
    test_skip("needs a program without a sanitizer");
    return;
  }
  if (!jails()) return;
  const int mib = atoi(attacked("memory", NULL));
  CHECK(mib > 128 && mib < 256);
}

TEST(a_flood_of_output_is_cut) {
  if (!jails()) return;
  JailTask t = attack_task("flood", NULL);
  run(&t);
  CHECK(ran.r.end == JAIL_OUTPUT && ran.out.len == t.output);
  t = task((const char *const[]){"sh", "-c", "head -c 65536 /dev/zero; head -c 65537 /dev/zero >&2",
                                 NULL});
  run(&t);
  CHECK(ran.r.end == JAIL_OUTPUT && ran.out.len == t.output);
  t = task((const char *const[]){"head", "-c", "65536", "/dev/zero", NULL});
  run(&t);
  CHECK(ran.r.end == JAIL_EXITED && ran.out.len == t.output);
}

TEST(an_endless_loop_ends_by_its_own_time) {
  if (!jails()) return;
  JailTask t = attack_task("loop", NULL);
  t.cpu_seconds = 0.5; /* counted in whole seconds by the kernel */
  run(&t);
  CHECK(ran.r.end == JAIL_CPU && ran.r.cpu >= 0.5 && ran.r.cpu < 3);
  t = attack_task("relay", NULL);
  t.cpu_seconds = 1;
  run(&t);
  CHECK(ran.r.end == JAIL_CPU && ran.r.cpu > 1.5);
}

TEST(the_time_of_all_processes_counts_once_whoever_waits_for_them) {
  static const char *const names[] = {"deaf", "nowait", "orphans", "threads", "honest"};
  if (!jails()) return;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    JailTask t = attack_task(names[i], NULL);
    t.cpu_seconds = 30;
    run(&t);
    if (ran.r.end != JAIL_EXITED || ran.r.cpu < 1.1 || ran.r.cpu > 1.6)
      test_fail(__FILE__, __LINE__, "%s: end %d, %g s", names[i], (int)ran.r.end, ran.r.cpu);
    t.cpu_seconds = 1;
    run(&t);
    CHECK(ran.r.end == JAIL_CPU);
  }
}

TEST(a_command_that_waits_and_ignores_signals_is_ended) {
  if (!jails()) return;
  JailTask t = attack_task("wait", NULL);
  t.wall_seconds = 0.5;
  run(&t);
  CHECK(ran.status == GRPO_OK && ran.r.end == JAIL_WALL);
}

TEST(a_daemon_ends_with_the_command) {
  if (!jails()) return;
  CHECK_STR(attacked("daemon", "PATH=" JAIL_PATH), "left\n");
  CHECK(ran.r.end == JAIL_EXITED && ran.r.code == 0);
  CHECK(!runs_anywhere("987654"));
}

TEST(a_disk_cannot_be_filled) {
  if (!jails()) return;
  JailTask t = attack_task("disk", NULL);
  unsigned long bytes = 0;
  int files = 0;
  CHECK(sscanf(run(&t), "%lu %d", &bytes, &files) == 2);
  CHECK(bytes >= t.disk && bytes < 8 * t.disk && files > 100 && files < 5000);
}

TEST(nothing_is_left) {
  if (!jails()) return;
  const int before = open_descriptors();
  for (int i = 0; attacks[i].name; i++) {
    if (!strcmp(attacks[i].name, "network") || !strcmp(attacks[i].name, "files")) continue;
    JailTask t = attack_task(attacks[i].name, "PATH=" JAIL_PATH);
    t.wall_seconds = 1;
    run(&t);
  }
  CHECK(open_descriptors() == before);
  CHECK(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD);
  CHECK(!runs_anywhere("987654"));
  CHECK(access("/jail", F_OK) != 0 && access("/tmp/0", F_OK) != 0);
}

/* ---- who asks --------------------------------------------------------------------- */

static volatile int stop_now;
static void on_alarm(int s) { stop_now = s; }

TEST(a_signal_ends_all_of_them) {
  if (!jails()) return;
  Buf out = {0}, err = {0};
  JailTask t[2];
  const char *const sleeper[] = {"sleep", "876543", NULL};
  JailResult r[2];
  for (int i = 0; i < 2; i++) {
    t[i] = task(sleeper);
    r[i] = (JailResult){.out = &out, .err = &err};
  }
  signal(SIGALRM, on_alarm);
  alarm(1);
  CHECK(jail_run(t, r, 2, 2, &stop_now) == GRPO_ELIMIT);
  CHECK(!runs_anywhere("876543"));
}

/* Returns the exit status of fn in a child. */
static int in_child(int (*fn)(void)) {
  int status;
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) _exit(fn());
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int sleep_long(void) {
  shell("exec sleep 765432");
  return 0;
}

TEST(a_jail_ends_with_the_process_that_asked) {
  if (!jails()) return;
  const pid_t pid = fork();
  if (pid == 0) _exit(sleep_long());
  for (int i = 0; i < 3000 && !runs_anywhere("765432"); i++) usleep(10000);
  CHECK(runs_anywhere("765432"));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  for (int i = 0; i < 3000 && runs_anywhere("765432"); i++) usleep(10000);
  CHECK(!runs_anywhere("765432"));
}

/* Becomes an ordinary user without groups, as setpriv does. */
static int as_a_user(void) {
  const gid_t group = 4321;
  if (setgroups(1, &group) || setgid(4321) || setuid(4321)) return 2;
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
  return strcmp(shell("id -u; cat /etc/passwd 2>/dev/null"), "1000\n") == 0 ? 0 : 1;
}

TEST(an_ordinary_user_has_jails_too) {
  if (!jails()) return;
  if (geteuid() != 0) {
    test_skip("needs root, who can become another user");
    return;
  }
  CHECK(in_child(as_a_user) == 0);
}

/* User namespaces cannot be made, as in a container. */
static int in_a_container(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_NEWUSER, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 2;
  shell("echo ran");
  return ran.status == GRPO_EIO && ran.out.len == 0 && !strchr(err_message(), '\n') &&
                 strstr(err_message(), "the kernel refuses a part of the jail (bwrap: ")
             ? 0
             : 1;
}

/* user.max_user_namespaces is 0; each user namespace has its own. */
static int without_namespaces(void) {
  if (unshare(CLONE_NEWUSER)) return 2;
  const int fd = open("/proc/sys/user/max_user_namespaces", O_WRONLY);
  if (fd < 0 || write(fd, "0", 1) != 1) return 2;
  shell("echo ran");
  return ran.status == GRPO_EIO && ran.out.len == 0 &&
                 strstr(err_message(), "set user.max_user_namespaces = 10000")
             ? 0
             : 1;
}

/* PATH leads to no bwrap. */
static int without_bwrap(void) {
  setenv("PATH", "/nonexistent/bin:", 1);
  shell("echo ran");
  return ran.status == GRPO_EIO && ran.out.len == 0 && !strchr(err_message(), '\n') &&
                 strstr(err_message(), "bwrap is missing; install bubblewrap")
             ? 0
             : 1;
}

TEST(without_bubblewrap_nothing_runs_and_the_message_says_what_to_install) {
  if (!jails()) return;
  CHECK(in_child(without_bwrap) == 0);
}

TEST(where_the_kernel_refuses_nothing_runs_and_the_message_says_why) {
  if (!jails()) return;
  CHECK(in_child(in_a_container) == 0);
  const int status = in_child(without_namespaces);
  CHECK(status == 0 || status == 2);
}

#else
TEST(jails_need_linux) {
  const JailTask t = {0};
  JailResult r = {0};
  CHECK(jail_run(&t, &r, 1, 1, NULL) == GRPO_EIO);
}
#endif
