/* hub_server.c - a server for tests that speaks the Hub's protocol, with faults on demand.
 *
 *   hub_server ROOT
 *
 * It listens at 127.0.0.1, and at 127.0.0.2 as the host that large files are redirected to, writes
 * both addresses into ROOT/addresses, a line each, and ends when its standard input does.
 *
 *   ROOT/models/ORG/REPO/refs/main    a commit; other revisions likewise
 *   ROOT/models/ORG/REPO/COMMIT/...   its files; below ROOT/datasets for datasets
 *   ROOT/models/ORG/REPO/tree         if it is there, the answer to every question for the list
 *   ROOT/models/ORG/REPO/private      if it is there, the token of ROOT/token is needed
 *   ROOT/page                         files on a page of a list
 *   ROOT/faults                       one a line: KIND COUNT ARGUMENT PART-OF-THE-ADDRESS; the next
 *                                     COUNT requests for such an address fail in that way
 *   ROOT/log                          one a line: HOST ADDRESS STATUS TOKEN|- RANGE|-
 *
 * A POST to /score is the question to a judge, { "prompt": ..., "answers": [...] }; its answer,
 * { "scores": [...] }, counts the digits of each.  A POST to /v1/chat/completions asks a judge in
 * OpenAI's form: it counts the digits d of the last message, and says "d digits", or, where
 * logprobs are asked for, "yes" with the probability (d + 1) / (d + 2), else "no".
 *
 * Faults: status (ARGUMENT is NNN or NNN:SECONDS for Retry-After; _ stands for a blank), cut (after
 * ARGUMENT bytes), flip (the byte at ARGUMENT), short (by ARGUMENT bytes), long, whole (no ranges),
 * shift (the range begins ARGUMENT bytes later), slow (ARGUMENT milliseconds each 64 kB), redirect
 * (to ARGUMENT), tag (another ETag), commit (another X-Repo-Commit).  A judge in OpenAI's form has
 * status, cut, slow (ARGUMENT milliseconds each byte), hang (ARGUMENT milliseconds before it
 * answers), garbage (no JSON), empty (JSON without an answer), huge (ARGUMENT bytes).
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/digest.h"
#include "formats/json.h"
#include "os/file.h"

enum { MAX_FAULTS = 64, REQUEST_MAX = 1 << 16, PIECE = 1 << 16 };

static const char *root;
static char hub_address[64], cdn_address[64];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- faults, which are read again when their file changes --------------------------------- */

typedef struct Fault {
  char kind[16], argument[256], part[128];
  int count;
} Fault;

static Fault faults[MAX_FAULTS];
static int fault_count;
static int64_t faults_read = -1;

static const char *in_root(char *path, const char *format, ...) {
  va_list ap;
  int n = snprintf(path, FILE_PATH_BYTES, "%s/", root);
  va_start(ap, format);
  vsnprintf(path + n, (size_t)(FILE_PATH_BYTES - n), format, ap);
  va_end(ap);
  return path;
}

static void read_faults(void) {
  char path[FILE_PATH_BYTES];
  const int64_t changed = file_mtime_ns(in_root(path, "faults"));
  if (changed == faults_read) return;
  faults_read = changed;
  fault_count = 0;
  FILE *f = fopen(path, "r");
  if (!f) return;
  for (Fault *x = faults; fault_count < MAX_FAULTS; x = faults + fault_count) {
    if (fscanf(f, "%15s %d %255s %127s", x->kind, &x->count, x->argument, x->part) != 4) break;
    fault_count++;
  }
  fclose(f);
}

