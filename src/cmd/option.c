// SPDX-License-Identifier: Apache-2.0
#include "cmd/option.h"

#include "base/str.h"

#include "base/banned.h"

bool option_take(const struct option *o, int argc, char **argv, int *i)
{
    size_t n = strlen(o->name);
    if (strncmp(argv[*i], o->name, n) != 0 || (argv[*i][n] != '\0' && argv[*i][n] != '='))
        return false;
    if (o->flag) {
        *o->flag = o->value;
        return argv[*i][n] == '\0';
    }
    const char *value = argv[*i][n] == '=' ? argv[*i] + n + 1 : NULL;
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value)
        return false;
    if (o->many)
        vec_push(o->many, value);
    if (o->text)
        *o->text = value;
    return !o->number || (str_to_i64(str_z(value), o->number) == 0 && *o->number >= o->least);
}
