/* file.h - files and directories.
 *
 * Errors name the path and the system's reason.  A file is never half written: its replacement is
 * completed under a temporary name in the same directory, synced, and then renamed.
 */
#ifndef GRPO_OS_FILE_H
#define GRPO_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Only regular files are read: a directory, a named pipe (whose opening might never end), a socket
 * or a device is ENOENT, like a missing file.  file_read() alone also takes pipes, if they are
 * descriptors that the program was started with: /dev/stdin, /dev/fd/N. */
Status file_check_input(const char *path);
/* Fails unless the path is a regular file or does not exist: for files that are appended to. */
Status file_check_output(const char *path);
/* A file that is read in pieces, by several threads if need be.  No file is mapped: one that is cut
 * while it is read is an error, where a mapping would end the process (SIGBUS). */
typedef struct FileInput FileInput;
Status file_input_open(FileInput **out, const char *path);
void file_input_close(FileInput *f);          /* NULL is fine */
uint64_t file_input_size(const FileInput *f); /* when it was opened */
/* Reads bytes at .. at + n - 1.  EFORMAT: the file is shorter by now. */
Status file_input_read(const FileInput *f, uint64_t at, size_t n, void *out);
/* The length and CRC-32C of a file. */
Status file_checksum(const char *path, uint64_t *size, uint32_t *crc);
/* Appends the contents; ELIMIT past max_bytes (0: no limit). */
Status file_read(const char *path, size_t max_bytes, Buf *out);
Status file_replace(const char *path, const void *data, size_t n); /* atomic, durable */
enum { FILE_PATH_BYTES = 4096 };
/* path = dir/name; EARG when it is too long. */
Status file_join(char *path /* [FILE_PATH_BYTES] */, const char *dir, const char *name);
bool file_exists(const char *path);
bool file_is_dir(const char *path);
Status file_mkdirs(const char *path);      /* like mkdir -p */
Status file_remove_tree(const char *path); /* like rm -rf; symbolic links are not followed */
Status file_sync_dir(const char *path);    /* makes renames inside it durable */
/* open() and fsync() that a signal does not end. */
int file_open(const char *path, int flags, unsigned mode);
int file_sync(int fd);
/* Replaces the symbolic link `path` by a rename. */
Status file_link_replace(const char *target, const char *path);
Status file_rename(const char *from, const char *to); /* and syncs the directory of `to` */
int64_t file_size(const char *path);                  /* -1: none */
int64_t file_mtime_ns(const char *path);              /* -1: none */
/* Appends the names in a directory to `out`, sorted, each ended by NUL, without . and .. */
Status file_list(const char *path, Buf *out, size_t *count);

/* Writes a file in pieces under a temporary name; the commit makes it durable and renames it. */
typedef struct FileWriter FileWriter;
Status file_writer_open(FileWriter **out, const char *path);
Status file_writer_put(FileWriter *w, const void *data, size_t n);
Status file_writer_commit(FileWriter *w); /* frees w, also on failure */
void file_writer_abort(FileWriter *w);    /* removes the temporary; NULL is fine */

/* Removes the temporaries that dead processes left in a directory: those of the file or link
 * `name`, or with NULL all.  The caller knows that nobody is writing there. */
Status file_remove_temporaries(const char *dir, const char *name);

#endif
