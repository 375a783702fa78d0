// SPDX-License-Identifier: Apache-2.0
#include "net/libcurl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/banned.h"

#define LIBCURL_FILE "libcurl.so.4"

struct libcurl libcurl;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool loaded;

// It stays until the process ends.
static void load(void)
{
    void *library = dlopen(LIBCURL_FILE, RTLD_NOW | RTLD_LOCAL);
    bool all = library != NULL;
    void *found;
#define LIBCURL_FIND(name)                                       \
    found = library ? dlsym(library, "curl_" #name) : NULL;      \
    memcpy(&libcurl.name, &found, sizeof(found)); /* function */ \
    all = all && found;
    LIBCURL_FUNCTIONS(LIBCURL_FIND)
#undef LIBCURL_FIND
    loaded = all && libcurl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

int libcurl_load(struct err *err)
{
    (void)pthread_once(&once, load);
    return loaded ? 0
                  : err_set(err, ERR_UNAVAILABLE,
                            "cannot load " LIBCURL_FILE "; install libcurl (Debian: libcurl4)");
}
