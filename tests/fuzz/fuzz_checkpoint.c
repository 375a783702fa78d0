// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints and saved health. The first byte chooses: a whole file; only its data, under a good
// checksum; health. Laws: what is refused leaves nothing and says why; what is read is written so that
// it reads as the same.
#include <assert.h>

#include "codec/json_writer.h"
#include "fuzz.h"
#include "node/checkpoint.h"
#include "node/dra/health.h"

#include "base/banned.h"

static void whole(struct str text)
{
    struct node_claims all = {0}, again = {0};
    struct sbuf once = {0}, twice = {0};
    struct err err = {0};
    int rc = checkpoint_read(text, &all, &err);
    assert(rc == 0 || (err.msg[0] && map_len(&all.by_key) == 0));
    if (rc == 0) {
        checkpoint_write(&all, &once);
        rc = checkpoint_read(sbuf_str(&once), &again, &err);
        assert(rc == 0);
        assert(map_len(&all.by_key) == map_len(&again.by_key));
        checkpoint_write(&again, &twice);
        assert(str_eq(sbuf_str(&once), sbuf_str(&twice)));
    }
    sbuf_done(&once);
    sbuf_done(&twice);
    node_claims_done(&all);
    node_claims_done(&again);
}

static void data_alone(struct str data)
{
    struct sbuf clean = {0}, text = {0};
    struct json_writer w = {.out = &clean};
    json_write_str(
        &w, data); // bytes that are not UTF-8 become others, so the sum is that of the result
    struct json_doc doc = {0};
    struct err err = {0};
    int rc = json_parse(sbuf_str(&clean), NULL, &doc, &err);
    if (rc == 0) {
        w = (struct json_writer){.out = &text};
        json_write_object_begin(&w);
        json_write_key(&w, STR("Data"));
        json_write_str(&w, json_str(doc.root));
        json_write_key(&w, STR("Checksum"));
        json_write_u64(&w, checkpoint_crc(json_str(doc.root)));
        json_write_object_end(&w);
        whole(sbuf_str(&text));
    }
    json_doc_done(&doc);
    sbuf_done(&clean);
    sbuf_done(&text);
}

static void saved_health(struct str text)
{
    struct clock_fake clock;
    struct err err = {0};
    struct sbuf once = {0}, twice = {0};
    clock_fake_init(&clock, INT64_C(1800000000) * CLOCK_NS_PER_SEC);
    struct health *h = health_new(&clock.clock), *again = health_new(&clock.clock);
    if (health_read(h, text, &err) == 0) {
        health_write(h, &once);
        int rc = health_read(again, sbuf_str(&once), &err);
        assert(rc == 0);
        health_write(again, &twice);
        assert(str_eq(sbuf_str(&once), sbuf_str(&twice)));
    } else {
        assert(err.msg[0]);
    }
    health_free(h);
    health_free(again);
    sbuf_done(&once);
    sbuf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    struct str text = str_make((const char *)data + 1, size - 1);
    switch (data[0] % 3) {
    case 0:
        whole(text);
        break;
    case 1:
        data_alone(text);
        break;
    default:
        saved_health(text);
    }
    return 0;
}
