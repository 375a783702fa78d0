#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the C side of the API kinds from schema/*.schema (schema/README.md explains the format).

usage: gen_api.py --types FILE --tables FILE --kinds FILE [--only KIND,...] [--docs FILE] SCHEMA...

--types  header with one C struct a type, its arrays and its maps
--tables C source with the descriptor tables that src/api interprets
--kinds  C source with the list of kinds; with --only, of these (VERSION/KIND) and the meta package's alone, for programs that need no others
--docs   the reference of all kinds as one Markdown file
"""
import argparse
import re
import sys

SCALARS = {
    # schema type: (element, C type, C stem for arrays and maps)
    'string': ('API_STR', 'struct str', 'str'),
    'bool': ('API_BOOL', 'bool', 'bool'),
    'int32': ('API_I32', 'int32_t', 'i32'),
    'int64': ('API_I64', 'int64_t', 'i64'),
    'quantity': ('API_QUANTITY', 'struct quantity', 'quantity'),
    'time': ('API_TIME', 'struct api_time', 'time'),
    'microtime': ('API_MICROTIME', 'struct api_time', 'time'),
    'intstr': ('API_INTSTR', 'struct api_int_or_string', 'int_or_string'),
    'raw': ('API_RAW', 'struct str', 'str'),
    'fields': ('API_FIELDS', 'struct str', 'str'),
    'bytes': ('API_BYTES', 'struct str', 'str'),
    'strlist': ('API_STRLIST', 'struct api_str_array', 'strlist'),
}
# Optional values that carry their own absence (api_time.set, str.p) need neither flag nor pointer.
SELF_ABSENT = {'time', 'microtime', 'raw', 'fields', 'bytes'}
FLAGGED = {'string', 'bool', 'int32', 'int64'}
C_KEYWORDS = {'int', 'bool', 'default', 'static', 'signed', 'unsigned', 'register', 'volatile', 'auto', 'continue', 'long',
              'short', 'double', 'float', 'char', 'const', 'enum', 'union', 'struct', 'switch', 'void', 'if', 'else', 'for',
              'linux', 'unix'}  # gnu17 has the last two as macros
WORD_FLAGS = {'required': 'API_REQUIRED', 'schema': 'API_SCHEMA', 'always': 'API_ALWAYS', 'omitzero': 'API_OMITZERO', 'immutable': 'API_IMMUTABLE',
              'deprecated': 'API_DEPRECATED', 'union': 'API_UNION', 'inline': None,
              'must': 'API_MUST', 'standard': 'API_STANDARD', 'closed': 'API_CLOSED', 'no-modify': 'API_NO_MODIFY',
              'no-set': 'API_NO_SET', 'no-unset': 'API_NO_UNSET', 'no-add': 'API_NO_ADD', 'no-remove': 'API_NO_REMOVE'}
TEXT_INFO = {'keys': 'keys', 'merge': 'merge_key', 'default': 'default_text', 'implied': 'default_text', 'gate': 'gates', 'format': 'format',
             'key-format': 'key_format', 'item-format': 'item_format', 'unique': 'unique', 'unique-by': 'unique_by'}
NUMBER_INFO = {'max-items': 'max_items', 'max-bytes': 'max_bytes', 'max-length': 'max_length', 'item-max-bytes': 'item_max_bytes'}
FIELDS_MAX = 128  # the JSON reader marks fields seen in two 64-bit words


class SchemaError(Exception):
    pass


def snake(name):
    name = re.sub(r'([A-Z]{2,})s(?=[A-Z]|$)', lambda m: m.group(1).capitalize() + 's', name)
    name = re.sub(r'([a-z0-9])([A-Z])', r'\1_\2', name)
    name = re.sub(r'([A-Z])([A-Z][a-z])', r'\1_\2', name)
    return name.lower()


def quote(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


class Package:
    def __init__(self, name, options):
        self.name = name
        self.group = options.get('group', '')
        self.version = options['version']
        self.extends = options.get('extends')
        self.prefix = options.get('prefix')
        self.types = {}
        self.enums = {}
        self.kinds = []

    @property
    def api_version(self):
        return f'{self.group}/{self.version}' if self.group else self.version


class Type:
    def __init__(self, package, name, words, doc, where):
        self.package, self.name, self.doc, self.where = package, name, doc, where
        self.root = 'root' in words
        self.defaults = 'defaults' in words  # here or below, something may be set by default
        self.options = dict(w.split('=', 1) for w in words if '=' in w)
        self.fields = []
        stem = self.options.get('c') or (f'{package.prefix}_' if package.prefix else '') + snake(name)
        self.c = f'api_{stem}'


class Field:
    def __init__(self, owner, number, name, spec, words, doc, where):
        self.owner, self.number, self.name, self.doc, self.where = owner, number, name, doc, where
        self.words = [w for w in words if '=' not in w]
        self.options = dict(w.split('=', 1) for w in words if '=' in w)
        unknown = (set(self.words) - set(WORD_FLAGS)) | (set(self.options) - KNOWN_OPTIONS)
        if unknown:
            raise SchemaError(f'{where}: unknown words {sorted(unknown)}')
        self.shape, self.elem = 'API_ONE', spec
        for mark, shape in (('*', 'API_OPT'), ('[]', 'API_LIST'), ('map[string]', 'API_MAP')):
            if spec.startswith(mark):
                self.shape, self.elem = shape, spec[len(mark):]
        if 'inline' in self.words:
            self.shape = 'API_INLINE'
        self.c = self.options.get('c') or snake(name)
        if self.c in C_KEYWORDS:
            self.c += '_value'
        self.sub = None  # the Type of a struct element

    def has_flag(self):
        return self.shape == 'API_OPT' and self.elem in FLAGGED

    def is_pointer(self):
        return self.shape == 'API_OPT' and self.elem not in FLAGGED and self.elem not in SELF_ABSENT

    def spec(self):
        mark = {'API_OPT': '*', 'API_LIST': '[]', 'API_MAP': 'map[string]'}.get(self.shape, '')
        return mark + self.elem


KNOWN_OPTIONS = set(TEXT_INFO) | set(NUMBER_INFO) | {'list', 'map', 'struct', 'patch', 'enum', 'c', 'min', 'max', 'since'}


class Schema:
    def __init__(self):
        self.packages = {}

    def read(self, path):
        package = current = None
        with open(path, encoding='utf-8') as lines:
            for number, line in enumerate(lines, 1):
                where = f'{path}:{number}'
                line = line.rstrip()
                if not line or line.startswith('#'):
                    continue
                head, _, doc = line.partition(' |')
                words = head.split()
                if line.startswith(' '):
                    self.read_field(current, words, doc.strip(), where)
                elif words[0] == 'package':
                    package = Package(words[1], dict(w.split('=', 1) for w in words[2:]))
                    self.packages[package.name] = package
                elif words[0] == 'enum':
                    package.enums[words[1]] = ['' if w == '""' else w for w in words[2:]]
                elif words[0] == 'kind':
                    package.kinds.append((words[1], words[2:]))
                elif words[0] == 'type':
                    current = Type(package, words[1], words[2:], doc.strip(), where)
                    package.types[current.name] = current
                else:
                    raise SchemaError(f'{where}: cannot understand {words[0]!r}')

    def read_field(self, owner, words, doc, where):
        if owner is None or len(words) < 3:
            raise SchemaError(f'{where}: a field needs a type before it, a number, a name and a type')
        number = 0 if words[0] == '-' else int(words[0])
        owner.fields.append(Field(owner, number, words[1], words[2], words[3:], doc, where))

    def find(self, package, name, table, where):
        """The type or enum that a name means inside a package: its own, the extended one's, or pkg.Name."""
        if '.' in name:
            other, name = name.rsplit('.', 1)
            package = self.packages.get(other)
        while package is not None:
            found = getattr(package, table).get(name)
            if found is not None:
                return found
            package = self.packages.get(package.extends)
        raise SchemaError(f'{where}: no such name in {table}: {name}')

    def link(self):
        names = {}
        for t in self.types():
            if t.root:
                t.fields[:0] = [self.type_meta(t, 'kind', 'The kind of this object, in CamelCase.'),
                                self.type_meta(t, 'apiVersion', 'The group and version of this object\'s form.')]
            other = names.setdefault(t.c, t)
            if other is not t:
                raise SchemaError(f'{t.where}: {t.c} is also {other.where}')
            for f in t.fields:
                if f.elem not in SCALARS:
                    f.sub = self.find(t.package, f.elem, 'types', f.where)
            if len(flatten(t)) > FIELDS_MAX:
                raise SchemaError(f'{t.where}: more than {FIELDS_MAX} fields')
            numbers = [f.number for f in t.fields if f.number]
            if len(set(numbers)) != len(numbers):
                raise SchemaError(f'{t.where}: a field number is used twice')

        self.spread_defaults()

    def spread_defaults(self):
        changed = True
        while changed:
            changed = False
            for t in self.types():
                if not t.defaults and any('default' in f.options or 'implied' in f.options or (f.sub and f.sub.defaults) for f in t.fields):
                    t.defaults = changed = True

    @staticmethod
    def type_meta(owner, name, doc):
        return Field(owner, 0, name, 'string', [], doc, owner.where)

    def types(self):
        return [t for p in self.packages.values() for t in p.types.values()]


