// SPDX-License-Identifier: Apache-2.0
//
// Finds the implementation of a function by name among the tables of all libraries.
#include "cel/lib/lib.h"

#include "base/banned.h"

cel_fn cel_impl_find(struct str function)
{
    const struct cel_impls *const libs[] = {
        &cel_lib_std,    &cel_lib_convert, &cel_lib_time,         &cel_lib_strings,
        &cel_lib_format, &cel_lib_lists,   &cel_lib_optional,     &cel_lib_kubernetes,
        &cel_lib_net,    &cel_lib_url,     &cel_lib_named_format, &cel_lib_regex,
    };
    for (size_t i = 0; i < array_len(libs); i++)
        for (size_t k = 0; k < libs[i]->n; k++)
            if (str_eqz(function, libs[i]->p[k].name))
                return libs[i]->p[k].fn;
    return NULL;
}

struct cel_val cel_run_string(struct cel_run *run, struct str s)
{
    return cel_string(arena_str(&run->arena, s));
}

struct cel_val cel_run_take(struct cel_run *run)
{
    struct cel_val v = cel_run_string(run, sbuf_str(&run->text));
    sbuf_clear(&run->text);
    return v;
}

struct cel_val cel_run_mismatch(struct cel_run *run, const char *function,
                                const struct cel_val *args, unsigned n)
{
    cleanup_sbuf struct sbuf b = {0};
    for (unsigned i = 0; i < n; i++) {
        if (i)
            sbuf_addz(&b, ", ");
        sbuf_add(&b, cel_type_name(args[i]));
    }
    return cel_errorf(&run->arena, "no such overload: %s(%.*s)", function, STR_ARG(sbuf_str(&b)));
}
