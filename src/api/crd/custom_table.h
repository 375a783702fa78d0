// SPDX-License-Identifier: Apache-2.0
//
// Tables of kinds that users added: the columns their definitions ask for.
#ifndef API_CRD_CUSTOM_TABLE_H
#define API_CRD_CUSTOM_TABLE_H

#include "api/custom.h"
#include "api/tables.h"

// custom_columns writes the definitions of the columns, custom_cells the cells of one object.
void custom_columns(const struct api_custom *c, struct json_writer *w);
void custom_cells(const struct api_table_view *t, const void *value, struct json_writer *w,
                  struct arena *arena);

#endif
