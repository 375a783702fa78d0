// SPDX-License-Identifier: Apache-2.0
//
// Tables of networking.k8s.io and discovery.k8s.io.
#include <ctype.h>
#include <stdlib.h>

#include "api/match/claim.h"
#include "api/present/tables_int.h"

#include "base/banned.h"

#define SHOWN_MAX 3

// --- Endpoint slices -----------------------------------------------------------------------------

static const struct table_column endpoint_slice_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("AddressType", "What its addresses are: IPv4, IPv6 or FQDN."),
    TABLE_TEXT("Ports", "The first few ports."),
    TABLE_TEXT("Endpoints", "The first few addresses."),
    TABLE_AGE,
};

// A list of which the first few are shown.
struct some {
    struct sbuf text;
    size_t n;
};

static void some_add(struct some *s, struct str text)
{
    if (s->n++ < SHOWN_MAX)
        sbuf_addf(&s->text, "%s%.*s", s->n > 1 ? "," : "", STR_ARG(text));
}

static void cell_some(struct cells *c, struct some *s)
{
    if (s->n > SHOWN_MAX)
        sbuf_addf(&s->text, " + %zu more...", s->n - SHOWN_MAX);
    tables_cell_text_or(c, sbuf_str(&s->text), "<unset>");
    sbuf_done(&s->text);
}

static void endpoint_slice_cells(struct cells *c, const void *value)
{
    const struct api_endpoint_slice *slice = value;
    struct some ports = {0}, addresses = {0};
    for (size_t i = 0; i < slice->ports.n; i++) {
        const struct api_discovery_port *p = &slice->ports.p[i];
        some_add(&ports, p->has_port   ? arena_strf(c->arena, "%d", p->port)
                         : p->has_name ? p->name
                                       : STR("*"));
    }
    for (size_t i = 0; i < slice->endpoints.n; i++)
        for (size_t k = 0; k < slice->endpoints.p[i].addresses.n; k++)
            some_add(&addresses, slice->endpoints.p[i].addresses.p[k]);
    tables_cell_name(c);
    tables_cell_text(c, slice->address_type);
    cell_some(c, &ports);
    cell_some(c, &addresses);
    tables_cell_age(c);
}

// --- Ingresses -----------------------------------------------------------------------------------

static const struct table_column ingress_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Class", "Whose it is."),
    TABLE_TEXT("Hosts", "The first few hosts that it has rules for."),
    TABLE_TEXT("Address", "Where it can be reached."),
    TABLE_TEXT("Ports", "The ports that are open."),
    TABLE_AGE,
};

// Rules count, not hosts, once three hosts are shown: that is how kube-apiserver counts.
static void ingress_hosts(struct cells *c, const struct api_ingress *ingress)
{
    cleanup_sbuf struct sbuf text = {0};
    size_t shown = 0;
    bool more = false;
    for (size_t i = 0; i < ingress->spec.rules.n; i++) {
        struct str host = ingress->spec.rules.p[i].host;
        more |= shown == SHOWN_MAX;
        if (!more && host.n)
            sbuf_addf(&text, "%s%.*s", shown++ ? "," : "", STR_ARG(host));
    }
    if (more)
        sbuf_addf(&text, " + %zu more...", ingress->spec.rules.n - SHOWN_MAX);
    tables_cell_text_or(c, sbuf_str(&text), "*");
}

static void ingress_addresses(struct cells *c, const struct api_ingress *ingress)
{
    const struct api_ingress_load_balancer_ingress_array *all =
        &ingress->status.load_balancer.ingress;
    struct str *list = arena_array(c->arena, struct str, all->n + 1);
    cleanup_sbuf struct sbuf text = {0};
    size_t n = 0;
    for (size_t i = 0; i < all->n; i++) {
        struct str one = all->p[i].ip.n ? all->p[i].ip : all->p[i].hostname;
        if (one.n)
            list[n++] = one;
    }
    qsort(list, n, sizeof(list[0]), str_cmp_elements);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || !str_eq(list[i], list[i - 1]))
            sbuf_addf(&text, "%s%.*s", i ? "," : "", STR_ARG(list[i]));
    tables_cell_text(c, sbuf_str(&text));
}

