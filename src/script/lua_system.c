/* lua_system.c - the machine and the process: versions, clocks, terminal, signals, threads,
 * memory. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/regex.h"
#include "base/version.h"
#include "base/visible.h"
#include "kern/blas.h"
#include "kern/dispatch.h"
#include "kern/kern.h"
#include "os/comm.h"
#include "script/binding.h"
#include "script/interrupt.h"
#include "script/script_impl.h"

/* ---- versions ----------------------------------------------------------------------- */

/* The C library, whose functions of mathematics the bits of a run depend on. */
static void libc_version(char *out, size_t size) {
  snprintf(out, size, "unknown");
#ifdef _CS_GNU_LIBC_VERSION
  confstr(_CS_GNU_LIBC_VERSION, out, size);
#endif
}

static int l_version(lua_State *L) {
  char pcre2[64], blas[64], libc[64];
  regex_library(pcre2, sizeof pcre2);
  blas_version(blas, sizeof blas);
  libc_version(libc, sizeof libc);
  lua_createtable(L, 0, 8);
  set_string(L, "version", grpo_version());
  set_string(L, "commit", grpo_commit());
  set_string(L, "kernels", kern_numbers(NULL));
  set_string(L, "blas", blas);
  set_string(L, "lua", LUA_RELEASE);
  set_string(L, "pcre2", pcre2);
  set_string(L, "libc", libc);
#ifdef __SANITIZE_ADDRESS__
  set_bool(L, "sanitizer", true); /* for tests, because the sanitizer gives memory back late */
#endif
  return 1;
}

/* Pops a value and appends the row {name, value} to the list below it. */
static void add_row(lua_State *L, const char *name) {
  lua_createtable(L, 2, 0);
  lua_pushstring(L, name);
  lua_rawseti(L, -2, 1);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 2);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

static void add_text(lua_State *L, const char *name, const char *text) {
  lua_pushstring(L, text);
  add_row(L, name);
}

/* "model name : ..." from /proc/cpuinfo, or the architecture if the kernel names no model
 * (aarch64). */
static void add_cpu(lua_State *L) {
  char line[256];
  const char *name = NULL;
  FILE *f = fopen("/proc/cpuinfo", "r");
  while (f && !name && fgets(line, sizeof line, f)) {
    if (strncmp(line, "model name", 10) == 0) name = strchr(line, ':');
  }
  if (f) fclose(f);
  if (name) {
    line[strcspn(line, "\n")] = '\0';
    name += 1 + strspn(name + 1, " ");
  }
  struct utsname machine;
  const char *otherwise = uname(&machine) == 0 ? machine.machine : "unknown";
  add_text(L, "cpu", name && *name ? name : otherwise);
}

static void add_gigabytes(lua_State *L, const char *name, size_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.2f GB", (double)bytes / 1e9);
  add_text(L, name, bytes ? text : "unknown");
}

static int l_doctor(lua_State *L) {
  char text[64];
  static const char *const variables[] = {"OPENBLAS_CORETYPE", "GRPO_CPU", "GRPO_LUA"};
  lua_newtable(L);
  snprintf(text, sizeof text, "%s (%s)", grpo_version(), grpo_commit());
  add_text(L, "grpo", text);
  add_text(L, "Lua", LUA_RELEASE);
  regex_library(text, sizeof text);
  add_text(L, "PCRE2", text);
  add_cpu(L);
  snprintf(text, sizeof text, "%d", pool_cores());
  add_text(L, "cores", text);
  add_text(L, "kernels", kern_name(NULL));
  add_text(L, "bf16 products",
           kern_bf16(NULL) ? "native" : "by f32 instructions, no faster than f32");
  add_text(L, "OpenBLAS kernels", blas_core_name());
  add_gigabytes(L, "memory available", mem_available());
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    if (getenv(variables[i])) add_text(L, variables[i], getenv(variables[i]));
  return 1;
}

/* ---- clocks, the process, the terminal ---------------------------------------------- */

static int l_clock(lua_State *L) { return give_number(L, clock_seconds()); }

/* The clock may be wrong; the time is one that a date of four digits can show. */
static int l_wall(lua_State *L) {
  const double last = 253402300799.0;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const double now = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
  return give_number(L, now < 0 ? 0 : now > last ? last : now);
}

static int l_getpid(lua_State *L) { return give_integer(L, getpid()); }

static int l_hostname(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return give_string(L, *name ? name : "unknown");
}

static const char in_this_file;

