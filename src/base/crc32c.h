/* crc32c.h - the checksum CRC-32C (Castagnoli), by the processor's instruction or by tables. */
#ifndef GRPO_BASE_CRC32C_H
#define GRPO_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues a checksum, which starts at 0; "123456789" gives 0xe3069283. */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);
/* Gives the same number on any processor, by tables alone. */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t n);

#endif
