// SPDX-License-Identifier: Apache-2.0
//
// What device plugins say, and the checkpoint of who holds what. The first byte chooses: a registration, a list of
// devices, an answer of Allocate or of GetPreferredAllocation; a checkpoint; its data under a good checksum. Laws: what
// is refused says why and leaves nothing; what is read is written so that it reads as the same.
#include <assert.h>

#include "fuzz.h"
#include "node/devplug/device_ledger.h"

#include "base/banned.h"

static void message(const struct plugin_message *m, struct str bytes)
{
    struct arena a = {0};
    struct err err = {0};
    struct proto_writer once = {0}, twice = {0};
    // Larger than any of them.
    void *value = arena_alloc(&a, 512, 16), *again = arena_alloc(&a, 512, 16);
    memset(value, 0, 512);
    memset(again, 0, 512);
    if (plugin_decode(m, bytes, value, &a, &err) == 0) {
        plugin_encode(m, value, &once);
        int rc = plugin_decode(m, proto_written(&once), again, &a, &err);
        assert(rc == 0);
        plugin_encode(m, again, &twice);
        assert(str_eq(proto_written(&once), proto_written(&twice)));
    } else {
        assert(err.msg[0]);
    }
    proto_writer_done(&once);
    proto_writer_done(&twice);
    arena_done(&a);
}

static void checkpoint(struct str text)
{
    struct arena a = {0};
    struct device_ledger l = {0}, again = {0};
    struct device_registrations r = {0}, r_again = {0};
    struct sbuf once = {0}, twice = {0};
    struct err err = {0};
    int rc = device_ledger_read(text, &l, &a, &r, &err);
    assert(rc == 0 || (err.msg[0] && l.grants.n == 0 && r.n == 0));
    device_ledger_write(&l, &r, &once);
    rc = device_ledger_read(sbuf_str(&once), &again, &a, &r_again, &err);
    assert(rc == 0);
    device_ledger_write(&again, &r_again, &twice);
    assert(str_eq(sbuf_str(&once), sbuf_str(&twice)));
    sbuf_done(&once);
    sbuf_done(&twice);
    device_ledger_done(&l);
    device_ledger_done(&again);
    arena_done(&a);
}

// Grants and registrations of arbitrary texts: lines "pod container resource node id", or "resource id".
static void ledger(struct str text)
{
    struct arena a = {0};
    struct device_ledger l = {0};
    struct device_registrations r = {0};
    struct sbuf out = {0};
    while (text.n > 0) {
        struct str line, words[5];
        size_t n = 0;
        (void)str_cut(text, '\n', &line, &text);
        while (line.n > 0 && n < array_len(words))
            (void)str_cut(line, ' ', &words[n++], &line);
        int64_t node = 0;
        if (n == array_len(words)) {
            struct device_grant *g = device_ledger_add(&l, words[0], words[1], words[2]);
            g->settled = true;
            g->response = arena_str(&g->arena, words[4]);
            if (str_to_i64(words[3], &node) == 0)
                device_grant_add(g, node, words[4]);
        } else if (n > 0) {
            struct device_registered one = {.resource = words[0]};
            if (n > 1)
                vec_push_arena(&a, &one.ids, words[1]);
            vec_push_arena(&a, &r, one);
        }
    }
    device_ledger_write(&l, &r, &out);
    checkpoint(sbuf_str(&out));
    sbuf_done(&out);
    device_ledger_done(&l);
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct plugin_message *const messages[] = {&plugin_register_request_message,
                                                            &plugin_device_list_message,
                                                            &plugin_allocate_response_message,
                                                            &plugin_devices_by_container_message,
                                                            &plugin_devices_options_message};
    if (size == 0)
        return 0;
    struct str text = str_make((const char *)data + 1, size - 1);
    size_t kind = data[0] % (array_len(messages) + 2);
    if (kind < array_len(messages))
        message(messages[kind], text);
    else if (kind == array_len(messages))
        checkpoint(text);
    else
        ledger(text);
    return 0;
}