/* core.binary() -> the file that holds this code, the program or grpo.so; nil: unknown */
static int l_binary(lua_State *L) {
  char path[4096], whole[PATH_MAX];
  Dl_info info;
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
  path[n > 0 ? n : 0] = '\0';
  bool shared = dladdr(&in_this_file, &info) && info.dli_fname && strstr(info.dli_fname, ".so");
  const char *name = shared ? info.dli_fname : path;
  lua_pushstring(L, realpath(name, whole)); /* NULL: nil */
  return 1;
}

static int l_isatty(lua_State *L) {
  return give_boolean(L, isatty((int)check_integer(L, 1, 0, 1 << 20)));
}

/* term_width() -> columns of the terminal: $COLUMNS, or what stderr's terminal reports, or 80 */
static int l_term_width(lua_State *L) {
  const char *columns = getenv("COLUMNS");
  long n = columns ? strtol(columns, NULL, 10) : 0;
  struct winsize w;
  if (n <= 0 && ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0) n = w.ws_col;
  return give_integer(L, n > 0 && n < 10000 ? n : 80);
}

static int write_all(lua_State *L, int fd, const char *s, size_t n) {
  while (n) {
    ssize_t done = write(fd, s, n);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) {
      lua_pushnil(L);
      lua_pushstring(L, strerror(errno));
      return 2;
    }
    s += done;
    n -= (size_t)done;
  }
  return give_boolean(L, 1);
}

/* notice(text): sends a line where the engine's notices go, which is the screen or a host's log */
static int l_notice(lua_State *L) {
  log_message(LOG_INFO, "%s", check_string(L, 1, NULL));
  return 0;
}

/* screen_line(open): does the screen show a line without its end? */
static int l_screen_line(lua_State *L) {
  script_open_line = lua_toboolean(L, 1);
  return 0;
}

/* visible(text): as a terminal may get it (visible.h) */
static int l_visible(lua_State *L) {
  size_t n;
  const char *s = check_string(L, 1, &n);
  Buf *b = push_buf(L);
  visible_put(b, s, n);
  push_bytes(L, b);
  keep_buf(L, b); /* a page cleans thousands of texts before the collector runs */
  return 1;
}

/* Writes the string on top to a descriptor; a terminal obeys nothing in it. */
static int write_text(lua_State *L, int fd) {
  size_t n;
  check_string(L, 1, NULL);
  lua_settop(L, 1);
  if (isatty(fd)) l_visible(L);
  const char *s = lua_tolstring(L, -1, &n);
  return write_all(L, fd, s, n);
}

static int l_err(lua_State *L) { return write_text(L, STDERR_FILENO); }

static int l_out(lua_State *L) {
  fflush(stdout); /* so that what print() has buffered comes first */
  if (write_text(L, STDOUT_FILENO) == 2)
    return raise_new(L, GRPO_EIO, "cannot write to standard output: %s", lua_tostring(L, -1));
  return 1;
}

/* draw(descriptor, text): as out() and err(), with escape sequences of the program's own */
static int l_draw(lua_State *L) {
  size_t n;
  const int fd = (int)check_integer(L, 1, STDOUT_FILENO, STDERR_FILENO);
  const char *s = check_string(L, 2, &n);
  fflush(stdout);
  return write_all(L, fd, s, n);
}

/* ---- signals ------------------------------------------------------------------------ */

/* Each signal is delivered once, and a second INT, TERM or HUP ends the process at once.  A second
 * one that follows within SAME_MS counts as the first, because timeout(1) signals its child and
 * then the whole process group. */
enum { SAME_MS = 300 };

static volatile sig_atomic_t pending_int, pending_term, pending_hup, pending_usr1, stops;
/* When the first INT, TERM or HUP came.  Only on_signal uses it, which they do not interrupt. */
static int64_t stopped_ms;

/* Leaves the shell's prompt a line of its own. */
static void leave_now(int sig) {
  const ssize_t written = script_open_line ? write(STDERR_FILENO, "\n", 1) : 0;
  (void)written; /* there is nobody left to tell */
  comm_leave(128 + sig);
  _exit(128 + sig);
}

static void on_signal(int sig) {
  if (sig == SIGUSR1) {
    pending_usr1 = 1;
    return;
  }
  const int64_t ms = clock_ns() / 1000000;
  if (stops && ms - stopped_ms < SAME_MS) return;
  if (stops++) leave_now(sig);
  stopped_ms = ms;
  script_cancel = comm_size() == 1; /* ranks end together, after a step */
  if (sig == SIGINT)
    pending_int = 1;
  else if (sig == SIGHUP)
    pending_hup = 1;
  else
    pending_term = 1;
}

