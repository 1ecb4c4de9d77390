#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/by_name.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/progress.h"

/* strerror_r() returns the text in glibc, and 0 or an error in other C libraries, as POSIX says. */
static inline const char *text_of_gnu(const char *text, const char *buffer) {
  (void)buffer;
  return text;
}
static inline const char *text_of_posix(int failed, const char *buffer) {
  return failed ? "unknown error" : buffer;
}
#define ERROR_TEXT(error, buffer)                                                                  \
  _Generic(strerror_r(error, buffer, sizeof(buffer)), int : text_of_posix, char * : text_of_gnu)(  \
      strerror_r(error, buffer, sizeof(buffer)), buffer)

/* Records a failed system call: the verb and the path say what was tried, `error` why it failed. */
static Status system_failed(const char *verb, const char *path, int error) {
  char text[128];
  const char *why = ERROR_TEXT(error, text);
  const bool reading = !strcmp(verb, "open") || !strcmp(verb, "read") || !strcmp(verb, "list");
  const bool named_wrong =
      error == EISDIR || error == EACCES || error == ELOOP || error == ENAMETOOLONG;
  const Status s = error == ENOENT || error == ENOTDIR || (reading && named_wrong) ? GRPO_ENOENT
                   : error == ENOMEM                                               ? GRPO_ENOMEM
                                                                                   : GRPO_EIO;
  return fail(s, "cannot %s %s: %s", verb, path, why);
}

/* close() that keeps the errno of an earlier failure. */
static void close_quietly(int fd) {
  const int error = errno;
  close(fd);
  errno = error;
}

int file_open(const char *path, int flags, unsigned mode) {
  int fd;
  do fd = open(path, flags, mode);
  while (fd < 0 && errno == EINTR);
  return fd;
}

int file_sync(int fd) {
  int rc;
  do rc = fsync(fd);
  while (rc != 0 && errno == EINTR);
  return rc;
}

/* ---- reading ------------------------------------------------------------------ */

/* The kind of a path that is not a regular file; NULL for a regular file. */
static const char *odd_kind(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe; name a regular file";
  if (S_ISSOCK(mode)) return "a socket; name a regular file";
  return S_ISREG(mode) ? NULL : "a device; name a regular file";
}

static Status refuse_odd(const char *verb, const char *path, mode_t mode) {
  const char *kind = odd_kind(mode);
  if (!kind) return GRPO_OK;
  return fail(GRPO_ENOENT, "cannot %s %s: it is %s", verb, path, kind);
}

Status file_check_input(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return system_failed("open", path, errno);
  return refuse_odd("read", path, st.st_mode);
}

Status file_check_output(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? refuse_odd("write to", path, st.st_mode) : GRPO_OK;
}

/* A pointer of Git LFS stands for a file that was not fetched, so it is never its contents. */
static Status refuse_pointer(const char *path, int fd, const struct stat *st) {
  static const char start[] = "version https://git-lfs.github.com/spec/";
  char head[sizeof start - 1];
  if (!S_ISREG(st->st_mode) || st->st_size < (off_t)sizeof head || st->st_size > 1024)
    return GRPO_OK;
  if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head ||
      memcmp(head, start, sizeof head) != 0)
    return GRPO_OK;
  return fail(GRPO_EFORMAT,
              "%s: it is a pointer of Git LFS, not the file itself; fetch the file with git lfs "
              "pull",
              path);
}

/* Descriptors that the program was started with: /dev/stdin and bash's <(...) may be pipes. */
static bool is_handed_over(const char *path) {
  return strcmp(path, "/dev/stdin") == 0 || strncmp(path, "/dev/fd/", 8) == 0 ||
         strncmp(path, "/proc/self/fd/", 14) == 0;
}

/* The only way to open a file for reading.  Opening a pipe would wait for a writer, so anything
 * but a regular file is refused first; the check is repeated on the open file, because another may
 * have taken its place in between. */
