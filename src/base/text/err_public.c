// SPDX-License-Identifier: Apache-2.0
//
// The libraries for programs outside this tree report errors in a struct of fixed size that needs
// no header of ours.
#include "base/err_public.h"

#include <stdio.h>

#include "base/banned.h"

int err_to_public(struct dray_error *to, const struct err *from)
{
    if (!to)
        return -1;
    (void)snprintf(to->field, sizeof(to->field), "%s", from->path);
    if (from->line)
        (void)snprintf(to->message, sizeof(to->message), "line %zu, column %zu: %.440s", from->line,
                       from->column, from->msg);
    else
        (void)snprintf(to->message, sizeof(to->message), "%.511s", from->msg);
    return -1;
}
