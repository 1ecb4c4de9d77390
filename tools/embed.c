/* embed.c - turns files into one C source with a table of (name, bytes, length).
 *
 * usage: embed FILE... > embedded.c
 * The names are the paths as given, without a leading bench/ or ext/NAME/, or what precedes gen/,
 * so that the Lua of an extension lies over that of the core; src/script/embedded.h declares the
 * table.
 */
#include <stdio.h>
#include <string.h>

static int put_file(const char *path, int index) {
  FILE *f = fopen(path, "rb");
  int c, n = 0;
  if (!f) {
    fprintf(stderr, "embed: cannot read %s\n", path);
    return 1;
  }
  printf("static const unsigned char file_%d[] = {", index);
  while ((c = getc(f)) != EOF) printf(n++ % 24 ? "%d," : "\n%d,", c);
  printf("0};\n");
  fclose(f);
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
  puts("#include \"script/embedded.h\"");
  for (int i = 1; i < argc; i++)
    if (put_file(argv[i], i)) return 1;
  puts("const EmbeddedFile embedded_files[] = {");
  for (int i = 1; i < argc; i++)
    printf("  {\"%s\", \"%s\", (const char *)file_%d, sizeof file_%d - 1},\n", name_of(argv[i]),
           argv[i], i, i);
  puts("  {0, 0, 0, 0}};");
  return 0;
}
