/* option_fields.h - included before a .def file inside a struct: rows become fields (options.h). */
#define NUMBER(path, field, ...)       double field;
#define INT(path, field, ...)          int field;
#define BOOL(path, field, ...)         bool field;
#define CHOICE(path, field, Type, ...) Type field;
#define SECTION(path, doc)