/* The next fault of such an address, which is used up. */
static bool take_fault(const char *address, Fault *out) {
  bool found = false;
  pthread_mutex_lock(&lock);
  read_faults();
  for (int i = 0; i < fault_count && !found; i++) {
    if (faults[i].count <= 0 || !strstr(address, faults[i].part)) continue;
    faults[i].count--;
    *out = faults[i];
    found = true;
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- one request ---------------------------------------------------------------------- */

typedef struct Request {
  int fd;
  bool cdn;  /* at the host of large files */
  bool head; /* the method: headers alone are wanted */
  char address[2048], token[256];
  uint64_t from;
  bool ranged;
  Fault fault;
  char body[REQUEST_MAX]; /* of a POST */
} Request;

static void note(const Request *r, int status) {
  char path[FILE_PATH_BYTES];
  pthread_mutex_lock(&lock);
  FILE *f = fopen(in_root(path, "log"), "a");
  if (f) {
    fprintf(f, "%s %s %d %s ", r->cdn ? "cdn" : "hub", r->address, status,
            *r->token ? r->token : "-");
    if (r->ranged)
      fprintf(f, "%llu\n", (unsigned long long)r->from);
    else
      fprintf(f, "-\n");
    fclose(f);
  }
  pthread_mutex_unlock(&lock);
}

static bool send_all(int fd, const char *data, size_t n) {
  while (n) {
    const ssize_t k = send(fd, data, n, MSG_NOSIGNAL);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    data += k, n -= (size_t)k;
  }
  return true;
}

/* headers: whole lines. */
static void answer(const Request *r, int status, const char *headers, const char *body, size_t n) {
  Buf b = {0};
  buf_printf(&b, "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n", status, n,
             headers);
  if (!r->head) buf_put(&b, body, n);
  note(r, status);
  send_all(r->fd, b.data, b.len);
  buf_free(&b);
}

static void refuse(const Request *r, int status, const char *code) {
  char headers[256];
  snprintf(headers, sizeof headers, "X-Error-Code: %s\r\n", code);
  answer(r, status, headers, "{\"error\":\"no\"}", 14);
}

static bool is_fault(const Request *r, const char *kind) { return !strcmp(r->fault.kind, kind); }

/* ---- files and their sums ---------------------------------------------------------------- */

static bool is_large(const char *name) {
  static const char *const endings[] = {".safetensors", ".bin", ".gguf", ".parquet"};
  for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
    const size_t n = strlen(name), m = strlen(endings[i]);
    if (n > m && strcmp(name + n - m, endings[i]) == 0) return true;
  }
  return false;
}

static void sum_of(const Buf *data, DigestKind kind, bool git, char *hex) {
  Digest d;
  char head[64];
  digest_begin(&d, kind);
  if (git) digest_put(&d, head, (size_t)sprintf(head, "blob %zu", data->len) + 1);
  digest_put(&d, data->data, data->len);
  digest_end(&d, hex);
}

static void put_entry(Buf *out, const char *path, const char *name) {
  char sum[DIGEST_HEX_BYTES], pointer[DIGEST_HEX_BYTES];
  Buf data = {0}, text = {0};
  if (file_read(path, 0, &data) != GRPO_OK) return;
  if (out->len > 1) buf_putc(out, ',');
  buf_printf(out, "{\"type\":\"file\",\"path\":");
  json_put_string(out, name, strlen(name));
  if (is_large(name)) {
    sum_of(&data, DIGEST_SHA256, false, sum);
    buf_printf(&text, "version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %zu\n", sum,
               data.len);
    sum_of(&text, DIGEST_SHA1, true, pointer);
    buf_printf(out,
               ",\"size\":%zu,\"oid\":\"%s\",\"lfs\":{\"oid\":\"%s\",\"size\":%zu,"
               "\"pointerSize\":%zu}}",
               data.len, pointer, sum, data.len, text.len);
  } else {
    sum_of(&data, DIGEST_SHA1, true, sum);
    buf_printf(out, ",\"size\":%zu,\"oid\":\"%s\"}", data.len, sum);
  }
  buf_free(&data);
  buf_free(&text);
}

/* Lists the files below a directory whose numbers are from `first` to `last`. */
static void list_files(Buf *out, const char *dir, const char *prefix, size_t *number, size_t first,
                       size_t last) {
  Buf names = {0};
  size_t count = 0;
  if (file_list(dir, &names, &count) != GRPO_OK) return;
  const char *name = names.data;
  for (size_t i = 0; i < count; i++, name += strlen(name) + 1) {
    char path[FILE_PATH_BYTES], full[FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(full, sizeof full, "%s%s", prefix, name);
    if (file_is_dir(path)) {
      if (*number >= first && *number < last)
        buf_printf(out, "%s{\"type\":\"directory\",\"path\":\"%s\",\"size\":0,\"oid\":\"%040d\"}",
                   out->len > 1 ? "," : "", full, 0);
      strcat(full, "/");
      list_files(out, path, full, number, first, last);
    } else if ((*number)++ >= first && *number <= last) {
      put_entry(out, path, full);
    }
  }
  buf_free(&names);
}

static size_t number_in(const char *name, size_t otherwise) {
  char path[FILE_PATH_BYTES];
  Buf b = {0};
  const bool there = file_exists(in_root(path, "%s", name)) && file_read(path, 64, &b) == GRPO_OK;
  const size_t n = there && b.data ? strtoul(b.data, NULL, 10) : otherwise;
  buf_free(&b);
  return n;
}

static void answer_tree(const Request *r, const char *kind, const char *repo, const char *commit) {
  char path[FILE_PATH_BYTES], headers[4096] = "";
  Buf out = {0};
  const char *cursor = strstr(r->address, "cursor=");
  const size_t first = cursor ? strtoul(cursor + 7, NULL, 10) : 0, page = number_in("page", 1000);
  size_t number = 0;
  if (file_exists(in_root(path, "%s/%s/tree", kind, repo))) {
    if (file_read(path, 0, &out) == GRPO_OK) answer(r, 200, "", out.data, out.len);
    buf_free(&out);
    return;
  }
  buf_putc(&out, '[');
  list_files(&out, in_root(path, "%s/%s/%s", kind, repo, commit), "", &number, first, first + page);
  buf_putc(&out, ']');
  if (number > first + page)
    snprintf(headers, sizeof headers,
             "Link: <%s/api/%s/%s/tree/%s?recursive=true&cursor=%zu>; rel=\"next\"\r\n",
             hub_address, kind, repo, commit, first + page);
  answer(r, 200, headers, out.data, out.len);
  buf_free(&out);
}

/* ---- bytes ------------------------------------------------------------------------------ */

static void wait_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void send_file(const Request *r, Buf *data, const char *headers) {
  const long argument = strtol(r->fault.argument, NULL, 10);
  const bool ranged = r->ranged && !is_fault(r, "whole") && r->from < data->len;
  uint64_t from = ranged ? r->from : 0;
  Buf head = {0};
  if (r->ranged && !is_fault(r, "whole") && r->from >= data->len) {
    answer(r, 416, "", "", 0);
    return;
  }
  if (is_fault(r, "flip") && (size_t)argument < data->len) data->data[argument] ^= 1;
  if (is_fault(r, "short")) data->len -= (size_t)argument;
  if (is_fault(r, "long")) buf_puts(data, "and more");
  if (is_fault(r, "shift")) from += (uint64_t)argument;
  size_t n = data->len - from;
  buf_printf(&head, "HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: %zu\r\n%s",
             ranged ? 206 : 200, n, headers);
  if (ranged)
    buf_printf(&head, "Content-Range: bytes %llu-%zu/%zu\r\n", (unsigned long long)from,
               data->len - 1, data->len);
  buf_puts(&head, "\r\n");
  note(r, ranged ? 206 : 200);
  if (is_fault(r, "cut") && (size_t)argument < n) n = (size_t)argument;
  bool good = send_all(r->fd, head.data, head.len) && !r->head;
  for (size_t at = 0; good && at < n; at += PIECE) {
    good = send_all(r->fd, data->data + from + at, n - at < PIECE ? n - at : PIECE);
    if (is_fault(r, "slow")) wait_ms(argument);
  }
  buf_free(&head);
}

static void answer_file(const Request *r, const char *kind, const char *repo, const char *commit,
                        const char *name) {
  char path[FILE_PATH_BYTES], sum[DIGEST_HEX_BYTES], headers[4096];
  Buf data = {0};
  if (!file_exists(in_root(path, "%s/%s/%s/%s", kind, repo, commit, name)) ||
      file_read(path, 0, &data) != GRPO_OK) {
    refuse(r, 404, "EntryNotFound");
    return;
  }
  const bool large = is_large(name);
  sum_of(&data, large ? DIGEST_SHA256 : DIGEST_SHA1, !large, sum);
  if (is_fault(r, "tag")) sum[0] = sum[0] == '0' ? '1' : '0';
  const char *says = is_fault(r, "commit") ? "ffffffffffffffffffffffffffffffffffffffff" : commit;
  if (large) {
    snprintf(headers, sizeof headers,
             "X-Repo-Commit: %s\r\nX-Linked-ETag: \"%s\"\r\nX-Linked-Size: %zu\r\nETag: \"x\"\r\n"
             "Location: %s/%s/%s/%s/%s?signature=secret\r\n",
             says, sum, data.len, cdn_address, kind, repo, commit, name);
    answer(r, 302, headers, "moved", 5);
  } else {
    snprintf(headers, sizeof headers, "X-Repo-Commit: %s\r\nETag: \"%s\"\r\n", says, sum);
    send_file(r, &data, headers);
  }
  buf_free(&data);
}

static void answer_cdn(const Request *r, const char *place) {
  char path[FILE_PATH_BYTES];
  Buf data = {0};
  if (file_exists(in_root(path, "%s", place)) && file_read(path, 0, &data) == GRPO_OK)
    send_file(r, &data, "ETag: \"of-the-cdn\"\r\n");
  else
    answer(r, 404, "", "", 0);
  buf_free(&data);
}

/* ---- addresses --------------------------------------------------------------------------- */

/* Replaces %XX; the "?" and what follows is cut off. */
static void decode(char *out, const char *text, size_t size) {
  size_t n = 0;
  for (; *text && *text != '?' && n + 1 < size; text++) {
    unsigned byte;
    if (*text == '%' && sscanf(text + 1, "%2x", &byte) == 1)
      out[n++] = (char)byte, text += 2;
    else
      out[n++] = *text;
  }
  out[n] = 0;
}

static void read_text(char *out, size_t size, const char *path) {
  Buf b = {0};
  *out = 0;
  if (file_exists(path) && file_read(path, 4096, &b) == GRPO_OK && b.data)
    snprintf(out, size, "%.*s", (int)strcspn(b.data, "\n"), b.data);
  buf_free(&b);
}

static bool may_read(const Request *r, const char *kind, const char *repo) {
  char path[FILE_PATH_BYTES], token[256];
  if (!file_exists(in_root(path, "%s/%s/private", kind, repo))) return true;
  read_text(token, sizeof token, in_root(path, "token"));
  return *token && strcmp(token, r->token) == 0;
}

/* The two parts "ORG/REPO" of a path, which is cut after them; the rest, or NULL. */
static char *cut_repo(char *place) {
  char *slash = strchr(place, '/');
  slash = slash ? strchr(slash + 1, '/') : NULL;
  if (!slash) return NULL;
  *slash = 0;
  return slash + 1;
}

static void answer_api(const Request *r, const char *kind, char *place) {
  char path[FILE_PATH_BYTES], commit[64], body[256];
  char *rest = cut_repo(place);
  if (!rest || !file_is_dir(in_root(path, "%s/%s", kind, place))) {
    refuse(r, 404, "RepoNotFound");
  } else if (!may_read(r, kind, place)) {
    refuse(r, 401, "RepoNotFound");
  } else if (strncmp(rest, "revision/", 9) == 0) {
    read_text(commit, sizeof commit, in_root(path, "%s/%s/refs/%s", kind, place, rest + 9));
    if (!*commit && file_is_dir(in_root(path, "%s/%s/%s", kind, place, rest + 9)))
      snprintf(commit, sizeof commit, "%.40s", rest + 9);
    if (!*commit) {
      refuse(r, 404, "RevisionNotFound");
      return;
    }
    const int n = snprintf(body, sizeof body, "{\"id\":\"%.100s\",\"sha\":\"%s\"}", place, commit);
    answer(r, 200, "", body, (size_t)n);
  } else if (strncmp(rest, "tree/", 5) == 0) {
    answer_tree(r, kind, place, rest + 5);
  } else {
    answer(r, 404, "", "", 0);
  }
}

static void answer_resolve(const Request *r, const char *kind, char *place) {
  char *rest = cut_repo(place), *name = NULL;
  if (rest && strncmp(rest, "resolve/", 8) == 0) name = strchr(rest + 8, '/');
  if (!name) {
    answer(r, 404, "", "", 0);
    return;
  }
  *name = 0;
  if (!may_read(r, kind, place))
    refuse(r, 401, "RepoNotFound");
  else
    answer_file(r, kind, place, rest + 8, name + 1);
}

static void answer_fault(const Request *r) {
  char headers[512] = "";
  char argument[256];
  snprintf(argument, sizeof argument, "%s", r->fault.argument);
  char *after = strchr(argument, ':');
  if (is_fault(r, "redirect")) {
    snprintf(headers, sizeof headers, "Location: %s\r\n", argument);
    answer(r, 302, headers, "", 0);
    return;
  }
  for (char *c = after; c && *c; c++)
    if (*c == '_') *c = ' ';
  if (after) snprintf(headers, sizeof headers, "Retry-After: %s\r\n", after + 1);
  answer(r, atoi(argument), headers, "", 0);
}

static void answer_judge(const Request *r) {
  Json *question = NULL;
  Buf out = {0};
  if (json_parse(r->body, strlen(r->body), "question", &question) != GRPO_OK) {
    answer(r, 400, "", "", 0);
    return;
  }
  buf_puts(&out, "{\"scores\": [");
  for (const Json *j = json_child(json_get(question, "answers")); j; j = json_next(j)) {
    int digits = 0;
    for (const char *s = json_string(j); s && *s; s++) digits += isdigit((unsigned char)*s) != 0;
    buf_printf(&out, "%d%s", digits, json_next(j) ? ", " : "");
  }
  buf_puts(&out, "]}");
  json_free(question);
  answer(r, 200, "Content-Type: application/json\r\n", out.data, out.len);
  buf_free(&out);
}

/* Sends the answer of a judge, with the request's fault. */
static void send_reply(const Request *r, Buf *out) {
  const long argument = strtol(r->fault.argument, NULL, 10);
  Buf head = {0};
  if (is_fault(r, "hang")) wait_ms(argument);
  if (is_fault(r, "garbage") || is_fault(r, "huge")) buf_clear(out);
  if (is_fault(r, "garbage")) buf_puts(out, "well, let me think");
  while (is_fault(r, "huge") && out->len < (size_t)argument) buf_putc(out, 'x');
  buf_printf(&head, "HTTP/1.1 200 X\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n", out->len);
  note(r, 200);
  size_t n = out->len;
  if (is_fault(r, "cut") && (size_t)argument < n) n = (size_t)argument;
  bool good = send_all(r->fd, head.data, head.len);
  if (!is_fault(r, "slow")) send_all(r->fd, out->data, n), n = 0;
  for (size_t i = 0; good && i < n; i++) {
    good = send_all(r->fd, out->data + i, 1);
    wait_ms(argument);
  }
  buf_free(&head);
}

static void put_top(Buf *out, int digits) {
  const double yes = log((digits + 1.0) / (digits + 2.0)), no = log(1.0 / (digits + 2.0));
  buf_printf(out,
             "\"logprobs\":{\"content\":[{\"token\":\"yes\",\"logprob\":%.17g,"
             "\"top_logprobs\":[{\"token\":\" yes\",\"logprob\":%.17g},"
             "{\"token\":\"no\",\"logprob\":%.17g},{\"token\":\"maybe\",\"logprob\":-9.5}]}]},",
             yes, yes, no);
}

/* POST /v1/chat/completions */
static void answer_chat(const Request *r) {
  Json *question = NULL;
  Buf out = {0};
  if (json_parse(r->body, strlen(r->body), "question", &question) != GRPO_OK) {
    answer(r, 400, "", "", 0);
    return;
  }
  int digits = 0;
  const Json *last = json_child(json_get(question, "messages"));
  while (last && json_next(last)) last = json_next(last);
  const char *text = last ? json_string(json_get(last, "content")) : NULL;
  for (; text && *text; text++) digits += isdigit((unsigned char)*text) != 0;
  const bool weighed = json_get(question, "logprobs") != NULL;
  buf_puts(&out, "{\"choices\":[{");
  if (is_fault(r, "empty"))
    buf_puts(&out, "\"message\":{\"content\":null}}]}");
  else if (weighed)
    put_top(&out, digits), buf_puts(&out, "\"message\":{\"content\":\"yes\"}}]}");
  else
    buf_printf(&out, "\"message\":{\"content\":\"%d digits\"}}]}", digits);
  json_free(question);
  send_reply(r, &out);
  buf_free(&out);
}

static void respond(Request *r) {
  char place[2048];
  if (take_fault(r->address, &r->fault) && (is_fault(r, "status") || is_fault(r, "redirect"))) {
    answer_fault(r);
    return;
  }
  decode(place, r->address + 1, sizeof place);
  if (strstr(place, ".."))
    answer(r, 400, "", "", 0);
  else if (*r->body && strcmp(place, "v1/chat/completions") == 0)
    answer_chat(r);
  else if (*r->body)
    answer_judge(r);
  else if (r->cdn)
    answer_cdn(r, place);
  else if (strncmp(place, "api/models/", 11) == 0)
    answer_api(r, "models", place + 11);
  else if (strncmp(place, "api/datasets/", 13) == 0)
    answer_api(r, "datasets", place + 13);
  else if (strncmp(place, "datasets/", 9) == 0)
    answer_resolve(r, "datasets", place + 9);
  else
    answer_resolve(r, "models", place);
}

/* Reads what follows the headers, of which `text` holds n bytes; false if it is too long. */
static bool read_body(Request *r, const char *text, size_t n) {
  const char *length = strcasestr(text, "\nContent-Length:"), *end = strstr(text, "\r\n\r\n") + 4;
  const size_t want = length ? strtoul(length + 16, NULL, 10) : 0;
  size_t have = n - (size_t)(end - text);
  if (want >= sizeof r->body || have > want) return false;
  memcpy(r->body, end, have);
  while (have < want) {
    const ssize_t k = recv(r->fd, r->body + have, want - have, 0);
    if (k <= 0) return false;
    have += (size_t)k;
  }
  return want > 0;
}

/* Reads the request; false if it is not one. */
static bool read_request(Request *r) {
  static const char get[] = "GET ",
                    range[] = "\nRange: bytes=", token[] = "\nAuthorization: Bearer ";
  char text[REQUEST_MAX];
  size_t n = 0;
  text[0] = 0;
  while (n + 1 < sizeof text && !strstr(text, "\r\n\r\n")) {
    const ssize_t k = recv(r->fd, text + n, sizeof text - 1 - n, 0);
    if (k <= 0) return false;
    n += (size_t)k;
    text[n] = 0;
  }
  r->head = strncmp(text, "HEAD ", 5) == 0;
  const bool post = strncmp(text, "POST ", 5) == 0;
  if (strncmp(text, get, sizeof get - 1) != 0 && !r->head && !post) return false;
  if (post && !read_body(r, text, n)) return false;
  const char *address = strchr(text, ' ') + 1;
  snprintf(r->address, sizeof r->address, "%.*s", (int)strcspn(address, " "), address);
  const char *at = strcasestr(text, range);
  if (at) r->ranged = true, r->from = strtoull(at + sizeof range - 1, NULL, 10);
  at = strcasestr(text, token);
  if (at) {
    at += sizeof token - 1;
    snprintf(r->token, sizeof r->token, "%.*s", (int)strcspn(at, "\r\n"), at);
  }
  return true;
}

static void *serve(void *user) {
  Request *r = user;
  if (read_request(r)) respond(r);
  shutdown(r->fd, SHUT_WR);
  close(r->fd);
  free(r);
  return NULL;
}

/* ---- listening ------------------------------------------------------------------------- */

static int listen_at(const char *host, char *address) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t n = sizeof at;
  inet_pton(AF_INET, host, &at.sin_addr);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&at, n) != 0 || listen(fd, 64) != 0 ||
      getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
    perror(host);
    exit(1);
  }
  sprintf(address, "http://%s:%d", host, ntohs(at.sin_port));
  return fd;
}

