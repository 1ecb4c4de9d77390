/* lua_fs.c - core.fs: files and directories.
 *
 * A function that fails returns nil, message, code; wrong arguments raise.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "os/file.h"
#include "script/binding.h"
#define WRITER_TYPE "grpo.Writer"
#define LOCK_TYPE   "grpo.Lock"

static const char *check_path(lua_State *L, int arg) {
  size_t n;
  const char *path = check_string(L, arg, &n);
  if (strlen(path) != n) arg_error(L, arg, "the path holds a zero byte");
  return path;
}

static Status system_failure(const char *path) {
  return fail(errno == ENOENT ? GRPO_ENOENT : GRPO_EIO, "%s: %s", path, strerror(errno));
}

/* ---- whole files -------------------------------------------------------------------- */

static int l_read(lua_State *L) {
  const char *path = check_path(L, 1);
  Buf *b = push_buf(L);
  Status s = file_read(path, 0, b);
  if (s) return push_failure(L, s);
  push_bytes(L, b);
  keep_buf(L, b);
  return 1;
}

static int l_write(lua_State *L) {
  size_t n;
  const char *path = check_path(L, 1), *data = check_string(L, 2, &n);
  return give_done(L, file_replace(path, data, n));
}

static int l_list(lua_State *L) {
  const char *path = check_path(L, 1);
  Buf *b = push_buf(L);
  size_t count = 0;
  Status s = file_list(path, b, &count);
  if (s) return push_failure(L, s);
  lua_createtable(L, (int)count, 0);
  const char *name = b->data;
  for (size_t i = 1; i <= count; i++, name += strlen(name) + 1) {
    lua_pushstring(L, name);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  return 1;
}

static int l_exists(lua_State *L) { return give_boolean(L, file_exists(check_path(L, 1))); }

/* check_input(path): fails for what must not be opened, as a pipe, because opening would wait */
static int l_check_input(lua_State *L) { return give_done(L, file_check_input(check_path(L, 1))); }

static int l_isdir(lua_State *L) { return give_boolean(L, file_is_dir(check_path(L, 1))); }

static int l_size(lua_State *L) {
  const char *path = check_path(L, 1);
  int64_t n = file_size(path);
  if (n < 0) return push_failure(L, system_failure(path));
  return give_integer(L, n);
}

static int l_mtime(lua_State *L) {
  const char *path = check_path(L, 1);
  int64_t ns = file_mtime_ns(path);
  if (ns < 0) return push_failure(L, system_failure(path));
  return give_number(L, (double)ns * 1e-9);
}

/* free(path) -> bytes that this user may still write on the path's disk */
static int l_free(lua_State *L) {
  struct statvfs v;
  const char *path = check_path(L, 1);
  if (statvfs(path, &v) != 0) return push_failure(L, system_failure(path));
  return give_integer(L, (lua_Integer)v.f_bavail * (lua_Integer)v.f_frsize);
}

static int l_mkdirs(lua_State *L) { return give_done(L, file_mkdirs(check_path(L, 1))); }
static int l_remove_tree(lua_State *L) { return give_done(L, file_remove_tree(check_path(L, 1))); }

/* remove_temporaries(dir[, name]) */
static int l_remove_temporaries(lua_State *L) {
  const char *dir = check_path(L, 1), *name = lua_isnoneornil(L, 2) ? NULL : check_path(L, 2);
  return give_done(L, file_remove_temporaries(dir, name));
}

static int l_rename(lua_State *L) {
  return give_done(L, file_rename(check_path(L, 1), check_path(L, 2)));
}
static int l_link(lua_State *L) {
  return give_done(L, file_link_replace(check_path(L, 1), check_path(L, 2)));
}

static int l_truncate(lua_State *L) {
  const char *path = check_path(L, 1);
  lua_Integer size = check_integer(L, 2, 0, LUA_MAXINTEGER);
  return give_done(L, truncate(path, size) == 0 ? GRPO_OK : system_failure(path));
}

/* crc32c(s [, sum]) -> CRC-32C of s behind the bytes of which `sum` is the CRC-32C */
static int l_crc32c(lua_State *L) {
  size_t n;
  const char *s = check_string(L, 1, &n);
  lua_Integer sum = lua_isnoneornil(L, 2) ? 0 : check_integer(L, 2, 0, UINT32_MAX);
  return give_integer(L, crc32c((uint32_t)sum, s, n));
}

/* checksum(path) -> CRC-32C of the file, its size */
static int l_checksum(lua_State *L) {
  uint64_t size;
  uint32_t crc;
  const Status s = file_checksum(check_path(L, 1), &size, &crc);
  if (s) return push_failure(L, s);
  lua_pushinteger(L, crc);
  lua_pushinteger(L, (lua_Integer)size);
  return 2;
}

static int l_realpath(lua_State *L) {
  const char *path = check_path(L, 1);
  char full[PATH_MAX];
  if (!realpath(path, full)) return push_failure(L, system_failure(path));
  return give_string(L, full);
}

static int l_readlink(lua_State *L) {
  const char *path = check_path(L, 1);
  char target[PATH_MAX];
  ssize_t n = readlink(path, target, sizeof target);
  if (n < 0) return push_failure(L, system_failure(path));
  lua_pushlstring(L, target, (size_t)n);
  return 1;
}

/* ---- appending and locking ---------------------------------------------------------- */

/* Both types are a userdata that holds a descriptor; -1: closed. */

static int push_descriptor(lua_State *L, const char *type, const char *path, int flags) {
  int *fd = new_object(L, sizeof *fd, 0);
  *fd = -1;
  luaL_setmetatable(L, type);
  *fd = file_open(path, flags | O_CLOEXEC, 0644);
  return *fd;
}

static int *check_descriptor(lua_State *L) {
  if (!luaL_testudata(L, 1, WRITER_TYPE) && !luaL_testudata(L, 1, LOCK_TYPE))
    type_error(L, 1, WRITER_TYPE);
  return lua_touserdata(L, 1);
}

static int l_descriptor_close(lua_State *L) {
  int *fd = check_descriptor(L);
  int old = *fd;
  *fd = -1;
  return give_boolean(L, old < 0 || close(old) == 0);
}

static int l_append(lua_State *L) {
  const char *path = check_path(L, 1);
  const Status s = file_check_output(path);
  if (s) return push_failure(L, s);
  if (push_descriptor(L, WRITER_TYPE, path, O_WRONLY | O_APPEND | O_CREAT) < 0)
    return push_failure(L, system_failure(path));
  return 1;
}

/* The path of an open file as it is now, because a run's directory is renamed when it is complete;
 * from the current directory, where it is below that. */
static const char *path_now(int fd, char path[PATH_MAX]) {
  char name[64], here[PATH_MAX];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(name, path, PATH_MAX - 1);
  if (n <= 0) return "a file"; /* no such directory on this system */
  path[n] = '\0';
  const size_t above = getcwd(here, sizeof here) ? strlen(here) : 0;
  const bool below = above && strncmp(path, here, above) == 0 && path[above] == '/';
  return below ? path + above + 1 : path;
}

static Status write_failure(int fd) {
  char path[PATH_MAX];
  const int problem = errno;
  return fail(GRPO_EIO, "cannot write %s: %s", path_now(fd, path), strerror(problem));
}

/* w:put(s): writes all of s at once, so that the lines of several writers do not mix */
static int l_writer_put(lua_State *L) {
  int *fd = check_object(L, 1, WRITER_TYPE);
  size_t n;
  const char *s = check_string(L, 2, &n);
  if (*fd < 0) return arg_error(L, 1, "the file is closed");
  while (n) {
    ssize_t wrote = write(*fd, s, n);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return push_failure(L, write_failure(*fd));
    s += wrote;
    n -= (size_t)wrote;
  }
  return give_boolean(L, 1);
}

/* w:sync(): makes what was written durable */
static int l_writer_sync(lua_State *L) {
  const int *fd = check_object(L, 1, WRITER_TYPE);
  if (*fd < 0) return arg_error(L, 1, "the file is closed");
  return give_done(L, file_sync(*fd) == 0 ? GRPO_OK : write_failure(*fd));
}

/* lock(path[, wait]) -> lock, or false, message, code if another process holds the lock, or nil,
 * message, code.  With wait = true it waits for that process. */
static int l_lock(lua_State *L) {
  const char *path = check_path(L, 1);
  const int how = lua_toboolean(L, 2) ? LOCK_EX : LOCK_EX | LOCK_NB;
  int got;
  int fd = push_descriptor(L, LOCK_TYPE, path, O_RDWR | O_CREAT);
  if (fd < 0) return push_failure(L, system_failure(path));
  do got = flock(fd, how);
  while (got != 0 && errno == EINTR);
  if (got == 0) return 1;
  const bool held = errno == EWOULDBLOCK;
  Status s =
      held ? fail(GRPO_EIO, "%s: another process holds this lock", path) : system_failure(path);
  lua_pushcfunction(L, l_descriptor_close);
  lua_pushvalue(L, -2);
  lua_call(L, 1, 0);
  const int n = push_failure(L, s);
  if (held) lua_pushboolean(L, false), lua_replace(L, -1 - n);
  return n;
}

/* lock:is_at(path) -> whether the path leads to the file that is locked; nil, message, code if that
 * cannot be found out */
static int l_lock_is_at(lua_State *L) {
  const int *fd = check_object(L, 1, LOCK_TYPE);
  const char *path = check_path(L, 2);
  struct stat mine, there;
  if (*fd < 0) return arg_error(L, 1, "the lock is closed");
  if (fstat(*fd, &mine) != 0) return push_failure(L, system_failure(path));
  const bool found = stat(path, &there) == 0;
  if (!found && errno != ENOENT && errno != ENOTDIR) return push_failure(L, system_failure(path));
  return give_boolean(L, found && mine.st_dev == there.st_dev && mine.st_ino == there.st_ino);
}

/* is_locked(path) -> whether a process holds the lock; nil, message, code if that cannot be found
 * out.  The file is only read, and a process that asks for its lock meanwhile may have to wait. */
static int l_is_locked(lua_State *L) {
  const char *path = check_path(L, 1);
  const int fd = file_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return push_failure(L, system_failure(path));
  int got;
  do got = flock(fd, LOCK_SH | LOCK_NB); /* a shared one needs no right to write */
  while (got != 0 && errno == EINTR);
  const bool held = got != 0 && errno == EWOULDBLOCK;
  const Status s = got != 0 && !held ? system_failure(path) : GRPO_OK;
  close(fd);
  if (s) return push_failure(L, s);
  return give_boolean(L, held);
}

static int l_descriptor_tostring(lua_State *L) {
  const int *fd = check_descriptor(L);
  luaL_getmetafield(L, 1, "__name");
  lua_pushfstring(L, "%s (%s)", lua_tostring(L, -1), *fd < 0 ? "closed" : "open");
  return 1;
}

/* ---- registration ------------------------------------------------------------------- */

CORE_PART(fs) {
  static const luaL_Reg functions[] = {
      FN(append),      FN(check_input), FN(checksum), FN(crc32c),   FN(exists),
      FN(isdir),       FN(is_locked),   FN(link),     FN(list),     FN(lock),
      FN(mkdirs),      FN(mtime),       FN(read),     FN(readlink), FN(realpath),
      FN(remove_tree), FN(rename),      FN(size),     FN(free),     FN(remove_temporaries),
      FN(truncate),    FN(write),       {NULL, NULL}};
  static const luaL_Reg meta[] = {{"__gc", l_descriptor_close},
                                  {"__close", l_descriptor_close},
                                  {"__tostring", l_descriptor_tostring},
                                  {NULL, NULL}};
  static const luaL_Reg writer[] = {
      {"put", l_writer_put}, {"sync", l_writer_sync}, {"close", l_descriptor_close}, {NULL, NULL}};
  static const luaL_Reg lock[] = {
      {"close", l_descriptor_close}, {"is_at", l_lock_is_at}, {NULL, NULL}};
  make_type(L, WRITER_TYPE, meta, writer);
  make_type(L, LOCK_TYPE, meta, lock);
  luaL_newlib(L, functions);
  lua_setfield(L, -2, "fs");
}
