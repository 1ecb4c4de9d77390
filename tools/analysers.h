/* analysers.h - read before each file by tools/check-analysers: memory as the analysers know it. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define mem_alloc            malloc
#define mem_zalloc(n)        calloc(1, (n))
#define mem_realloc          realloc
#define mem_free             free
#define mem_strdup           strdup
#define mem_strndup          strndup
#define mem_alloc_aligned(n) aligned_alloc(64, (n))
#define mem_free_aligned     free