static void accept_at(int fd, bool cdn) {
  pthread_t thread;
  Request *r = calloc(1, sizeof *r);
  if (!r) exit(1);
  r->fd = accept(fd, NULL, NULL);
  r->cdn = cdn;
  if (r->fd < 0 || pthread_create(&thread, NULL, serve, r) != 0)
    free(r);
  else
    pthread_detach(thread);
}

int main(int argc, char **argv) {
  char path[FILE_PATH_BYTES], text[160];
  if (argc != 2) return 2;
  root = argv[1];
  signal(SIGPIPE, SIG_IGN);
  struct pollfd fds[3] = {{.fd = 0, .events = POLLIN}, {.events = POLLIN}, {.events = POLLIN}};
  fds[1].fd = listen_at("127.0.0.1", hub_address);
  fds[2].fd = listen_at("127.0.0.2", cdn_address);
  const int n = snprintf(text, sizeof text, "%s\n%s\n", hub_address, cdn_address);
  if (file_replace(in_root(path, "addresses"), text, (size_t)n) != GRPO_OK) return 1;
  for (;;) {
    if (poll(fds, 3, -1) < 0 && errno != EINTR) return 1;
    if (fds[0].revents) return 0;
    if (fds[1].revents) accept_at(fds[1].fd, false);
    if (fds[2].revents) accept_at(fds[2].fd, true);
  }
}