static int l_signals_install(lua_State *L) {
  (void)L;
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigemptyset(&a.sa_mask);
  sigaddset(&a.sa_mask, SIGINT);
  sigaddset(&a.sa_mask, SIGTERM);
  sigaddset(&a.sa_mask, SIGHUP);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  sigaction(SIGUSR1, &a, NULL);
  struct sigaction old; /* nohup ignores the signal, and it stays ignored */
  if (!sigaction(SIGHUP, NULL, &old) && old.sa_handler != SIG_IGN) sigaction(SIGHUP, &a, NULL);
  signal(SIGPIPE, SIG_IGN); /* a run continues when its terminal goes away */
  return 0;
}

static int l_signal_take(lua_State *L) {
  const char *name = NULL;
  if (pending_int || pending_term || pending_hup) script_cancel = 0;
  if (pending_int)
    pending_int = 0, name = "INT";
  else if (pending_term)
    pending_term = 0, name = "TERM";
  else if (pending_hup)
    pending_hup = 0, name = "HUP";
  else if (pending_usr1)
    pending_usr1 = 0, name = "USR1";
  lua_pushstring(L, name); /* NULL: nil */
  return 1;
}

/* signal_waits() -> has INT or TERM come, and nobody has taken it? */
static int l_signal_waits(lua_State *L) { return give_boolean(L, script_cancel); }

static int l_signal_count(lua_State *L) { return give_integer(L, stops); }

/* ---- threads and memory ------------------------------------------------------------- */

/* core.kernels(["portable"|"native"]) -> the process's class of kernels, after a change to the
 * fastest portable one, or to the choice of GRPO_CPU or the CPU's best */
static int l_kernels(lua_State *L) {
  static const char *const numbers[] = {"native", "portable", NULL};
  if (!lua_isnoneornil(L, 1)) {
    const bool portable = luaL_checkoption(L, 1, NULL, numbers);
    const Status s = portable ? kern_select_portable() : kern_select(NULL);
    if (s != GRPO_OK) return raise_status(L, s);
  }
  return give_string(L, kern_name(NULL));
}

static int l_set_threads(lua_State *L) {
  Script *s = script_of(L);
  int n = (int)check_integer(L, 1, 0, 1024);
  if (s->pool && n != s->threads && n != pool_threads(s->pool))
    return raise_new(L, GRPO_EARG,
                     "threads: cannot be set to %d, because %d threads are already at work for a "
                     "model; start with --threads %d instead",
                     n, pool_threads(s->pool), n);
  s->threads = n;
  return 0;
}

static int l_threads(lua_State *L) {
  const Script *s = script_of(L);
  return give_integer(L, s->pool ? pool_threads(s->pool) : s->threads ? s->threads : pool_cores());
}

static lua_Integer lua_bytes(lua_State *L) {
  const Script *s = script_of(L);
  if (!s->foreign) return (lua_Integer)s->lua_bytes;
  return (lua_Integer)lua_gc(L, LUA_GCCOUNT) * 1024 + lua_gc(L, LUA_GCCOUNTB);
}

/* set_memory(bytes): what the engine and Lua may hold together */
static int l_set_memory(lua_State *L) {
  mem_set_limit((size_t)check_integer(L, 1, 1, LUA_MAXINTEGER), (size_t)lua_bytes(L));
  return 0;
}

static int l_mem(lua_State *L) {
  size_t in_use;
  const size_t refused = mem_refused(&in_use); /* before this call allocates */
  lua_createtable(L, 0, 9);
  set_integer(L, "refused", (lua_Integer)refused); /* 0: nothing */
  set_integer(L, "refused_at", (lua_Integer)in_use);
  set_integer(L, "allocations", (lua_Integer)mem_allocations());
  set_integer(L, "live", (lua_Integer)mem_live_bytes());
  set_integer(L, "peak_rss", (lua_Integer)mem_peak_rss());
  set_integer(L, "available", (lua_Integer)mem_available());
  set_integer(L, "lua", lua_bytes(L));
  set_integer(L, "limit", (lua_Integer)mem_limit()); /* 0: none */
  set_integer(L, "least_mib", MEM_LEAST_MIB);
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

CORE_PART(system) {
  static const luaL_Reg functions[] = {
      FN(binary),      FN(clock),        FN(doctor),          FN(draw),
      FN(err),         FN(getpid),       FN(hostname),        FN(isatty),
      FN(kernels),     FN(mem),          FN(notice),          FN(out),
      FN(screen_line), FN(set_memory),   FN(set_threads),     FN(signal_count),
      FN(signal_take), FN(signal_waits), FN(signals_install), FN(term_width),
      FN(threads),     FN(version),      FN(visible),         FN(wall),
      {NULL, NULL}};
  luaL_setfuncs(L, functions, 0);
  push_none(L);
  lua_setfield(L, -2, "none");
}