def flatten(t, base=''):
    """The fields as JSON shows them: (path to the C member's struct, field)."""
    rows = []
    for f in t.fields:
        if f.shape == 'API_INLINE':
            rows += flatten(f.sub, base + f.c + '.')
        else:
            rows.append((base, f))
    return rows


def elem_c(f):
    return f'struct {f.sub.c}' if f.sub else SCALARS[f.elem][1]


def stem(f):
    return f.sub.c[4:] if f.sub else SCALARS[f.elem][2]


# --- the header ---------------------------------------------------------------------------------------

def collections(schema):
    """Every array and map that a field needs: {stem: element C type}."""
    arrays, maps = {}, {}
    for t in schema.types():
        for f in t.fields:
            if f.shape == 'API_LIST':
                arrays[stem(f)] = elem_c(f)
            if f.shape == 'API_MAP':
                maps[stem(f)] = elem_c(f)
    arrays.pop('str', None)  # api/basic.h has it
    return arrays, maps


def member(f):
    if f.shape == 'API_LIST':
        return f'struct api_{stem(f)}_array {f.c};'
    if f.shape == 'API_MAP':
        return f'struct api_{stem(f)}_map {f.c};'
    return f'{elem_c(f)} {"*" if f.is_pointer() else ""}{f.c};'


