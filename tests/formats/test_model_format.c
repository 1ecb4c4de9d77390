/* Files that hold a whole model: rows of extensions, and what is said without them. */
#include "formats/model_format.h"

#include "status.h"
#include "testing.h"

static bool is_sample(const char *path) { return path[0] == 's'; }

TEST(a_path_is_refused_until_an_extension_reads_its_ending) {
  static ModelFormat format = {.name = "sample", .ending = ".gguf", .is = is_sample};
  CHECK(!model_format_of("s.gguf") && !model_format_named("sample"));
  REFUSED(model_format_check("dir/s.gguf"), GRPO_EARG, "build with make EXT=\"gguf\"");
  CHECK(model_format_check("dir/s.bin") == GRPO_OK && model_format_check(".gguf") == GRPO_OK);
  model_format_add(&format);
  CHECK(model_format_check("dir/s.gguf") == GRPO_OK);
  CHECK(model_format_first() == &format && model_format_named("sample") == &format);
  CHECK(model_format_ending("x.gguf") == &format && !model_format_ending("x.bin"));
  CHECK(model_format_of("s.bin") == &format && !model_format_of("x.gguf"));
}
