/* option_end.h - the last line of a .def file of options: its macros end there (options.h). */
#undef NUMBER
#undef INT
#undef BOOL
#undef CHOICE
#undef SECTION
#undef NONE
#undef ANY
#undef LIVE
#undef SCHEDULE
#undef PPO
#undef OPTIONS_OF