static Status open_input(const char *path, bool stream, int *fd, struct stat *st) {
  const bool any = stream && is_handed_over(path);
  if (!any) try(file_check_input(path));
  *fd = file_open(path, O_RDONLY | O_CLOEXEC | (any ? 0 : O_NONBLOCK), 0);
  if (*fd < 0) return system_failed("open", path, errno);
  Status s = fstat(*fd, st) != 0 ? system_failed("open", path, errno)
             : any               ? GRPO_OK
                                 : refuse_odd("read", path, st->st_mode);
  if (s == GRPO_OK) s = refuse_pointer(path, *fd, st);
  if (s != GRPO_OK) close(*fd);
  return s;
}

struct FileInput {
  int fd;
  uint64_t size;
  char *path;
};

Status file_input_open(FileInput **out, const char *path) {
  struct stat st;
  FileInput *f = mem_alloc(sizeof *f);
  *out = NULL;
  if (!f) return fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  *f = (FileInput){.fd = -1, .path = mem_strdup(path)};
  Status s = f->path ? open_input(path, false, &f->fd, &st)
                     : fail(GRPO_ENOMEM, "%s: no memory to open it", path);
  if (s != GRPO_OK) {
    f->fd = -1;
    file_input_close(f);
    return s;
  }
  f->size = (uint64_t)st.st_size;
  *out = f;
  return GRPO_OK;
}

void file_input_close(FileInput *f) {
  if (!f) return;
  if (f->fd >= 0) close(f->fd);
  mem_free(f->path);
  mem_free(f);
}

uint64_t file_input_size(const FileInput *f) { return f->size; }

Status file_input_read(const FileInput *f, uint64_t at, size_t n, void *out) {
  for (size_t got = 0; got < n;) {
    const size_t most = n - got < (1u << 30) ? n - got : 1u << 30;
    const ssize_t k = pread(f->fd, (char *)out + got, most, (off_t)(at + got));
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) return system_failed("read", f->path, errno);
    if (k == 0)
      return fail(GRPO_EFORMAT,
                  "%s: the file was cut to %llu bytes or less while it was read; it had %llu",
                  f->path, (unsigned long long)(at + got), (unsigned long long)f->size);
    got += (size_t)k;
    progress_note();
  }
  return GRPO_OK;
}

Status file_checksum(const char *path, uint64_t *size, uint32_t *crc) {
  char piece[1 << 16];
  FileInput *f;
  try(file_input_open(&f, path));
  Status s = GRPO_OK;
  *size = f->size;
  *crc = 0;
  for (uint64_t at = 0; at < f->size && s == GRPO_OK; at += sizeof piece) {
    const size_t n = f->size - at < sizeof piece ? (size_t)(f->size - at) : sizeof piece;
    s = file_input_read(f, at, n, piece);
    if (s == GRPO_OK) *crc = crc32c(*crc, piece, n);
  }
  file_input_close(f);
  return s;
}

static Status read_all(int fd, const char *path, size_t max_bytes, Buf *out) {
  char piece[16384];
  const size_t before = out->len;
  for (;;) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failed("read", path, errno);
    if (n == 0) return buf_status(out) ? err_context(GRPO_ENOMEM, "%s", path) : GRPO_OK;
    if (max_bytes && out->len - before + (size_t)n > max_bytes)
      return fail(GRPO_ELIMIT, "%s: longer than the limit of %zu bytes", path, max_bytes);
    buf_put(out, piece, (size_t)n);
    if (out->oom) return fail(GRPO_ENOMEM, "%s: no memory for its contents", path);
  }
}

Status file_read(const char *path, size_t max_bytes, Buf *out) {
  struct stat st;
  int fd;
  try(open_input(path, true, &fd, &st));
  const Status s = read_all(fd, path, max_bytes, out);
  close(fd);
  return s;
}

/* ---- questions about paths -------------------------------------------------------- */

Status file_join(char *path, const char *dir, const char *name) {
  if (snprintf(path, FILE_PATH_BYTES, "%s/%s", dir, name) >= FILE_PATH_BYTES)
    return fail(GRPO_EARG, "path too long: %s/%s", dir, name);
  return GRPO_OK;
}

