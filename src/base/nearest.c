#include "base/nearest.h"

#include <string.h>

#include "base/minmax.h"

int name_distance(const char *a, const char *b) {
  int d[3][64], na = (int)strnlen(a, 64), nb = (int)strnlen(b, 64);
  if (na > 63 || nb > 63) return 64;
  for (int j = 0; j <= nb; j++) d[0][j] = j;
  for (int i = 1; i <= na; i++) {
    int *row = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      row[j] = min_int(min_int(up[j], row[j - 1]) + 1, up[j - 1] + (a[i - 1] != b[j - 1]));
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = min_int(row[j], up2[j - 2] + 1);
    }
  }
  return d[na % 3][nb];
}

const char *nearest_name(const char *name, const char *const *names, size_t n) {
  const char *best = NULL;
  int limit = 1 + (int)strnlen(name, 64) / 3, least = limit + 1;
  for (size_t i = 0; i < n; i++) {
    int d = name_distance(name, names[i]);
    if (d < least) least = d, best = names[i];
  }
  return best;
}
