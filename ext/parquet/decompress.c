#include "parquet/decompress.h"

#include <string.h>

#include "base/mem.h"
#include "os/library.h"
#include "parquet/snappy.h"

/* ---- what both libraries share ---------------------------------------------------------- */

enum { PIECE = 256 * 1024 };

static Status damaged(const char *what, const char *format) {
  return fail(GRPO_EFORMAT, "%s: the %s data is damaged; fetch or write the file again", what,
              format);
}

#if defined(GRPO_HAVE_ZLIB) || defined(GRPO_HAVE_ZSTD)
/* Appends a piece of a file of n bytes, if it may become that long. */
static Status put_piece(Buf *out, const void *piece, size_t got, size_t n, const char *what) {
  const uint64_t total = (uint64_t)out->len + got;
  if (total > DECOMPRESS_MAX || (total > DECOMPRESS_FREE && total / DECOMPRESS_RATIO > n))
    return fail(GRPO_ELIMIT,
                "%s: its %zu bytes decompress to more than %llu; if they are not a decompression "
                "bomb, decompress the file yourself",
                what, n, (unsigned long long)total);
  buf_put(out, piece, got);
  return out->oom ? fail(GRPO_ENOMEM, "%s: no memory to decompress it", what) : GRPO_OK;
}

static Status cut_short(const char *what, const char *format) {
  return fail(GRPO_EFORMAT, "%s: the %s data is cut short; fetch or write the file again", what,
              format);
}
#endif

/* ---- gzip ------------------------------------------------------------ */

#ifdef GRPO_HAVE_ZLIB
#include <zlib.h>

static struct {
  int (*init)(z_streamp, int, const char *, int);
  int (*run)(z_streamp, int);
  int (*reset)(z_streamp);
  int (*end)(z_streamp);
} z;

static const LibrarySymbol z_symbols[] = {{"inflateInit2_", &z.init},
                                          {"inflate", &z.run},
                                          {"inflateReset", &z.reset},
                                          {"inflateEnd", &z.end}};
static Library zlib = {.package = "zlib",
                       .sonames = {"libz.so.1"},
                       .symbols = z_symbols,
                       .count = sizeof z_symbols / sizeof z_symbols[0]};

static bool zlib_there(void) { return library_available(&zlib); }

/* 15 bits of window; 32: gzip or zlib, as the header says. */
static Status z_open(z_stream *s, const char *what) {
  *s = (z_stream){0};
  const Status status = library_need(&zlib, "gzip is not read");
  if (status) return err_context(status, "%s", what);
  if (z.init(s, 15 + 32, ZLIB_VERSION, (int)sizeof *s) != Z_OK)
    return fail(GRPO_ENOMEM, "%s: no memory to decompress it", what);
  return GRPO_OK;
}

static bool all_zero(const uint8_t *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i]) return false;
  return true;
}

/* Reads the next bytes of a file; *done after its last member.  Zeros may pad its end. */
static Status z_next(z_stream *s, const uint8_t *data, size_t n, bool *done, const char *what) {
  const size_t at = (size_t)(s->next_in - data), left = n - at;
  s->avail_in = left > 1u << 30 ? 1u << 30 : (uInt)left;
  const int rc = z.run(s, Z_NO_FLUSH);
  if (rc == Z_MEM_ERROR) return fail(GRPO_ENOMEM, "%s: no memory to decompress it", what);
  if (rc == Z_BUF_ERROR) return cut_short(what, "gzip");
  if (rc != Z_OK && rc != Z_STREAM_END) return damaged(what, "gzip");
  if (rc == Z_OK) return GRPO_OK;
  const size_t used = (size_t)(s->next_in - data);
  *done = all_zero(data + used, n - used);
  return z.reset(s) == Z_OK ? GRPO_OK : damaged(what, "gzip");
}

static Status z_all(z_stream *s, const uint8_t *data, size_t n, const char *what, uint8_t *piece,
                    Buf *out) {
  s->next_in = (Bytef *)data;
  for (bool done = false; !done;) {
    s->next_out = piece;
    s->avail_out = PIECE;
    try(z_next(s, data, n, &done, what));
    try(put_piece(out, piece, PIECE - s->avail_out, n, what));
  }
  return GRPO_OK;
}