def define(t, done, out):
    """Writes the struct of t behind the structs that it holds by value."""
    if t.c in done:
        return
    done.add(t.c)
    for f in t.fields:
        if f.sub and f.shape in ('API_ONE', 'API_INLINE'):
            define(f.sub, done, out)
    out.append(f'// {t.package.api_version} {t.name}: {t.doc}' if t.doc else f'// {t.package.api_version} {t.name}')
    out.append(f'struct {t.c} {{')
    for f in t.fields:
        out.append(f'    {member(f)}')
    for f in t.fields:
        if f.has_flag():
            out.append(f'    bool has_{f.c};')
    if not t.fields:
        out.append('    char no_fields; // C has no empty structs')
    out.append('};')
    out.append('')


def make_types(schema):
    out = ['// Made by tools/gen_api.py; do not edit.', '#ifndef API_TYPES_GEN_H', '#define API_TYPES_GEN_H', '',
           '#include "api/type/basic.h"', '']
    out += [f'struct {t.c};' for t in schema.types()]
    arrays, maps = collections(schema)
    out.append('')
    for name, ctype in sorted(arrays.items()):
        out += [f'struct api_{name}_array {{', f'    {ctype} *p;', '    size_t n;', '};']
    for name in sorted(maps):
        out += [f'struct api_{name}_entry;', f'struct api_{name}_map {{', f'    struct api_{name}_entry *p; // sorted by key', '    size_t n;', '};']
    out.append('')
    done = set()
    for t in schema.types():
        define(t, done, out)
    for name, ctype in sorted(maps.items()):
        out += [f'struct api_{name}_entry {{', '    struct str key;', f'    {ctype} value;', '};']
    out.append('')
    out += [f'extern const struct api_type {t.c}_type;' for t in schema.types()]
    out += ['', '#endif', '']
    return '\n'.join(out)


