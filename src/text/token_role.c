#include "text/token_role.h"

const char *const token_role_name[TOK_NROLES] = {"bos", "eos", "pad", "unk", "sep", "cls", "mask"};
