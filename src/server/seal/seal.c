// SPDX-License-Identifier: Apache-2.0
//
// AES-GCM over rows. Sealed bytes: the length of the key's name, the name, 12 bytes of nonce, the
// ciphertext, 16 bytes of tag. The name is authenticated together with the row's columns. Nonces
// are random: one key is good for 2^32 writes.
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include "api/table.h"
#include "server/seal/seal_int.h"

#include "base/banned.h"

#define SEAL_NONCE_BYTES 12
#define SEAL_TAG_BYTES   16

// The plural name of a custom kind changes with its definition, and is not known while rows are
// read: those are matched by group alone.
static bool seal_resource_matches(struct str spec, const struct api_kind *kind)
{
    struct str resource, group = {0};
    (void)str_cut(spec, '.', &resource, &group);
    if (str_eqz(spec, "*.*"))
        return true;
    return str_eq(group, kind->group) &&
           (str_eqz(resource, "*") || (!kind->custom && str_eq(resource, kind->plural)));
}

static const struct seal_entry *seal_find_entry(const struct seal_config *c,
                                                const struct api_kind *kind)
{
    for (size_t i = 0; i < c->entries.n; i++)
        for (size_t k = 0; k < c->entries.p[i].resources.n; k++)
            if (seal_resource_matches(c->entries.p[i].resources.p[k], kind))
                return &c->entries.p[i];
    return NULL;
}

static const EVP_CIPHER *seal_cipher(const struct seal_key *key)
{
    return key->n == 16 ? EVP_aes_128_gcm() : key->n == 24 ? EVP_aes_192_gcm() : EVP_aes_256_gcm();
}

static const unsigned char *seal_bytes(struct str s)
{
    return (const unsigned char *)s.p;
}

// seal_encrypt adds nonce, ciphertext and tag; head and context are authenticated.
static bool seal_encrypt(const struct seal_key *key, struct str head, struct str context,
                         struct str plain, struct sbuf *out)
{
    unsigned char nonce[SEAL_NONCE_BYTES];
    if (RAND_bytes(nonce, sizeof(nonce)) != 1)
        return false;
    sbuf_add(out, str_make((const char *)nonce, sizeof(nonce)));
    unsigned char *to = (unsigned char *)sbuf_space(out, plain.n + SEAL_TAG_BYTES);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0, last = 0;
    bool ok = c && EVP_EncryptInit_ex2(c, seal_cipher(key), key->bytes, nonce, NULL) == 1 &&
              EVP_EncryptUpdate(c, NULL, &n, seal_bytes(head), (int)head.n) == 1 &&
              EVP_EncryptUpdate(c, NULL, &n, seal_bytes(context), (int)context.n) == 1 &&
              EVP_EncryptUpdate(c, to, &n, seal_bytes(plain), (int)plain.n) == 1 &&
              EVP_EncryptFinal_ex(c, to + n, &last) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, to + plain.n) == 1;
    EVP_CIPHER_CTX_free(c);
    if (ok)
        sbuf_commit(out, plain.n + SEAL_TAG_BYTES);
    return ok;
}

static bool seal_decrypt(const struct seal_key *key, struct str head, struct str context,
                         struct str body, struct sbuf *out)
{
    if (body.n < SEAL_NONCE_BYTES + SEAL_TAG_BYTES || body.n > INT32_MAX)
        return false;
    const unsigned char *nonce = seal_bytes(body), *from = nonce + SEAL_NONCE_BYTES;
    size_t size = body.n - SEAL_NONCE_BYTES - SEAL_TAG_BYTES;
    unsigned char tag[SEAL_TAG_BYTES];
    memcpy(tag, from + size, sizeof(tag));
    unsigned char *to = (unsigned char *)sbuf_space(out, size + 1);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    int n = 0, last = 0;
    bool ok = c && EVP_DecryptInit_ex2(c, seal_cipher(key), key->bytes, nonce, NULL) == 1 &&
              EVP_DecryptUpdate(c, NULL, &n, seal_bytes(head), (int)head.n) == 1 &&
              EVP_DecryptUpdate(c, NULL, &n, seal_bytes(context), (int)context.n) == 1 &&
              EVP_DecryptUpdate(c, to, &n, from, (int)size) == 1 &&
              EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_AEAD_SET_TAG, sizeof(tag), tag) == 1 &&
              EVP_DecryptFinal_ex(c, to + n, &last) == 1;
    EVP_CIPHER_CTX_free(c);
    if (ok)
        sbuf_commit(out, size);
    return ok;
}

// --- For the store -------------------------------------------------------------------------------

static int seal_row(void *arg, const struct api_kind *kind, struct str context, struct str plain,
                    struct sbuf *out, struct err *err)
{
    const struct seal_entry *e = seal_find_entry(arg, kind);
    if (!e || e->keys.p[0].n == 0)
        return 0;
    const struct seal_key *key = &e->keys.p[0];
    cleanup_sbuf struct sbuf head = {0};
    sbuf_addc(&head, (char)(unsigned char)key->name.n);
    sbuf_add(&head, key->name);
    sbuf_add(out, sbuf_str(&head));
    if (plain.n < INT32_MAX - 64 && seal_encrypt(key, sbuf_str(&head), context, plain, out))
        return 0;
    return err_set(err, ERR_INTERNAL, "cannot encrypt with key \"%.*s\"; nothing is written",
                   STR_ARG(key->name));
}

static int seal_open(void *arg, const struct api_kind *kind, struct str context, struct str sealed,
                     struct sbuf *out, bool *ret_stale, struct err *err)
{
    const struct seal_entry *e = seal_find_entry(arg, kind);
    size_t n = sealed.n ? (unsigned char)sealed.p[0] : 0;
    if (n == 0 || sealed.n < n + 1)
        return err_set(err, ERR_INVALID, "its encrypted form is damaged");
    struct str head = str_upto(sealed, n + 1), name = str_from(head, 1);
    bool known = false;
    // Providers may have keys of one name, as for kube-apiserver: each is tried.
    for (size_t i = 0; e && i < e->keys.n; i++) {
        const struct seal_key *key = &e->keys.p[i];
        if (key->n == 0 || !str_eq(key->name, name))
            continue;
        if (seal_decrypt(key, head, context, str_from(sealed, n + 1), out)) {
            *ret_stale = i != 0;
            return 0;
        }
        known = true;
    }
    return err_set(err, ERR_INVALID, "key \"%.*s\" %s", STR_ARG(name),
                   known ? "does not open it: another key has this name, or the row is damaged"
                         : "is not configured for its resource");
}

static int seal_plain(void *arg, const struct api_kind *kind, bool *ret_stale, struct err *err)
{
    const struct seal_entry *e = seal_find_entry(arg, kind);
    for (size_t i = 0; e && i < e->keys.n; i++)
        if (e->keys.p[i].n == 0) {
            *ret_stale = i != 0;
            return 0;
        }
    return e ? err_set(err, ERR_INVALID,
                       "it is not encrypted, and its resource has no provider identity")
             : 0;
}

const struct store_sealer *seal_config_sealer(const struct seal_config *c)
{
    return &c->sealer;
}

void seal_config_bind(struct seal_config *c)
{
    c->sealer = (struct store_sealer){seal_row, seal_open, seal_plain, c};
}
