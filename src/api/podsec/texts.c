// SPDX-License-Identifier: Apache-2.0
//
// Lists of names in the messages of Pod Security checks.
#include <stdlib.h>

#include "api/podsec/podsec_int.h"

#include "base/banned.h"

void podsec_add_name(struct podsec_case *c, struct podsec_names *list, struct str name)
{
    vec_push_arena(c->arena, list, name);
}

void podsec_sort_names(struct podsec_names *list)
{
    size_t kept = 0;
    if (list->n > 1)
        qsort(list->p, list->n, sizeof(*list->p), str_cmp_elements);
    for (size_t i = 0; i < list->n; i++)
        if (kept == 0 || !str_eq(list->p[kept - 1], list->p[i]))
            list->p[kept++] = list->p[i];
    list->n = kept;
}

const char *podsec_plural(const char *one, const char *many, size_t n)
{
    return n == 1 ? one : many;
}

void podsec_add_quoted(struct podsec_case *c, const struct podsec_names *list)
{
    for (size_t i = 0; i < list->n; i++) {
        sbuf_addz(c->detail, i ? ", \"" : "\"");
        sbuf_add(c->detail, list->p[i]);
        sbuf_addc(c->detail, '"');
    }
}

void podsec_add_counted(struct podsec_case *c, const char *one, const char *many,
                        const struct podsec_names *list)
{
    sbuf_addf(c->detail, "%s ", podsec_plural(one, many, list->n));
    podsec_add_quoted(c, list);
}

void podsec_add_setters(struct podsec_case *c, bool pod, const struct podsec_names *containers)
{
    if (pod)
        sbuf_addz(c->detail, containers->n ? "pod and " : "pod");
    if (containers->n)
        podsec_add_counted(c, "container", "containers", containers);
}

bool podsec_annotation(const struct podsec_case *c, struct str key, struct str *ret)
{
    size_t low = 0, high = c->annotations->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = str_cmp(c->annotations->p[middle].key, key);
        if (order == 0) {
            *ret = c->annotations->p[middle].value;
            return true;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}
