// SPDX-License-Identifier: Apache-2.0
//
// dray_fail: how a driver's callback reports an error of its own.
#include <stdarg.h>
#include <stdio.h>

#include "dray/driver.h"

#include "base/banned.h"

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
