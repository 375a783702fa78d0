// SPDX-License-Identifier: Apache-2.0
//
// A driver's journal: any bytes are an entry or none, and what is read writes and reads the same.
#include <assert.h>

#include "driver/sdk/journal.h"
#include "fuzz.h"

#include "base/banned.h"

static void round_trip(const struct journal_entry *e)
{
    cleanup_sbuf struct sbuf once = {0}, twice = {0};
    cleanup_arena struct arena arena = {0};
    struct journal_entry back;
    bool damaged;
    journal_write(e, &once);
    assert(journal_read(sbuf_str(&once), &arena, &back, &damaged) == 0 && !damaged);
    journal_write(&back, &twice);
    assert(str_eq(sbuf_str(&once), sbuf_str(&twice)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str text = str_make((const char *)data, size);
    cleanup_arena struct arena arena = {0};
    struct journal_entry e;
    bool damaged;
    if (journal_read(text, &arena, &e, &damaged) == 0)
        round_trip(&e);
    // Once more with a right checksum, so that what is behind it is tried, too.
    cleanup_sbuf struct sbuf line = {0};
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ UINT32_C(0xedb88320) : crc >> 1;
    }
    sbuf_addf(&line, "%08x ", ~crc);
    sbuf_add(&line, text);
    sbuf_addc(&line, '\n');
    if (journal_read(sbuf_str(&line), &arena, &e, &damaged) == 0)
        round_trip(&e);
    return 0;
}