bool file_exists(const char *path) { return access(path, F_OK) == 0; }

bool file_is_dir(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int64_t file_size(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

int64_t file_mtime_ns(const char *path) {
  struct stat st;
  if (stat(path, &st) != 0) return -1;
  return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* Appends the `count` names in `names` to `out`, sorted. */
static Status put_sorted(const Buf *names, size_t count, Buf *out) {
  if (!count) return GRPO_OK;
  const char **list = mem_alloc(count * sizeof *list);
  if (!list) return fail(GRPO_ENOMEM, "a list of %zu names", count);
  const char *name = names->data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) list[i] = name;
  qsort(list, count, sizeof *list, by_name);
  for (size_t i = 0; i < count; i++) buf_put(out, list[i], strlen(list[i]) + 1);
  mem_free(list);
  return buf_status(out);
}

static bool is_dots(const char *name) { return !strcmp(name, ".") || !strcmp(name, ".."); }

Status file_list(const char *path, Buf *out, size_t *count) {
  Buf names = {0};
  *count = 0;
  DIR *dir = opendir(path);
  if (!dir) return system_failed("list", path, errno);
  size_t n = 0;
  const struct dirent *entry;
  while (errno = 0, (entry = readdir(dir))) {
    if (is_dots(entry->d_name)) continue;
    buf_put(&names, entry->d_name, strlen(entry->d_name) + 1);
    n++;
  }
  Status s = errno ? system_failed("list", path, errno) : buf_status(&names);
  closedir(dir);
  if (s == GRPO_OK) s = put_sorted(&names, n, out);
  buf_free(&names);
  if (s == GRPO_OK) *count = n;
  return s;
}

/* ---- directories and names ------------------------------------------------------ */

static Status make_dir(const char *path) {
  if (mkdir(path, 0777) == 0) return GRPO_OK;
  const int why = errno;
  struct stat st;
  if (why != EEXIST || stat(path, &st) != 0) return system_failed("make the directory", path, why);
  if (S_ISDIR(st.st_mode)) return GRPO_OK;
  return fail(GRPO_EIO, "cannot make the directory %s: there is a file of this name", path);
}

Status file_mkdirs(const char *path) {
  char *copy = mem_strdup(path);
  if (!copy) return fail(GRPO_ENOMEM, "%s: no memory for the path", path);
  Status s = GRPO_OK;
  for (char *p = copy + 1; *copy && *p && s == GRPO_OK; p++) {
    if (*p != '/') continue;
    *p = 0;
    if (!file_is_dir(copy)) s = make_dir(copy);
    *p = '/';
  }
  if (s == GRPO_OK) s = make_dir(path);
  mem_free(copy);
  return s;
}

static int remove_at(int parent, const char *name);

/* Empties a directory in several passes, because reading while removing may skip names. */
static int empty_dir(DIR *dir) {
  for (bool again = true; again;) {
    const struct dirent *entry;
    again = false;
    rewinddir(dir);
    while (errno = 0, (entry = readdir(dir))) {
      if (is_dots(entry->d_name)) continue;
      if (remove_at(dirfd(dir), entry->d_name) != 0) return -1;
      again = true;
    }
    if (errno) return -1;
  }
  return 0;
}

/* Returns 0, or -1 with errno.  Every directory is opened without following a link. */
static int remove_at(int parent, const char *name) {
  if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR && errno != EPERM) return -1;
  const int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -1;
  DIR *dir = fdopendir(fd);
  if (!dir) {
    close_quietly(fd);
    return -1;
  }
  const int rc = empty_dir(dir), error = errno;
  closedir(dir);
  errno = error;
  return rc == 0 ? unlinkat(parent, name, AT_REMOVEDIR) : -1;
}

Status file_remove_tree(const char *path) {
  return remove_at(AT_FDCWD, path) == 0 ? GRPO_OK : system_failed("remove", path, errno);
}

/* The directory part of a path, as a string to mem_free(); "." when there is none. */
static char *dir_of(const char *path) {
  const char *slash = strrchr(path, '/');
  if (!slash) return mem_strdup(".");
  return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

Status file_sync_dir(const char *path) {
  const int fd = file_open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (fd < 0) return system_failed("open", path, errno);
  /* EINVAL: the file system cannot sync directories */
  const int error = file_sync(fd) != 0 && errno != EINVAL ? errno : 0;
  close(fd);
  return error ? system_failed("sync", path, error) : GRPO_OK;
}

static Status sync_dir_of(const char *path) {
  char *dir = dir_of(path);
  if (!dir) return fail(GRPO_ENOMEM, "%s: no memory for the path", path);
  const Status s = file_sync_dir(dir);
  mem_free(dir);
  return s;
}

Status file_rename(const char *from, const char *to) {
  if (rename(from, to) != 0) return system_failed("rename to", to, errno);
  return sync_dir_of(to);
}

/* An unused name beside `path`: .NAME.PID-N.tmp, to mem_free(). */
static char *temporary_name(const char *path) {
  static atomic_uint counter;
  Buf b = {0};
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  buf_put(&b, path, (size_t)(name - path));
  buf_printf(&b, ".%.150s.%ld-%u.tmp", name, (long)getpid(), atomic_fetch_add(&counter, 1));
  if (b.oom) buf_free(&b);
  return b.data;
}

/* Is this what temporary_name() makes, for the file `of` or for any (NULL)? */
static bool is_temporary(const char *name, const char *of) {
  char start[160];
  const int n = snprintf(start, sizeof start, ".%.150s.", of ? of : "");
  const char *end = name + strlen(name);
  if (name[0] != '.' || (of && strncmp(name, start, (size_t)n) != 0)) return false;
  if (of) name += n;
  /* PID-N.tmp, read from the end */
  if (end - name < 4 || strcmp(end -= 4, ".tmp") != 0) return false;
  const char *p = end;
  while (p > name && p[-1] >= '0' && p[-1] <= '9') p--;
  if (p == end || p == name || *--p != '-') return false;
  const char *dash = p;
  while (p > name && p[-1] >= '0' && p[-1] <= '9') p--;
  return p < dash && (of ? p == name : p > name + 1 && p[-1] == '.');
}

Status file_remove_temporaries(const char *dir, const char *name) {
  Buf names = {0};
  size_t count;
  Status s = file_list(dir, &names, &count);
  const char *entry = names.data;
  for (size_t i = 0; i < count && s == GRPO_OK; i++, entry += strlen(entry) + 1) {
    char path[FILE_PATH_BYTES];
    if (!is_temporary(entry, name)) continue;
    s = file_join(path, dir, entry);
    if (s == GRPO_OK && unlink(path) != 0 && errno != ENOENT)
      s = system_failed("remove", path, errno);
  }
  buf_free(&names);
  return s;
}

/* A dead process with our number may have left a file of the same name. */
enum { ATTEMPTS = 100 };

Status file_link_replace(const char *target, const char *path) {
  char *name = NULL;
  int rc = -1;
  errno = EEXIST;
  for (int i = 0; i < ATTEMPTS && rc != 0 && errno == EEXIST; i++) {
    mem_free(name);
    name = temporary_name(path);
    if (!name) return fail(GRPO_ENOMEM, "%s: no memory for the path", path);
    rc = symlink(target, name);
  }
  const bool none = rc != 0 && (errno == EPERM || errno == ENOSYS || errno == EOPNOTSUPP);
  Status s = rc == 0 ? file_rename(name, path)
             : none  ? fail(GRPO_EARG, "cannot make the link %s: its file system has none", path)
                     : system_failed("make the link", path, errno);
  if (rc == 0 && s != GRPO_OK) unlink(name);
  mem_free(name);
  return s;
}

/* ---- writing --------------------------------------------------------------------- */

enum { PENDING = 1 << 16 };

struct FileWriter {
  char *path, *temporary;
  int fd;
  bool failed;    /* bytes are missing, so it must not be committed */
  size_t pending; /* bytes in `bytes` not yet written */
  char bytes[PENDING];
};

static void writer_free(FileWriter *w) {
  if (w->fd >= 0) close(w->fd);
  mem_free(w->path);
  mem_free(w->temporary);
  mem_free(w);
}

/* A new file beside the path, with the permissions of the one it replaces. */
static Status open_temporary(FileWriter *w) {
  struct stat st;
  for (int i = 0; i < ATTEMPTS; i++) {
    mem_free(w->temporary);
    w->temporary = temporary_name(w->path);
    if (!w->temporary) return fail(GRPO_ENOMEM, "%s: no memory for the path", w->path);
    w->fd = file_open(w->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd >= 0 || errno != EEXIST) break;
  }
  if (w->fd < 0) return system_failed("write", w->path, errno);
  if (stat(w->path, &st) == 0 && S_ISREG(st.st_mode) && fchmod(w->fd, st.st_mode & 0777) != 0)
    errno = 0; /* the permissions are a convenience */
  return GRPO_OK;
}

Status file_writer_open(FileWriter **out, const char *path) {
  *out = NULL;
  struct stat st;
  const char *kind = stat(path, &st) == 0 ? odd_kind(st.st_mode) : NULL;
  if (kind) return fail(GRPO_EIO, "cannot write %s: it is %s", path, kind);
  FileWriter *w = mem_alloc(sizeof *w);
  if (!w) return fail(GRPO_ENOMEM, "%s: no memory for writing", path);
  w->path = mem_strdup(path);
  w->temporary = NULL;
  w->fd = -1;
  w->pending = 0;
  w->failed = false;
  const Status s = w->path ? open_temporary(w) : fail(GRPO_ENOMEM, "%s: no memory", path);
  if (s == GRPO_OK)
    *out = w;
  else
    writer_free(w);
  return s;
}

static Status write_all(FileWriter *w, const char *p, size_t n) {
  while (n) {
    const ssize_t k = write(w->fd, p, n < (1u << 30) ? n : 1u << 30);
    if (k < 0 && errno == EINTR) continue;
    if (k < 0) {
      w->failed = true;
      return system_failed("write", w->path, errno);
    }
    p += k, n -= (size_t)k;
    progress_note();
  }
  return GRPO_OK;
}

static Status flush(FileWriter *w) {
  const size_t n = w->pending;
  w->pending = 0;
  return write_all(w, w->bytes, n);
}

Status file_writer_put(FileWriter *w, const void *data, size_t n) {
  if (n > PENDING - w->pending) try(flush(w));
  if (n > PENDING) return write_all(w, data, n);
  if (n) memcpy(w->bytes + w->pending, data, n);
  w->pending += n;
  return GRPO_OK;
}

static Status close_durably(FileWriter *w) {
  if (w->failed) return fail(GRPO_EIO, "cannot write %s: an earlier write failed", w->path);
  try(flush(w));
  if (file_sync(w->fd) != 0) return system_failed("sync", w->path, errno);
  const int fd = w->fd;
  w->fd = -1;
  return close(fd) == 0 ? GRPO_OK : system_failed("close", w->path, errno);
}

Status file_writer_commit(FileWriter *w) {
  Status s = close_durably(w);
  bool renamed = false;
  if (s == GRPO_OK) {
    renamed = rename(w->temporary, w->path) == 0;
    s = renamed ? sync_dir_of(w->path) : system_failed("write", w->path, errno);
  }
  if (!renamed) unlink(w->temporary);
  writer_free(w);
  return s;
}

void file_writer_abort(FileWriter *w) {
  if (!w) return;
  unlink(w->temporary);
  writer_free(w);
}

Status file_replace(const char *path, const void *data, size_t n) {
  FileWriter *w;
  try(file_writer_open(&w, path));
  const Status s = file_writer_put(w, data, n);
  if (s == GRPO_OK) return file_writer_commit(w);
  file_writer_abort(w);
  return s;
}
