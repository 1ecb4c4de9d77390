/* embed.c - turns files into one C source with a table of (name, bytes, length).
 *
 * usage: embed [-c] FILE... > embedded.c
 * -c: compact, without the indentation of the Lua half and the comments that have lines of their
 * own, which stay as empty lines, so that the numbers in messages are those of the file.
 * The names are the paths as given, without a leading bench/ or ext/NAME/, or what precedes gen/,
 * so that the Lua of an extension lies over that of the core; src/script/embedded.h declares the
 * table.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where a long bracket that begins at s ends: [[ ... ]], [=[ ... ]=]; NULL: none begins there. */
static char *after_long_bracket(char *s) {
  char end[16] = "]";
  size_t level = *s == '[' ? strspn(s + 1, "=") : sizeof end;
  if (level > sizeof end - 3 || s[1 + level] != '[') return NULL;
  memset(end + 1, '=', level);
  end[1 + level] = ']';
  char *found = strstr(s, end);
  return found ? found + strlen(end) : s + strlen(s);
}

static char *after_quotes(char *s) {
  char quote = *s++;
  while (*s && *s != quote) s += *s == '\\' && s[1] ? 2 : 1;
  return *s ? s + 1 : s;
}

/* Removes the indentation of Lua and comments with lines of their own; leaves the ends of lines. */
static void make_compact(char *text) {
  char *to = text;
  for (char *s = text; *s;) {
    char *from = s, *after;
    bool begins = to == text || to[-1] == '\n'; /* a line */
    if (begins && *s == ' ') {
      s++;
      continue;
    }
    if (s[0] == '-' && s[1] == '-') {
      after = after_long_bracket(s + 2);
      s = after ? after : s + strcspn(s, "\n");
      if (begins && !after) continue;
    } else if (*s == '"' || *s == '\'')
      s = after_quotes(s);
    else
      s = (after = after_long_bracket(s)) ? after : s + 1;
    memmove(to, from, (size_t)(s - from));
    to += s - from;
  }
  *to = 0;
}

static char *read_file(const char *path, size_t *len) {
  FILE *f = fopen(path, "rb");
  char *text = NULL;
  if (f && fseek(f, 0, SEEK_END) == 0) {
    *len = (size_t)ftell(f);
    text = malloc(*len + 1);
    rewind(f);
    if (text && fread(text, 1, *len, f) != *len) text[0] = 0, *len = 0;
    if (text) text[*len] = 0;
  }
  if (f) fclose(f);
  return text;
}

/* The comments of annotations are what they are for, and those of rewards are read by users. */
static bool is_half(const char *path) {
  return strstr(path, "lua/grpo/") && !strstr(path, "/meta/");
}

static int put_file(const char *path, int index, bool compact) {
  size_t len = 0;
  char *text = read_file(path, &len);
  if (!text) {
    fprintf(stderr, "embed: cannot read %s\n", path);
    return 1;
  }
  if (compact && is_half(path)) {
    make_compact(text);
    len = strlen(text);
  }
  printf("static const unsigned char file_%d[] = {", index);
  for (size_t i = 0; i < len; i++) printf(i % 24 ? "%d," : "\n%d,", (unsigned char)text[i]);
  printf("0};\n");
  free(text);
  return 0;
}

static const char *name_of(const char *path) {
  const char *made = strstr(path, "/gen/");
  if (made) return made + 1;
  const char *slash = strncmp(path, "ext/", 4) == 0 ? strchr(path + 4, '/') : NULL;
  if (slash) return slash + 1;
  return strncmp(path, "bench/", 6) == 0 ? path + 6 : path;
}

int main(int argc, char **argv) {
  bool compact = argc > 1 && strcmp(argv[1], "-c") == 0;
  int first = compact ? 2 : 1;
  puts("#include \"script/embedded.h\"");
  for (int i = first; i < argc; i++)
    if (put_file(argv[i], i, compact)) return 1;
  puts("const EmbeddedFile embedded_files[] = {");
  for (int i = first; i < argc; i++)
    printf("  {\"%s\", \"%s\", (const char *)file_%d, sizeof file_%d - 1},\n", name_of(argv[i]),
           argv[i], i, i);
  puts("  {0, 0, 0, 0}};");
  return 0;
}