# --- the tables ---------------------------------------------------------------------------------------

def field_flags(f):
    flags = [WORD_FLAGS[w] for w in f.words if WORD_FLAGS[w]]
    if 'default' in f.options:
        flags.append('API_DEFAULT_DECLARED')
    if 'list' in f.options:
        flags.append('API_LIST_' + f.options['list'].upper())
    if 'map' in f.options:
        flags.append('API_MAP_' + f.options['map'].upper())
    if 'struct' in f.options:
        flags.append('API_STRUCT_ATOMIC' if f.options['struct'] == 'atomic' else 'API_MAP_GRANULAR')
    elif f.sub and 'struct' in f.sub.options:
        flags.append('API_STRUCT_ATOMIC')
    for part in f.options.get('patch', '').split(','):
        if part:
            flags.append('API_PATCH_' + {'merge': 'MERGE', 'replace': 'REPLACE', 'retainKeys': 'RETAIN_KEYS'}[part])
    return ' | '.join(flags) or '0'


def info_text(schema, f):
    parts = [f'.doc = {quote(f.doc)}']
    for option, name in TEXT_INFO.items():
        if option in f.options:
            parts.append(f'.{name} = {quote(f.options[option])}')
    for option, name in NUMBER_INFO.items():
        if option in f.options:
            parts.append(f'.{name} = {f.options[option]}')
    for option in ('min', 'max'):
        if option in f.options:
            parts.append(f'.has_{option} = true, .{option} = {f.options[option]}')
    if 'enum' in f.options:
        schema.find(f.owner.package, f.options['enum'], 'enums', f.where)
        parts.append(f'.values = {enum_c(schema, f.owner.package, f.options["enum"], f.where)}')
    return '{' + ', '.join(parts) + '}'


def enum_c(schema, package, name, where):
    """The C name of the value table; it is named after the package that declares it."""
    if '.' in name:
        other, name = name.rsplit('.', 1)
        package = schema.packages[other]
    while name not in package.enums:
        package = schema.packages[package.extends]
    return 'values_' + re.sub(r'\W', '_', package.name) + '_' + snake(name)


def row(t, base, f, info):
    owner = f'struct {t.c}'
    sub = f'&{f.sub.c}_type' if f.sub else 'NULL'
    has = f'offsetof({owner}, {base}has_{f.c})' if f.has_flag() else '0'
    key = quote(quote(f.name))
    return (f'    {{STR_INIT("{f.name}"), STR_INIT({key}), {f.number}, {SCALARS[f.elem][0] if not f.sub else "API_STRUCT"}, '
            f'{f.shape}, {field_flags(f)}, offsetof({owner}, {base}{f.c}), {has}, {sub}, {info}}},')


