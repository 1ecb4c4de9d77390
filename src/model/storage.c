#include "model/storage.h"

const char *storage_name(Storage s) {
  static const char *const names[] = {"f32", "auto", "bf16", "int8", "nf4"};
  return names[s];
}

QuantType storage_type(Storage s, bool projection, QuantType stored) {
  if (s == STORE_INT8 && projection) return QUANT_INT8;
  if (s == STORE_NF4 && projection) return QUANT_NF4;
  return s == STORE_BF16 ? QUANT_BF16 : stored;
}
