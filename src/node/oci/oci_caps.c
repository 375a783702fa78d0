// SPDX-License-Identifier: Apache-2.0
//
// Capabilities: containerd's default ones, and all that the kernel may know.
#include <fcntl.h>

#include "node/oci/oci_int.h"
#include "os/file.h"

#include "base/banned.h"

// In the kernel's order: a capability's number is its place.
static const char *const names[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

static const char *const defaults[] = {
    "CHOWN",  "DAC_OVERRIDE", "FSETID",  "FOWNER",           "MKNOD",      "NET_RAW", "SETGID",
    "SETUID", "SETFCAP",      "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL",    "AUDIT_WRITE",
};

// All capabilities are those that we may give away ourselves, one bit each.
static uint64_t oci_caps_of_process(void)
{
    cleanup_sbuf struct sbuf text = {0};
    uint64_t bits = 0;
    if (file_read_at(AT_FDCWD, "/proc/self/status", 65536, &text) < 0)
        return UINT64_MAX;
    ptrdiff_t at = str_find(sbuf_str(&text), STR("CapBnd:\t"));
    struct str hex = at < 0 ? STR("") : str_upto(str_from(sbuf_str(&text), (size_t)at + 8), 16);
    for (size_t i = 0; i < hex.n; i++) {
        char c = hex.p[i];
        bits = bits << 4 | (uint64_t)(c >= 'a' ? c - 'a' + 10 : c - '0');
    }
    return bits;
}

bool oci_caps_have(const struct oci_caps *caps, struct str name)
{
    vec_foreach(caps, c)
        if (str_eq(*c, name))
            return true;
    return false;
}

static void oci_caps_add(struct oci_caps *caps, struct str name, struct arena *arena)
{
    struct str full = arena_strf(arena, "CAP_%.*s", STR_ARG(name));
    if (!oci_caps_have(caps, full))
        vec_push_arena(arena, caps, full);
}

static void oci_caps_drop(struct oci_caps *caps, struct str name)
{
    size_t kept = 0;
    vec_foreach(caps, c)
        if (!str_eq(str_from(*c, 4), name))
            caps->p[kept++] = *c;
    caps->n = kept;
}

// "NET_ADMIN", also as "CAP_NET_ADMIN" or in lower case.
static struct str oci_caps_strip_prefix(struct str said, struct arena *arena)
{
    cleanup_sbuf struct sbuf b = {0};
    for (size_t i = 0; i < said.n; i++)
        sbuf_addc(&b, said.p[i] >= 'a' && said.p[i] <= 'z' ? (char)(said.p[i] - 32) : said.p[i]);
    struct str s = arena_str(arena, sbuf_str(&b));
    return str_starts(s, STR("CAP_")) ? str_from(s, 4) : s;
}

static bool is_known(struct str name)
{
    for (size_t i = 0; i < array_len(names); i++)
        if (str_eqz(name, names[i]))
            return true;
    return false;
}

static bool oci_caps_has_all(const struct str *said, size_t n, struct arena *arena)
{
    for (size_t i = 0; i < n; i++)
        if (str_eq(oci_caps_strip_prefix(said[i], arena), STR("ALL")))
            return true;
    return false;
}

int oci_caps_make(const struct runtime_security *s, struct arena *arena, struct oci_caps *ret,
                  struct err *err)
{
    struct oci_caps caps = {0};
    bool all = s->privileged || oci_caps_has_all(s->add_caps, s->add_caps_len, arena);
    bool none = !s->privileged && oci_caps_has_all(s->drop_caps, s->drop_caps_len, arena);
    uint64_t mine = all ? oci_caps_of_process() : 0;
    for (size_t i = 0; all && i < array_len(names); i++)
        if (mine >> i & 1)
            oci_caps_add(&caps, str_z(names[i]), arena);
    for (size_t i = 0; !all && !none && i < array_len(defaults); i++)
        oci_caps_add(&caps, str_z(defaults[i]), arena);
    if (none)
        caps.n = 0;
    for (size_t i = 0; !s->privileged && i < s->add_caps_len; i++) {
        struct str name = oci_caps_strip_prefix(s->add_caps[i], arena);
        if (str_eq(name, STR("ALL")))
            continue;
        if (!is_known(name))
            return err_set(err, ERR_INVALID, "there is no capability '%.*s'",
                           STR_ARG(str_upto(s->add_caps[i], 64)));
        oci_caps_add(&caps, name, arena);
    }
    for (size_t i = 0; !s->privileged && i < s->drop_caps_len; i++)
        oci_caps_drop(&caps, oci_caps_strip_prefix(s->drop_caps[i], arena));
    *ret = caps;
    return 0;
}