def type_tables(schema, t, out):
    rows = flatten(t)
    infos = {}
    if t.fields:
        out.append(f'static const struct api_field_info {t.c}_info[] = {{')
        for i, f in enumerate(t.fields):
            infos[id(f)] = f'&{t.c}_info[{i}]'
            out.append(f'    {info_text(schema, f)},')
        out.append('};')
        out.append(f'static const struct api_field {t.c}_fields[] = {{')
        out += [row(t, '', f, infos[id(f)]) for f in t.fields]
        out.append('};')
    inline = any(f.shape == 'API_INLINE' for f in t.fields)
    if inline:
        out.append(f'static const struct api_field {t.c}_json[] = {{')
        for base, f in rows:
            out.append(row(t, base, f, infos.get(id(f)) or f'&{f.owner.c}_info[{f.owner.fields.index(f)}]'))
        out.append('};')
    wire = sorted((i for i, f in enumerate(t.fields) if f.number), key=lambda i: t.fields[i].number)
    if wire:
        out.append(f'static const uint16_t {t.c}_wire[] = {{{", ".join(map(str, wire))}}};')
    fields = f'{t.c}_fields' if t.fields else 'NULL'
    json = f'{t.c}_json' if inline else fields
    out.append(f'const struct api_type {t.c}_type = {{STR_INIT("{t.name}"), STR_INIT("{t.package.name}"), '
               f'sizeof(struct {t.c}), {fields}, {len(t.fields)}, {json}, {len(rows)}, '
               f'{t.c + "_wire" if wire else "NULL"}, {len(wire)}, {"true" if t.root else "false"}, {"true" if t.defaults else "false"}, '
               f'{"true" if "struct" in t.options else "false"}, {quote(t.doc)}, NULL}};')
    out.append('')


def order_by_inline(types):
    """Types whose rows show other types' documentation come behind those."""
    done, out = set(), []

    def visit(t):
        if t.c in done:
            return
        done.add(t.c)
        for f in t.fields:
            if f.shape == 'API_INLINE':
                visit(f.sub)
        out.append(t)
    for t in types:
        visit(t)
    return out


def strings(name, items, out):
    if not items:
        return 'NULL'
    out.append(f'static const char *const {name}[] = {{{", ".join(quote(i) for i in items)}, NULL}};')
    return name


def kind_row(group, p, name, extra, t):
    version = f'{group}/{p.version}' if group else p.version
    return (f'    {{STR_INIT("{group}"), STR_INIT("{p.version}"), STR_INIT("{version}"), STR_INIT("{name}"), {extra[0]}, '
            f'STR_INIT("{p.name}"), {extra[1]}, &{t.c}_type, {extra[2]}, NULL}},')


def kind_rows(schema, only, out):
    """One row a kind; a resource's list kind has the row behind it."""
    rows = []
    for p in schema.packages.values():
        for name, words in p.kinds:
            if only and p.name != 'meta/v1' and f'{p.api_version}/{name}' not in only:
                continue
            options = dict(w.split('=', 1) for w in words if '=' in w)
            t = schema.find(p, name, 'types', p.name)
            group = '' if p.name == 'meta/v1' and name not in META_GROUP_KINDS else p.group
            stem_c = re.sub(r'\W', '_', p.name) + '_' + snake(name)
            if 'plural' not in options:
                rows.append(kind_row(group, p, name, ('{NULL, 0}, {NULL, 0}', 'false, NULL, NULL, NULL', 'NULL, NULL'), t))
                continue
            lists = [strings(f'{o}_{stem_c}', options[o].split(',') if o in options else [], out)
                     for o in ('short', 'sub', 'categories')]
            names = f'STR_INIT("{options["plural"]}"), STR_INIT("{name.lower()}")'
            more = f'{"true" if "namespaced" in words else "false"}, {", ".join(lists)}'
            at = len(rows)
            try:
                list_type = schema.find(p, name + 'List', 'types', p.name)
            except SchemaError:
                list_type = None
            rows.append(kind_row(group, p, name, (names, more, f'&api_kinds[{at + 1}], NULL' if list_type else 'NULL, NULL'), t))
            if list_type:
                rows.append(kind_row(group, p, name + 'List', ('{NULL, 0}, {NULL, 0}', 'false, NULL, NULL, NULL', f'NULL, &api_kinds[{at}]'), list_type))
    return rows


