// SPDX-License-Identifier: Apache-2.0
//
// What the files of the tables share. Private to src/api.
#ifndef API_PRESENT_TABLES_INT_H
#define API_PRESENT_TABLES_INT_H

#include "api/tables.h"
#include "base/arena.h"

struct table_column {
    const char *name;
    const char *type;
    const char *format;
    const char *doc;
    int32_t priority; // 0: always shown; 1: shown in wide output
};

// A row in the making: its cells go to w. arena is for texts, freed after the row.
struct cells {
    const struct api_table_view *table;
    const struct api_object_meta *meta;
    struct json_writer *w;
    struct arena *arena;
};

typedef void table_cells(struct cells *c, const void *value);

struct table_printer {
    const struct api_type *type;
    const struct table_column *columns;
    size_t columns_len;
    table_cells *cells;
};

#define TABLE_PRINTER(stem, columns, cells)                    \
    {                                                          \
        &api_##stem##_type, columns, array_len(columns), cells \
    }

// Columns that nearly all have.
#define TABLE_NAME                                                                 \
    {                                                                              \
        "Name", "string", "name", "The name, unique within kind and namespace.", 0 \
    }
#define TABLE_AGE                                                     \
    {                                                                 \
        "Age", "string", "", "How long ago the object was stored.", 0 \
    }
#define TABLE_TEXT(name, doc)      \
    {                              \
        name, "string", "", doc, 0 \
    }
#define TABLE_NUMBER(name, doc)     \
    {                               \
        name, "integer", "", doc, 0 \
    }
#define TABLE_BOOL(name, doc)       \
    {                               \
        name, "boolean", "", doc, 0 \
    }
#define TABLE_WIDE(name, doc)      \
    {                              \
        name, "string", "", doc, 1 \
    }
#define TABLE_CONTAINERS TABLE_WIDE("Containers", "The names of the template's containers.")
#define TABLE_IMAGES     TABLE_WIDE("Images", "The images of the template's containers.")

// The printers by group of kinds.
extern const struct table_printer table_printers_core[];
extern const size_t table_printers_core_len;
extern const struct table_printer table_printers_work[];
extern const size_t table_printers_work_len;
extern const struct table_printer table_printers_net[];
extern const size_t table_printers_net_len;
extern const struct table_printer table_printers_control[];
extern const size_t table_printers_control_len;
extern const struct table_printer table_printers_resource[];
extern const size_t table_printers_resource_len;

// sbuf_add_duration adds seconds as kubectl shows them: 5s, 3m20s, 2d4h.
void sbuf_add_duration(struct sbuf *out, int64_t seconds);

// Cells. tables_cell_text_or shows a word instead of nothing.
void tables_cell_text(struct cells *c, struct str text);
void tables_cell_text_or(struct cells *c, struct str text, const char *otherwise);
void tables_cell_z(struct cells *c, const char *text);
void tables_cell_number(struct cells *c, int64_t number);
void tables_cell_bool(struct cells *c, bool value);
void tables_cell_name(struct cells *c);
void tables_cell_age(struct cells *c);
void tables_cell_since(struct cells *c, const struct api_time *since);
void tables_cell_ratio(struct cells *c, int64_t have, int64_t want);

// tables_cell_list joins texts.
void tables_cell_list(struct cells *c, const struct api_str_array *list, const char *between,
                      const char *otherwise);

// tables_cell_labels shows a=b,c=d or <none>; tables_cell_selector a label selector.
void tables_cell_labels(struct cells *c, const struct api_str_map *labels);
void tables_cell_selector(struct cells *c, const struct api_label_selector *selector,
                          const char *none, const char *wrong);

// tables_cell_containers writes two cells: names and images.
void tables_cell_containers(struct cells *c, const struct api_container_array *containers);

#endif
