// SPDX-License-Identifier: Apache-2.0
//
// Runs a fuzz target over every file of the folders and files named on the command line, so that
// corpora are regression tests in any build. An empty or missing corpus is a failure.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/stat.h>

#include "base/str.h"
#include "fuzz.h"

#include "base/banned.h"

static size_t ran;

static void run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(1);
    }
    cleanup_sbuf struct sbuf b = {0};
    size_t n;
    do {
        n = fread(sbuf_space(&b, 65536), 1, 65536, f);
        sbuf_commit(&b, n);
    } while (n);
    (void)fclose(f);
    // An exact copy on the heap, so that a read past the end is seen.
    cleanup_free char *copy = xmalloc(b.n);
    if (b.n)
        memcpy(copy, b.p, b.n);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)copy, b.n);
    ran++;
}

static void run_path(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        perror(path);
        exit(1);
    }
    if (!S_ISDIR(st.st_mode)) {
        run_file(path);
        return;
    }
    struct dirent **names;
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        cleanup_sbuf struct sbuf full = {0};
        sbuf_addf(&full, "%s/%s", path, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            run_path(full.p);
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        run_path(argv[i]);
    printf("%zu inputs replayed\n", ran);
    return ran ? 0 : 1;
}
