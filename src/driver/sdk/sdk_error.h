// SPDX-License-Identifier: Apache-2.0
//
// Errors of this program as those of the public interface.
#ifndef DRIVER_SDK_SDK_ERROR_H
#define DRIVER_SDK_SDK_ERROR_H

#include "base/err.h"
#include "dray/driver.h"

// sdk_error fills a public error, which may be NULL. Returns -1.
int sdk_error(struct dray_error *to, const struct err *from);

#endif
