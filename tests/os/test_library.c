#include "os/library.h"

#include "status.h"
#include "testing.h"

static double (*cosine)(double);
static void *other;

TEST(a_library_that_is_there_gives_its_symbols) {
  static const LibrarySymbol symbols[] = {{"cos", &cosine}, {"sin", &other}};
  static Library lib = {.package = "libm",
                        .sonames = {"libnothing-of-this-name.so.1", "libm.so.6"},
                        .symbols = symbols,
                        .count = 2};
  CHECK(library_available(&lib));
  REQUIRE(library_need(&lib, "nothing is computed"));
  CHECK(cosine(0) == 1);
  CHECK(other != NULL);
  CHECK_STR(lib.found, "libm.so.6");
}

TEST(a_library_that_is_not_there_is_named_with_its_package) {
  static const LibrarySymbol symbols[] = {{"f", &other}};
  static Library lib = {.package = "libnothing",
                        .sonames = {"libnothing-of-this-name.so.1"},
                        .symbols = symbols,
                        .count = 1};
  CHECK(!library_available(&lib));
  REFUSED(library_need(&lib, "NOTHING is not read"), GRPO_EARG,
          "libnothing-of-this-name.so.1 is not on this machine, so NOTHING is not read; install "
          "libnothing");
}

TEST(a_library_without_a_symbol_is_too_old) {
  static const LibrarySymbol symbols[] = {{"cos", &cosine}, {"cos_of_a_later_version", &other}};
  static Library lib = {
      .package = "libm", .sonames = {"libm.so.6"}, .symbols = symbols, .count = 2};
  CHECK(!library_available(&lib));
  REFUSED(library_need(&lib, "nothing is computed"), GRPO_EARG,
          "libm.so.6 on this machine does not have cos_of_a_later_version, so nothing is computed; "
          "install a newer libm");
  CHECK(!library_available(&lib));
}
