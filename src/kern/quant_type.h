/* quant_type.h - how a quantised weight is stored (quant.h), and the tables of NF4. */
#ifndef GRPO_KERN_QUANT_TYPE_H
#define GRPO_KERN_QUANT_TYPE_H

typedef enum QuantType { QUANT_F32, QUANT_BF16, QUANT_F16, QUANT_INT8, QUANT_NF4 } QuantType;
enum { QUANT_TYPES = 5, NF4_BLOCK = 64, NF4_NEST = 256 };

extern const float nf4_code[16];        /* bitsandbytes' table, ascending */
extern const float nf4_absmax_map[256]; /* its signed dynamic map, ascending */

#endif
