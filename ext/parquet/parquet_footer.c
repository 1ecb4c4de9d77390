#include "parquet/parquet_footer.h"

/* ---- elements of the schema ------------------------------------------------------------ */

static int small(Thrift *t, int type) {
  const int64_t v = thrift_integer(t, type);
  if (v < INT32_MIN || v > INT32_MAX) t->bad = true;
  return t->bad ? 0 : (int)v;
}

/* A union of empty structs: the number of the one that is there. */
static int unit(Thrift *t, int type) {
  ThriftField f = {0, 0};
  int found = 0;
  if (!thrift_struct(t, type)) return 0;
  while (thrift_field(t, &f)) {
    found = f.id;
    thrift_skip(t, f.type);
  }
  return found;
}

static void logical_details(Thrift *t, ParquetElement *e) {
  static const int64_t per_second[] = {0, 1000, 1000000, 1000000000};
  ThriftField f = {0, 0};
  while (thrift_field(t, &f)) {
    if (e->logical == LOGICAL_DECIMAL && f.id == 1) {
      e->scale = small(t, f.type);
    } else if ((e->logical == LOGICAL_TIME || e->logical == LOGICAL_TIMESTAMP) && f.id == 1) {
      e->utc = thrift_bool(t, f.type);
    } else if ((e->logical == LOGICAL_TIME || e->logical == LOGICAL_TIMESTAMP) && f.id == 2) {
      const int which = unit(t, f.type);
      e->per_second = which >= 1 && which <= 3 ? per_second[which] : 0;
    } else if (e->logical == LOGICAL_INTEGER && f.id == 1) {
      e->bits = small(t, f.type);
    } else if (e->logical == LOGICAL_INTEGER && f.id == 2) {
      e->is_signed = thrift_bool(t, f.type);
    } else {
      thrift_skip(t, f.type);
    }
  }
}

static void logical_type(Thrift *t, int type, ParquetElement *e) {
  ThriftField f = {0, 0};
  if (!thrift_struct(t, type)) return;
  while (thrift_field(t, &f)) {
    e->logical = f.id;
    e->is_signed = true;
    if (thrift_struct(t, f.type)) logical_details(t, e);
  }
}

/* The older annotations, by their numbers, as logical types. */
static void converted_type(int converted, ParquetElement *e) {
  static const uint8_t logical[] = {LOGICAL_STRING,    LOGICAL_MAP,      LOGICAL_MAP,
                                    LOGICAL_LIST,      LOGICAL_ENUM,     LOGICAL_DECIMAL,
                                    LOGICAL_DATE,      LOGICAL_TIME,     LOGICAL_TIME,
                                    LOGICAL_TIMESTAMP, LOGICAL_TIMESTAMP};
  if (converted >= 0 && converted < (int)sizeof logical) {
    e->logical = logical[converted];
    e->per_second = converted == 7 || converted == 9 ? 1000 : 1000000;
    e->utc = converted >= 9;
  } else if (converted >= 11 && converted <= 18) {
    e->logical = LOGICAL_INTEGER;
    e->bits = 8 << (converted - 11) % 4;
    e->is_signed = converted >= 15;
  } else if (converted == 19) {
    e->logical = LOGICAL_JSON;
  } else if (converted == 21) {
    e->logical = LOGICAL_INTERVAL;
  }
}

void parquet_element(Thrift *t, ParquetElement *e) {
  ThriftField f = {0, 0};
  int converted = -1;
  *e = (ParquetElement){.name = "", .type = -1};
  while (thrift_field(t, &f)) switch (f.id) {
    case 1:
      e->type = small(t, f.type);
      break;
    case 2:
      e->length = small(t, f.type);
      break;
    case 3:
      e->repetition = small(t, f.type);
      break;
    case 4:
      e->name_bytes = thrift_text(t, f.type, &e->name);
      break;
    case 5:
      e->children = small(t, f.type);
      break;
    case 6:
      converted = small(t, f.type);
      break;
    case 7:
      e->scale = small(t, f.type);
      break;
    case 10:
      logical_type(t, f.type, e);
      break;
    default:
      thrift_skip(t, f.type);
    }
  if (!e->logical) converted_type(converted, e);
  if (e->type < -1 || e->type > 7 || e->repetition < 0 || e->repetition > PARQUET_REPEATED)
    t->bad = true;
}

