// SPDX-License-Identifier: Apache-2.0
//
// Deny lists: any bytes are read or refused, and a list that was read denies what its lines name.
#include <stdlib.h>

#include "fuzz.h"
#include "server/auth/deny.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str input = str_make((const char *)data, size);
    struct deny *d = NULL;
    struct err err = {0};
    if (deny_new("/dev/null", &d, &err) < 0 || deny_parse(d, STR("user kept"), &err) < 0)
        abort();
    const struct deny_subject kept = {.user = STR("kept")};
    const struct deny_subject all = {.user = input,
                                     .certificate_serial = input,
                                     .certificate_sha256 = input,
                                     .token_id = input,
                                     .token_sha256 = input};
    (void)deny_has(d, &all);
    if (deny_parse(d, input, &err) < 0 && !deny_has(d, &kept))
        abort(); // a list with an error changes nothing
    (void)deny_has(d, &all);
    deny_free(d);
    return 0;
}
