// SPDX-License-Identifier: Apache-2.0
//
// Which names a node gets a serving certificate for: its own, in any way of writing, and no other's, in any way of writing.
#include "ctl/access/csr_policy.h"
#include "net/address.h"
#include "pki/certificate.h"
#include "unit.h"

#include "base/banned.h"

static struct pki_key_pair server;

static int setup(void **state)
{
    (void)state;
    static const char *const names[] = {"api.example.com", "192.0.2.1", NULL};
    const struct pki_subject subject = {.common_name = "api",
                                        .names = names,
                                        .server = true,
                                        .not_before = 1700000000,
                                        .not_after = 1900000000};
    const struct pki_subject root = {
        .common_name = "ca", .not_before = 1700000000, .not_after = 1900000000};
    struct pki_key_pair ca = {0};
    int code = pki_make_ca(&root, &ca, NULL);
    if (code == 0)
        code = pki_make_certificate(&ca, &subject, &server, NULL);
    pki_key_pair_done(&ca);
    return code;
}

static int teardown(void **state)
{
    (void)state;
    pki_key_pair_done(&server);
    return 0;
}

static bool taken(void *arg, struct str node, struct str name)
{
    (void)arg;
    (void)node;
    return address_same(name, STR("other")) || address_same(name, STR("192.0.2.7")) ||
           address_same(name, STR("2001:DB8::7"));
}

// The Node says of itself that it has this name, and asks for a certificate for it.
static enum csr_verdict ask(const char *name, struct sbuf *why)
{
    struct str organizations[] = {STR("system:nodes")};
    struct str usages[] = {STR("digital signature"), STR("server auth")};
    struct csr_name names[] = {{.type = CSR_NAME_DNS, .text = str_z(name)}};
    struct api_node_address addresses[] = {{.type = STR("InternalDNS"), .address = str_z(name)}};
    const struct api_node node = {
        .metadata = {.name = STR("mine")},
        .status = {.addresses = {addresses, array_len(addresses)}},
    };
    const struct csr_request request = {.common_name = STR("system:node:mine"),
                                        .organizations = organizations,
                                        .organizations_len = 1,
                                        .names = names,
                                        .names_len = 1};
    const struct api_certificate_signing_request object = {
        .spec = {.username = STR("system:node:mine"),
                 .signer_name = STR(CSR_NODE_SERVING),
                 .usages = {usages, array_len(usages)}}};
    const struct csr_question q = {.object = &object,
                                   .request = &request,
                                   .may_renew = true,
                                   .node = &node,
                                   .server_certificate = str_z(server.certificate_pem),
                                   .taken = taken};
    return csr_judge(&q, why);
}

static void a_node_gets_its_own_names_alone(void **state)
{
    static const struct {
        const char *name, *problem; // NULL: it is the node's
    } cases[] = {
        {"mine", NULL},
        {"mine.example.com", NULL},
        {"192.0.2.6", NULL},
        {"2001:db8::6", NULL},
        {"other", "another node's"},
        {"Other", "another node's"},
        {"OTHER.", "another node's"},
        {"192.0.2.7", "another node's"},
        {"::ffff:192.0.2.7", "another node's"},
        {"2001:db8:0:0::7", "another node's"},
        {"api.example.com", "the API server's"},
        {"API.example.com", "the API server's"},
        {"::ffff:192.0.2.1", "the API server's"},
        {"*.example.com", "not that of one machine"},
        {"*", "not that of one machine"},
        {"a b", "not that of one machine"},
        {"", "not that of one machine"},
        {"localhost", "every machine's own"},
        {"LocalHost", "every machine's own"},
        {"127.0.0.1", "every machine's own"},
        {"::ffff:127.0.0.1", "every machine's own"},
    };
    (void)state;
    for (size_t i = 0; i < array_len(cases); i++) {
        cleanup_sbuf struct sbuf why = {0};
        enum csr_verdict verdict = ask(cases[i].name, &why);
        if (verdict != (cases[i].problem ? CSR_DENY : CSR_APPROVE) ||
            (cases[i].problem && !strstr(why.p, cases[i].problem)))
            fail_msg("%s: %d, %s", cases[i].name, (int)verdict, why.n ? why.p : "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_gets_its_own_names_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