/* ---- column chunks ------------------------------------------------------------ */

static void chunk_details(Thrift *t, ParquetChunkInfo *c) {
  ThriftField f = {0, 0};
  while (thrift_field(t, &f)) switch (f.id) {
    case 1:
      c->type = small(t, f.type);
      break;
    case 4:
      c->codec = small(t, f.type);
      break;
    case 5:
      c->values = thrift_integer(t, f.type);
      break;
    case 7:
      c->bytes = thrift_integer(t, f.type);
      break;
    case 9:
      c->data_at = thrift_integer(t, f.type);
      break;
    case 11:
      c->dictionary_at = thrift_integer(t, f.type);
      break;
    default:
      thrift_skip(t, f.type);
    }
}

void parquet_chunk_info(Thrift *t, ParquetChunkInfo *c) {
  ThriftField f = {0, 0};
  *c = (ParquetChunkInfo){.type = -1, .data_at = -1, .dictionary_at = -1};
  while (thrift_field(t, &f)) {
    if (f.id == 3 && thrift_struct(t, f.type)) {
      chunk_details(t, c);
      continue;
    }
    if (f.id == 1) c->elsewhere = true;
    if (f.id == 8 || f.id == 9) c->encrypted = true;
    thrift_skip(t, f.type);
  }
}

/* ---- pages ------------------------------------------------------------ */

/* A dictionary's header begins with the same two fields. */
static void data_page(Thrift *t, ParquetPage *p, bool dictionary) {
  ThriftField f = {0, 0};
  while (thrift_field(t, &f)) {
    if (f.id == 1)
      p->values = thrift_integer(t, f.type);
    else if (f.id == 2)
      p->encoding = small(t, f.type);
    else if (f.id == 3 && !dictionary)
      p->def_encoding = small(t, f.type);
    else if (f.id == 4 && !dictionary)
      p->rep_encoding = small(t, f.type);
    else
      thrift_skip(t, f.type);
  }
}

static void data_page_v2(Thrift *t, ParquetPage *p) {
  ThriftField f = {0, 0};
  p->is_compressed = true;
  while (thrift_field(t, &f)) {
    if (f.id == 1)
      p->values = thrift_integer(t, f.type);
    else if (f.id == 4)
      p->encoding = small(t, f.type);
    else if (f.id == 5)
      p->def_bytes = thrift_integer(t, f.type);
    else if (f.id == 6)
      p->rep_bytes = thrift_integer(t, f.type);
    else if (f.id == 7)
      p->is_compressed = thrift_bool(t, f.type);
    else
      thrift_skip(t, f.type);
  }
}

void parquet_page_header(Thrift *t, ParquetPage *p) {
  ThriftField f = {0, 0};
  int type = -1;
  *p = (ParquetPage){.bytes = -1, .compressed = -1, .values = -1, .encoding = -1};
  while (thrift_field(t, &f)) {
    if (f.id == 1)
      type = small(t, f.type);
    else if (f.id == 2)
      p->bytes = thrift_integer(t, f.type);
    else if (f.id == 3)
      p->compressed = thrift_integer(t, f.type);
    else if ((f.id == 5 || f.id == 7) && thrift_struct(t, f.type))
      data_page(t, p, f.id == 7);
    else if (f.id == 8 && thrift_struct(t, f.type))
      data_page_v2(t, p);
    else
      thrift_skip(t, f.type);
  }
  if (type < PAGE_DATA || type > PAGE_DATA_V2)
    t->bad = true;
  else
    p->type = type;
}