static Status z_file(const void *data, size_t n, const char *what, uint8_t *piece, Buf *out) {
  z_stream s;
  try(z_open(&s, what));
  const Status status = z_all(&s, data, n, what, piece, out);
  z.end(&s);
  return status;
}

static Status z_block(const void *in, size_t n, void *out, size_t out_n, const char *what) {
  z_stream s;
  if (n > 1u << 30 || out_n > 1u << 30) return damaged(what, "gzip");
  try(z_open(&s, what));
  s.next_in = (Bytef *)in;
  s.avail_in = (uInt)n;
  s.next_out = out;
  s.avail_out = (uInt)out_n;
  int rc;
  while ((rc = z.run(&s, Z_FINISH)) == Z_STREAM_END && s.avail_in && s.avail_out) z.reset(&s);
  z.end(&s);
  return rc == Z_STREAM_END && !s.avail_out ? GRPO_OK : damaged(what, "gzip");
}
#else
static bool zlib_there(void) { return false; }

static Status without_zlib(const char *what) {
  return fail(GRPO_EARG,
              "%s: this program was built without zlib, so it reads no gzip; install zlib1g-dev "
              "and build it again",
              what);
}

static Status z_file(const void *data, size_t n, const char *what, uint8_t *piece, Buf *out) {
  (void)data, (void)n, (void)piece, (void)out;
  return without_zlib(what);
}

static Status z_block(const void *in, size_t n, void *out, size_t out_n, const char *what) {
  (void)in, (void)n, (void)out, (void)out_n;
  return without_zlib(what);
}
#endif

/* ---- zstd ------------------------------------------------------------ */

#ifdef GRPO_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

static struct {
  ZSTD_DStream *(*create)(void);
  size_t (*free)(ZSTD_DStream *);
  size_t (*run)(ZSTD_DStream *, ZSTD_outBuffer *, ZSTD_inBuffer *);
  size_t (*block)(void *, size_t, const void *, size_t);
  unsigned (*is_error)(size_t);
  ZSTD_ErrorCode (*error)(size_t);
  size_t (*set)(ZSTD_DCtx *, ZSTD_dParameter, int);
} zstd;

static const LibrarySymbol zstd_symbols[] = {
    {"ZSTD_createDStream", &zstd.create}, {"ZSTD_freeDStream", &zstd.free},
    {"ZSTD_decompressStream", &zstd.run}, {"ZSTD_decompress", &zstd.block},
    {"ZSTD_isError", &zstd.is_error},     {"ZSTD_getErrorCode", &zstd.error},
    {"ZSTD_DCtx_setParameter", &zstd.set}};
static Library libzstd = {.package = "libzstd",
                          .sonames = {"libzstd.so.1"},
                          .symbols = zstd_symbols,
                          .count = sizeof zstd_symbols / sizeof zstd_symbols[0]};

static bool zstd_there(void) { return library_available(&libzstd); }

static Status zstd_need(const char *what) {
  const Status status = library_need(&libzstd, "zstd is not read");
  return status ? err_context(status, "%s", what) : GRPO_OK;
}

enum { ZSTD_LARGEST_WINDOW = 31 }; /* its logarithm: 2 GB, the most that zstd writes */

static Status zstd_problem(size_t code, const char *what) {
  switch (zstd.error(code)) {
  case ZSTD_error_frameParameter_windowTooLarge:
    return fail(GRPO_ELIMIT,
                "%s: its zstd window is larger than 2 GB, which is not read; compress it again "
                "with a smaller one (zstd --long=27)",
                what);
  case ZSTD_error_memory_allocation:
    return fail(GRPO_ENOMEM,
                "%s: no memory for the window of its zstd data; compress it again with a smaller "
                "one (zstd --long=27)",
                what);
  case ZSTD_error_dictionary_wrong:
    return fail(GRPO_EFORMAT,
                "%s: its zstd data need a dictionary, which is not read; decompress it with zstd "
                "-d -D DICTIONARY",
                what);
  default:
    return damaged(what, "zstd");
  }
}

