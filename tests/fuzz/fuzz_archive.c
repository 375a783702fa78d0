// SPDX-License-Identifier: Apache-2.0
//
// Backups as somebody may hand them to `dray restore`: any bytes, with a right checksum or not. A
// restore makes the whole directory or nothing, and no file outside of it.
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>

#include "base/str.h"
#include "cmd/data/archive.h"
#include "fuzz.h"
#include "os/file.h"

#include "base/banned.h"

// fuzz_archive_sum adds the last line, as a writer that means harm would.
static void fuzz_archive_sum(struct sbuf *text)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    int r = EVP_Digest(text->p, text->n, digest, &n, EVP_sha256(), NULL);
    assert(r == 1);
    sbuf_addz(text, "sha256 ");
    for (unsigned i = 0; i < n; i++)
        sbuf_addf(text, "%02x", digest[i]);
    sbuf_addc(text, '\n');
}

static size_t fuzz_archive_count(const char *path)
{
    DIR *d = opendir(path);
    size_t n = 0;
    if (!d)
        return 0;
    while (file_next_entry(d))
        n++;
    (void)closedir(d);
    return n;
}

static void fuzz_archive_check(const char *target)
{
    static const char *const known[] = {"dray.db", "tokens.csv", "pki"};
    cleanup_sbuf struct sbuf database = {0};
    struct stat st;
    sbuf_addf(&database, "%s/dray.db", target);
    int r = stat(database.p, &st);
    assert(r == 0 && S_ISREG(st.st_mode) && (st.st_mode & 077) == 0);
    DIR *d = opendir(target);
    assert(d);
    const struct dirent *e;
    while ((e = file_next_entry(d))) {
        bool is_known = false;
        for (size_t i = 0; i < array_len(known); i++)
            is_known = is_known || strcmp(e->d_name, known[i]) == 0;
        assert(is_known);
    }
    (void)closedir(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[64];
    cleanup_sbuf struct sbuf text = {0}, path = {0}, target = {0};
    struct err err = {0};
    if (size == 0)
        return 0;
    (void)snprintf(folder, sizeof(folder), "%s/fuzz-archive-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(folder))
        abort();
    if (data[0] & 1)
        sbuf_addz(&text, "dray-backup 1\n");
    sbuf_add(&text, str_make((const char *)data + 1, size - 1));
    if (data[0] & 2)
        fuzz_archive_sum(&text);
    sbuf_addf(&path, "%s/backup", folder);
    sbuf_addf(&target, "%s/data", folder);
    int r = file_replace_atomic(AT_FDCWD, path.p, sbuf_str(&text), 0600, &err);
    assert(r == 0);
    r = archive_restore(path.p, target.p, &err);
    if (r == 0)
        fuzz_archive_check(target.p);
    else
        assert(err.msg[0]);
    assert(fuzz_archive_count(folder) == (r == 0 ? 2u : 1u));
    (void)file_remove_tree(folder, NULL);
    return 0;
}
