#include "script/model_tree.h"

#include <ctype.h>
#include <string.h>

/* Are two names equal, apart from the numbers between their points? */
static bool alike(const char *a, const char *b) {
  while (*a && *b) {
    if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
      while (isdigit((unsigned char)*a)) a++;
      while (isdigit((unsigned char)*b)) b++;
    } else if (*a++ != *b++) {
      return false;
    }
  }
  return *a == *b;
}

static bool is_first(Model *m, int i) {
  for (int k = 0; k < i; k++)
    if (alike(model_param(m, k)->name, model_param(m, i)->name)) return false;
  return true;
}

static int copies(Model *m, int i) {
  int n = 0;
  for (int k = i; k < model_num_params(m); k++)
    n += alike(model_param(m, k)->name, model_param(m, i)->name);
  return n;
}

/* The length of the parts' names in "model.layers.0.self_attn.q_proj.weight": all but the last two
 * names; 0: there are none. */
static size_t parts_len(const char *name) {
  size_t last = 0, before = 0;
  for (size_t i = 0; name[i]; i++)
    if (name[i] == '.') before = last, last = i + 1;
  return before;
}

static void indent(Buf *out, int depth) {
  buf_putc(out, '\n');
  for (int i = 0; i < depth; i++) buf_puts(out, "  ");
}

/* Opens the parts of a name, of which the first `known` bytes are open.  Returns the depth of what
 * stands in them.  A list of layers is one part with its number of layers. */
static int open_parts(Buf *out, const char *name, size_t len, size_t known, int layers) {
  int depth = 1;
  for (size_t at = 0; at < len; depth++) {
    const size_t n = strcspn(name + at, "."), next = at + n + 1;
    const bool list = next < len && isdigit((unsigned char)name[next]);
    if (at >= known) {
      indent(out, depth);
      buf_put(out, name + at, n);
      if (list) buf_printf(out, " (%d)", layers);
    }
    at = list ? next + strcspn(name + next, ".") + 1 : next;
  }
  return depth;
}

/* The length of the leading parts that `name` shares with `before`, which may be NULL. */
static size_t common_parts(const char *before, const char *name, size_t len) {
  const size_t most = before ? parts_len(before) : 0;
  size_t common = 0;
  for (size_t i = 0; i < len && i < most && before[i] == name[i]; i++)
    if (name[i] == '.') common = i + 1;
  return common;
}

void model_tree(Model *m, Buf *out) {
  const int layers = model_config(m)->num_hidden_layers;
  const char *before = NULL;
  for (int i = 0; i < model_num_params(m); i++) {
    const Param *p = model_param(m, i);
    if (!is_first(m, i)) continue;
    const size_t len = parts_len(p->name);
    indent(out, open_parts(out, p->name, len, common_parts(before, p->name, len), layers));
    buf_printf(out, "%s [", p->name + len);
    for (int k = 0; k < p->t.ndim; k++) buf_printf(out, k ? ", %d" : "%d", p->t.dim[k]);
    buf_putc(out, ']');
    const int n = copies(m, i);
    if (n > 1 && n != layers) buf_printf(out, " in %d layers", n);
    before = p->name;
  }
}
