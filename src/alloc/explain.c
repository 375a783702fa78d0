// SPDX-License-Identifier: Apache-2.0
#include "alloc/alloc_int.h"

#include "base/banned.h"

bool alloc_explain(struct alloc_solver *s, const struct alloc_view *view,
                   const struct api_resource_claim *const *claims, size_t claims_len,
                   struct alloc_explanation *ret)
{
    (void)s;
    (void)view;
    (void)claims;
    (void)claims_len;
    (void)ret;
    return false;
}

void alloc_explain_json(const struct alloc_explanation *e, struct sbuf *out)
{
    (void)e;
    (void)out;
}
