#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "testing.h"
#include "yaml/yaml.h"

/* The JSON text of a YAML text, or its error; valid until the next call. */
static const char *read_yaml(const char *text, size_t n) {
  static Buf json;
  buf_clear(&json);
  const Status s = yaml_to_json(text, n, "f.yaml", &json);
  return s ? err_message() : json.data;
}
#define READ(s) read_yaml(s, sizeof s - 1)

#define NEEDS_YAML()                                                                               \
  if (!yaml_available()) return

TEST(values_of_the_core_schema) {
  NEEDS_YAML();
  CHECK_STR(READ("[1, -2, +3, 007, 0x1f, 0o17, 2.5, .5, 5., 1e-4, 1.E+3, -0]"),
            "[1,-2,3,7,31,15,2.5,0.5,5,1e-4,1E+3,-0]");
  CHECK_STR(READ("[null, ~, Null, true, TRUE, False]"), "[null,null,null,true,true,false]");
  CHECK_STR(READ("[yes, no, on, off, y, nULL, 1_000, 1:30, 0x, 08x, 1e, ., -, +, 12e5x]"),
            "[\"yes\",\"no\",\"on\",\"off\",\"y\",\"nULL\",\"1_000\",\"1:30\",\"0x\",\"08x\","
            "\"1e\",\".\",\"-\",\"+\",\"12e5x\"]");
  CHECK_STR(READ("['1', \"true\", '~', \"a\\nb\", 'it''s']"),
            "[\"1\",\"true\",\"~\",\"a\\nb\",\"it's\"]");
  CHECK_STR(READ("[0x7fffffffffffffff, 0xffffffffffffffffff]"),
            "[9223372036854775807,\"0xffffffffffffffffff\"]");
}

TEST(mappings_lists_and_blocks) {
  NEEDS_YAML();
  CHECK_STR(READ("a: 1\nb:\n  - x\n  - {c: d}\n"), "{\"a\":1,\"b\":[\"x\",{\"c\":\"d\"}]}");
  CHECK_STR(READ("t: |\n  two\n  lines\nf: >-\n  folded\n  text\n"),
            "{\"t\":\"two\\nlines\\n\",\"f\":\"folded text\"}");
  CHECK_STR(READ("1: a\n'<<': b\nnull: c\n"), "{\"1\":\"a\",\"<<\":\"b\",\"null\":\"c\"}");
  CHECK_STR(READ(""), "null");
  CHECK_STR(READ("# nothing\n"), "null");
  CHECK_STR(READ("\xef\xbb\xbf{a: {}, b: []}"), "{\"a\":{},\"b\":[]}");
}

TEST(what_is_refused_has_its_place) {
  NEEDS_YAML();
  CHECK_STR(READ("a: &x 1"),
            "f.yaml:1:4: anchors (&) are not read; write the value out where it is "
            "used");
  CHECK_STR(READ("a: *x"), "f.yaml:1:4: aliases (*) are not read; write the value out");
  CHECK_STR(READ("a: 1\n<<: b"), "f.yaml:2:1: merge keys (<<) are not read; write the fields out");
  CHECK_STR(READ("a: !!int 1"), "f.yaml:1:4: tags (!) are not read");
  CHECK_STR(READ("a: ! 1"), "f.yaml:1:4: tags (!) are not read");
  CHECK_STR(READ("a: 1\nb: 2\na: 3"), "f.yaml:3:1: the key 'a' stands twice in one mapping");
  CHECK_STR(READ("? [1]\n: 2"), "f.yaml:1:3: a key must be a text");
  CHECK_STR(READ("a: .NaN"), "f.yaml:1:4: a number must be finite");
  CHECK_STR(READ("a: 1e999"), "f.yaml:1:4: a number is too large");
  CHECK_STR(READ("a: 1\n---\nb: 2"), "f.yaml:2:1: a second document begins; a file has one");
  CHECK_STR(READ("a: [1\n"), "f.yaml:2:1: did not find expected ',' or ']', while "
                             "parsing a flow sequence that begins at line 1");
  CHECK_STR(READ("a: \xff"), "f.yaml:1:1: invalid leading UTF-8 octet");
  CHECK_STR(READ("a: \"x\\q\""), "f.yaml:1:6: found unknown escape character");
}

TEST(equal_keys_of_different_mappings_are_no_repetition) {
  NEEDS_YAML();
  CHECK_STR(READ("a: {b: 1}\nc: {b: 2}\n"), "{\"a\":{\"b\":1},\"c\":{\"b\":2}}");
}

/* A text of n bytes that begins with `head` and repeats `c`. */
static char *repeated(const char *head, char c, size_t n) {
  char *text = malloc(n + 1);
  memset(text, c, n);
  memcpy(text, head, strlen(head));
  text[n] = 0;
  return text;
}

TEST(limits) {
  NEEDS_YAML();
  char *deep = repeated("", '[', 65), *large = repeated("a: ", 'x', YAML_MAX_BYTES + 1);
  CHECK_STR(read_yaml(deep, 65), "f.yaml:1:65: nested too deep");
  CHECK_STR(read_yaml(large, YAML_MAX_BYTES + 1),
            "f.yaml:1:1: it has 1048577 bytes; a YAML file has at most 1048576");
  CHECK(read_yaml(large, YAML_MAX_BYTES)[0] == '{');
  free(deep);
  free(large);
}

TEST(without_the_library_there_is_one_line) {
  if (yaml_available()) return;
  CHECK(strstr(READ("a: 1"), "libyaml") != NULL);
}
