// SPDX-License-Identifier: Apache-2.0
#include "driver/sdk/sdk_error.h"

#include <stdio.h>

#include "base/banned.h"

int sdk_error(struct dray_error *to, const struct err *from)
{
    if (!to)
        return -1;
    (void)snprintf(to->field, sizeof(to->field), "%s", from->path);
    if (from->line)
        (void)snprintf(to->message, sizeof(to->message), "line %zu, column %zu: %.440s", from->line,
                       from->column, from->msg);
    else
        (void)snprintf(to->message, sizeof(to->message), "%s", from->msg);
    return -1;
}

int dray_fail(struct dray_error *err, const char *format, ...)
{
    if (!err)
        return -1;
    va_list args;
    va_start(args, format);
    err->field[0] = '\0';
    (void)vsnprintf(err->message, sizeof(err->message), format, args);
    va_end(args);
    return -1;
}