# These are served as meta.k8s.io/v1; the other kinds of the meta package exist in every group and version.
META_GROUP_KINDS = {'Table', 'PartialObjectMetadata', 'PartialObjectMetadataList', 'WatchEvent'}


def make_tables(schema):
    out = ['// Made by tools/gen_api.py; do not edit.', '#include <stddef.h>', '', '#include "api/table.h"', '#include "api/types.h"', '',
           '#include "base/banned.h"', '']
    for p in schema.packages.values():
        for name, values in p.enums.items():
            strings(enum_c(schema, p, name, p.name), values, out)
    out.append('')
    for t in order_by_inline(schema.types()):
        type_tables(schema, t, out)
    return '\n'.join(out)


def make_kinds(schema, only):
    out = ['// Made by tools/gen_api.py; do not edit.', '#include "api/table.h"', '#include "api/types.h"', '', '#include "base/banned.h"', '']
    rows = kind_rows(schema, only, out)
    known = {f'{p.api_version}/{name}' for p in schema.packages.values() for name, _ in p.kinds}
    if set(only) - known:
        raise SchemaError(f'--only: no such kind: {", ".join(sorted(set(only) - known))}')
    out.append('const struct api_kind api_kinds[] = {')
    out += rows
    out += ['};', f'const size_t api_kinds_len = {len(rows)};', '']
    if not only:
        out.append('const struct api_type *const api_types[] = {')
        out += [f'    &{t.c}_type,' for t in schema.types()]
        out += ['};', f'const size_t api_types_len = {len(schema.types())};', '']
    return '\n'.join(out)


# --- the reference ------------------------------------------------------------------------------------

def reachable(schema, kind_types):
    seen, queue = [], list(kind_types)
    while queue:
        t = queue.pop(0)
        if t in seen:
            continue
        seen.append(t)
        queue += [f.sub for f in t.fields if f.sub and f.sub.package is t.package]
    return seen


def make_docs(schema):
    out = ['# API reference', '', 'Made from schema/ by tools/gen_api.py. `dray explain KIND.field` shows the same at the prompt.', '']
    for p in schema.packages.values():
        out += [f'## {p.api_version} ({p.name})', '']
        if p.extends:
            out += [f'Types not listed here are those of {p.extends}.', '']
        for t in p.types.values():
            out += [f'### {t.name}', '', t.doc, '']
            if not t.fields:
                continue
            out += ['| field | type | | meaning |', '|---|---|---|---|']
            for base, f in flatten(t):
                notes = [w for w in ('required', 'immutable', 'deprecated') if w in f.words]
                notes += [f'{o} {f.options[o]}' for o in ('default', 'implied', 'gate', 'max-items', 'max-bytes', 'max-length', 'min', 'max', 'format') if o in f.options]
                out.append(f'| {f.name} | `{f.spec()}` | {", ".join(notes)} | {f.doc} |')
            out.append('')
    return '\n'.join(out)


def check_docs(schema):
    for t in schema.types():
        for what in [t] + t.fields:
            if not what.doc:
                raise SchemaError(f'{what.where}: {what.name} has no documentation')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--types')
    parser.add_argument('--tables')
    parser.add_argument('--kinds')
    parser.add_argument('--only', default='')
    parser.add_argument('--docs')
    parser.add_argument('schema', nargs='+')
    args = parser.parse_args()
    schema = Schema()
    try:
        for path in sorted(args.schema):
            schema.read(path)
        schema.link()
        check_docs(schema)
        kinds = make_kinds(schema, args.only.split(',') if args.only else [])
    except SchemaError as problem:
        sys.exit(f'gen_api.py: {problem}')
    for path, make in ((args.types, make_types), (args.tables, make_tables), (args.kinds, lambda _: kinds), (args.docs, make_docs)):
        if path:
            with open(path, 'w', encoding='utf-8') as f:
                f.write(make(schema))


if __name__ == '__main__':
    main()
