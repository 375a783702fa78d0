// SPDX-License-Identifier: Apache-2.0
//
// libcurl, loaded when the first client is made. It brings some thirty libraries with it: a program
// that talks to nobody (--help, a server alone) starts faster and is 4 MiB smaller without them.
//
//   libcurl.easy_init() is curl_easy_init(), and so on.
#ifndef NET_LIBCURL_H
#define NET_LIBCURL_H

#define CURL_DISABLE_TYPECHECK // its macros want the plain names
#include <curl/curl.h>

#include "base/err.h"

#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#define LIBCURL_FUNCTIONS(X) \
    X(easy_cleanup)          \
    X(easy_getinfo)          \
    X(easy_header)           \
    X(easy_init)             \
    X(easy_pause)            \
    X(easy_reset)            \
    X(easy_setopt)           \
    X(easy_strerror)         \
    X(free)                  \
    X(getdate)               \
    X(global_init)           \
    X(multi_add_handle)      \
    X(multi_assign)          \
    X(multi_cleanup)         \
    X(multi_info_read)       \
    X(multi_init)            \
    X(multi_remove_handle)   \
    X(multi_setopt)          \
    X(multi_socket_action)   \
    X(slist_append)          \
    X(slist_free_all)        \
    X(url)                   \
    X(url_cleanup)           \
    X(url_get)               \
    X(url_set)               \
    X(version_info)

struct libcurl {
#define LIBCURL_MEMBER(name) __typeof__(curl_##name) *(name);
    LIBCURL_FUNCTIONS(LIBCURL_MEMBER)
#undef LIBCURL_MEMBER
};

extern struct libcurl libcurl; // after libcurl_load

// libcurl_load loads it, once for the process; any thread. Returns 0, or -ERR_UNAVAILABLE when it is not
// installed.
int libcurl_load(struct err *err) MUST_USE;

#endif