static void ingress_cells(struct cells *c, const void *value)
{
    const struct api_ingress *ingress = value;
    tables_cell_name(c);
    tables_cell_text(c, ingress->spec.has_ingress_class_name ? ingress->spec.ingress_class_name
                                                             : STR("<none>"));
    ingress_hosts(c, ingress);
    ingress_addresses(c, ingress);
    tables_cell_z(c, ingress->spec.tls.n ? "80, 443" : "80");
    tables_cell_age(c);
}

static const struct table_column ingress_class_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Controller", "Who does what its ingresses ask for."),
    TABLE_TEXT("Parameters", "The object with its settings."),
    TABLE_AGE,
};

static bool is_default(const struct api_object_meta *meta)
{
    const struct str key = STR("ingressclass.kubernetes.io/is-default-class");
    return str_eqz(meta_annotation(meta, key), "true");
}

static void ingress_class_cells(struct cells *c, const void *value)
{
    const struct api_ingress_class *class = value;
    const struct api_ingress_class_parameters_reference *p = class->spec.parameters;
    if (is_default(c->meta))
        tables_cell_text(c, arena_strf(c->arena, "%.*s (default)", STR_ARG(c->meta->name)));
    else
        tables_cell_name(c);
    tables_cell_text(c, class->spec.controller);
    if (!p)
        tables_cell_z(c, "<none>");
    else
        tables_cell_text(c, arena_strf(c->arena, "%.*s%s%.*s/%.*s", STR_ARG(p->kind),
                                       p->has_api_group ? "." : "", STR_ARG(p->api_group),
                                       STR_ARG(p->name)));
    tables_cell_age(c);
}

// --- Addresses and traffic -----------------------------------------------------------------------

static const struct table_column ip_address_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("ParentRef", "Who has the address."),
};

static void ip_address_cells(struct cells *c, const void *value)
{
    const struct api_parent_reference *p = ((const struct api_ip_address *)value)->spec.parent_ref;
    cleanup_sbuf struct sbuf text = {0};
    tables_cell_name(c);
    if (!p) {
        tables_cell_z(c, "<none>");
        return;
    }
    sbuf_addf(&text, "%.*s%s%.*s", STR_ARG(p->resource), p->group.n ? "." : "", STR_ARG(p->group));
    for (size_t i = 0; i < text.n; i++)
        text.p[i] = (char)tolower((unsigned char)text.p[i]);
    if (p->namespace.n)
        sbuf_addf(&text, "/%.*s", STR_ARG(p->namespace));
    sbuf_addf(&text, "/%.*s", STR_ARG(p->name));
    tables_cell_text(c, sbuf_str(&text));
}

static const struct table_column service_cidr_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("CIDRs", "The ranges of addresses."),
    TABLE_AGE,
};

static void service_cidr_cells(struct cells *c, const void *value)
{
    tables_cell_name(c);
    tables_cell_list(c, &((const struct api_service_cidr *)value)->spec.cidrs, ",", "");
    tables_cell_age(c);
}

static const struct table_column network_policy_columns[] = {
    TABLE_NAME,
    TABLE_TEXT("Pod-Selector", "The pods that it is about."),
    TABLE_AGE,
};

static void network_policy_cells(struct cells *c, const void *value)
{
    const struct api_network_policy *policy = value;
    tables_cell_name(c);
    tables_cell_selector(c, &policy->spec.pod_selector, "<none>", "<error>");
    tables_cell_age(c);
}

const struct table_printer table_printers_net[] = {
    TABLE_PRINTER(endpoint_slice, endpoint_slice_columns, endpoint_slice_cells),
    TABLE_PRINTER(ingress, ingress_columns, ingress_cells),
    TABLE_PRINTER(ingress_class, ingress_class_columns, ingress_class_cells),
    TABLE_PRINTER(ip_address, ip_address_columns, ip_address_cells),
    TABLE_PRINTER(service_cidr, service_cidr_columns, service_cidr_cells),
    TABLE_PRINTER(network_policy, network_policy_columns, network_policy_cells),
};
const size_t table_printers_net_len = array_len(table_printers_net);
