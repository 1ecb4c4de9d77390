#include "model/completion.h"

const char *finish_name(Finish f) {
  static const char *const names[] = {"eos", "stop", "length"};
  return names[f];
}
