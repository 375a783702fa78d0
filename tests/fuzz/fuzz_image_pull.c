// SPDX-License-Identifier: Apache-2.0
//
// What skopeo prints when a registry refuses: the registry chooses the words. They become the
// reason of a pod's status: short, printable, valid UTF-8, with a code that a retry can go by.
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "node/image/image_pull.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err err = {0};
    int r = image_pull_explain(STR("example.com/a:b"), str_make((const char *)data, size), &err);
    assert(r == -ENOSPC || r == -ERR_NOT_FOUND || r == -ERR_UNAUTHORIZED || r == -ERR_UNAVAILABLE);
    struct str said = str_z(err.msg);
    assert(str_starts(said, STR("skopeo cannot pull example.com/a:b: ")));
    assert(said.n <= 36 + 350 && said.n > 36 && utf8_valid(said, NULL));
    for (size_t i = 0; i < said.n; i++)
        assert((unsigned char)said.p[i] >= ' ' && said.p[i] != 0x7f);
    return 0;
}