/* A frame is complete when its last call returned 0. */
static Status zstd_all(ZSTD_DStream *s, const void *data, size_t n, const char *what,
                       uint8_t *piece, Buf *out) {
  ZSTD_inBuffer in = {data, n, 0};
  size_t left = 1, got = PIECE;
  while (in.pos < n || (left && got == PIECE)) {
    ZSTD_outBuffer o = {piece, PIECE, 0};
    left = zstd.run(s, &o, &in);
    if (zstd.is_error(left)) return zstd_problem(left, what);
    got = o.pos;
    try(put_piece(out, piece, got, n, what));
  }
  return left ? cut_short(what, "zstd") : GRPO_OK;
}

static Status zstd_file(const void *data, size_t n, const char *what, uint8_t *piece, Buf *out) {
  try(zstd_need(what));
  ZSTD_DStream *s = zstd.create();
  if (!s) return fail(GRPO_ENOMEM, "%s: no memory to decompress it", what);
  zstd.set(s, ZSTD_d_windowLogMax, ZSTD_LARGEST_WINDOW);
  const Status status = zstd_all(s, data, n, what, piece, out);
  zstd.free(s);
  return status;
}

static Status zstd_block(const void *in, size_t n, void *out, size_t out_n, const char *what) {
  try(zstd_need(what));
  return zstd.block(out, out_n, in, n) == out_n ? GRPO_OK : damaged(what, "zstd");
}
#else
static bool zstd_there(void) { return false; }

static Status without_zstd(const char *what) {
  return fail(GRPO_EARG,
              "%s: this program was built without libzstd, so it reads no zstd; install "
              "libzstd-dev and build it again",
              what);
}

static Status zstd_file(const void *data, size_t n, const char *what, uint8_t *piece, Buf *out) {
  (void)data, (void)n, (void)piece, (void)out;
  return without_zstd(what);
}

static Status zstd_block(const void *in, size_t n, void *out, size_t out_n, const char *what) {
  (void)in, (void)n, (void)out, (void)out_n;
  return without_zstd(what);
}
#endif

/* ---- either ------------------------------------------------------------ */

/* The bytes of the skippable frames, as zstd and LZ4 have them, that the data begin with. */
static size_t skippable(const uint8_t *p, size_t n) {
  size_t at = 0;
  while (n - at >= 8 && (p[at] & 0xf0) == 0x50 && memcmp(p + at + 1, "\x2a\x4d\x18", 3) == 0) {
    const uint8_t *q = p + at + 4;
    const size_t bytes = q[0] | (size_t)q[1] << 8 | (size_t)q[2] << 16 | (size_t)q[3] << 24;
    if (bytes >= n - at - 8) return n;
    at += 8 + bytes;
  }
  return at;
}

Codec codec_of_file(const void *data, size_t n) {
  const size_t skip = skippable(data, n), left = n - skip;
  const uint8_t *p = (const uint8_t *)data + skip;
  if (n >= 2 && memcmp(data, "\x1f\x8b", 2) == 0) return CODEC_GZIP;
  if ((skip && !left) || (left >= 4 && memcmp(p, "\x28\xb5\x2f\xfd", 4) == 0)) return CODEC_ZSTD;
  return CODEC_NONE;
}

const char *codec_library(Codec codec) {
  if (codec == CODEC_GZIP) return zlib_there() ? "zlib" : NULL;
  if (codec == CODEC_ZSTD) return zstd_there() ? "libzstd" : NULL;
  return NULL;
}

Status decompress_file(Codec codec, const void *data, size_t n, const char *what, Buf *out) {
  uint8_t *piece = mem_alloc(PIECE);
  if (!piece) return fail(GRPO_ENOMEM, "%s: no memory to decompress it", what);
  const Status s = (codec == CODEC_GZIP ? z_file : zstd_file)(data, n, what, piece, out);
  mem_free(piece);
  return s;
}

Status decompress_block(Codec codec, const void *in, size_t n, void *out, size_t out_n,
                        const char *what) {
  switch (codec) {
  case CODEC_GZIP:
    return z_block(in, n, out, out_n, what);
  case CODEC_ZSTD:
    return zstd_block(in, n, out, out_n, what);
  case CODEC_SNAPPY:
    return snappy_decompress(in, n, out, out_n) ? GRPO_OK : damaged(what, "snappy");
  case CODEC_NONE:
    break;
  }
  if (n != out_n) return damaged(what, "uncompressed");
  memcpy(out, in, n);
  return GRPO_OK;
}
