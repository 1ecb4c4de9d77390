/* power.c - the program's `pow`.
 *
 * Lua's operator ^ calls pow within Lua's library.  A definition in the program comes before that
 * of libm, whether Lua is a shared library or a static one, so a ^ b has one result everywhere.
 * In a host's Lua (module.c, src/api) the host's pow stays.
 */
#include "base/exponential.h"

double pow(double x, double y);

__attribute__((visibility("default"))) double pow(double x, double y) { return math_pow(x, y); }
