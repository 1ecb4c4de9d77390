#include "grad/op_table.h"

#define OP(name, inputs, attributes) const char op_attributes_##name[] = attributes;
#include "grad/ops.def"
#undef OP

const OpDef *const op_table[OP_COUNT] = {
#define OP(name, inputs, attributes) [OP_##name] = &op_##name,
#include "grad/ops.def"
#undef OP
};
