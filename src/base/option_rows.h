/* option_rows.h - included before a .def file inside an array of Option (options.h).
 * OPTIONS_OF is the struct that has the rows as fields. */
#define NONE     NAN
#define ANY      INFINITY
#define LIVE     OPTION_LIVE
#define SCHEDULE OPTION_SCHEDULE
#define PPO      OPTION_PPO

#define NUMBER(path, field, initial, low, high, flags, doc)                                        \
  {OPTION_NUMBER, path, offsetof(OPTIONS_OF, field), initial, low, high, 0, "", flags, doc},
#define INT(path, field, initial, low, high, flags, doc)                                           \
  {OPTION_INT, path, offsetof(OPTIONS_OF, field), initial, low, high, 0, "", flags, doc},
#define BOOL(path, field, initial, flags, doc)                                                     \
  {OPTION_BOOL, path, offsetof(OPTIONS_OF, field), initial, 0, 1, 0, "", flags, doc},
#define CHOICE(path, field, Type, first, initial, words, flags, doc)                               \
  {OPTION_CHOICE, path, offsetof(OPTIONS_OF, field), initial, 0, 0, first, words, flags, doc},
#define SECTION(path, doc) {OPTION_SECTION, path, 0, NAN, 0, 0, 0, "", 0, doc},
