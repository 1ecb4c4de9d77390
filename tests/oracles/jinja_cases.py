#!/usr/bin/env python3
"""tests/oracles/jinja_cases.py : a differential test of grpo.template with transformers' chat template environment.

    python3 -m venv build/oracle && build/oracle/bin/pip install transformers==5.24.0 jinja2==3.1.6 numpy pytest
    build/oracle/bin/python tests/oracles/jinja_cases.py [--sdist jinja2-3.1.6.tar.gz] [--templates DIR...] [--show N]
    build/oracle/bin/python tests/oracles/jinja_cases.py --write tests/cases/jinja.jsonl

It makes some 20,000 templates from a grammar (filters, tests, methods, operators, formats, statements) and renders each with
transformers and, in one process, with ./grpo.  --sdist adds the templates that Jinja2's own tests render; --templates adds
chat templates (*.jinja, the `chat_template` of *.json, texts in *.py), each with several conversations.  --write keeps the small set that
tests/lua/jinja_cases_test.lua reads.  What differs is counted as
  refused: transformers gives a text, grpo.template an error;    wrong: both give a text, not the same one;
  lenient: transformers gives an error, grpo.template a text.
"""
import argparse
import ast
import collections
import glob
import hashlib
import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile

from transformers.utils.chat_template_utils import _cached_compile_jinja_template

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
ADDRESS = re.compile(r" at 0x[0-9a-f]+|<(function|bound method|built-in|cyfunction|class)|_io\.")

# ---- values ------------------------------------------------------------------------------------------

ROWS = "[{'r': 'u', 'n': 3, 'd': {'k': [7, 8]}}, {'r': 'U', 'n': 1, 'd': {'k': [5]}}, {'r': 'a', 'n': 2, 'd': {'k': []}}]"
STRINGS = ["''", "'a'", "'Hello World'", "\"they're bill's x1y\"", "' a  b  c '", "'a\\nb\\r\\n\\nc\\n'", "'ßx'", "'ΟΔΟΣ'",
           "'123'", "'-5'", "' 1.5 '", "'0x1F'", "'1e3'", "'true'", "'<b>&\"x\\'</b>'", "'äöÜ ǆabc ﬁ'", "'日本😀é'", "'a,b,,c'",
           "'1_000'", "'aXbXc'", "'foo bar-baz_qux (quux) [a]'", "'tab\\tx\\x0by\\x85z\\u2028w'", "'http://a.b/?q=ä b&c=1'", "'inf'"]
NUMBERS = ["0", "1", "-1", "3", "42", "-7", "255", "1.0", "2.5", "-2.5", "0.1", "1e16", "1e-5", "123456.789", "true", "false",
           "2**70", "-0.0", "1e300"]
LISTS = ["[]", "[1, 2, 3]", "[3, 1, 2, 1]", "['b', 'A', 'c', 'a']", "[[1, 2], [3]]", ROWS, "(1, 2)", "(1,)", "()", "[none, 1, '']",
         "[1, 'a']", "[true, false, 1, 1.0]", "range(5)", "range(1, 10, 3)", "[('a', 1), ('b', 2)]", "['x', '', 'yy']",
         "{'b': 1, 'a': 2}.keys()", "{'b': 1, 'a': 2}.values()", "{'b': 1, 'a': 2}.items()", "[1, 2, 3]|map('string')"]
DICTS = ["{}", "{'b': 1, 'a': 2}", "{'a': {'x': 1}, 'B': [1]}", "{1: 'x', 'k': none}", "dict(a=1)", "namespace(a=1, b='x')"]
OTHERS = ["none", "missing", "joiner('-')", "cycler(1, 2)", "range", "[1]|first", "'<'|escape", "'<'|safe"]
VALUES = STRINGS + NUMBERS + LISTS + DICTS + OTHERS

# ---- the grammar: names with the arguments they are tried with ---------------------------------------

FILTERS = {
    "abs": [""], "attr": ["'a'", "'upper'", "name='n'", ""], "batch": ["2", "3, 'x'", "linecount=2", "0", "'a'"],
    "capitalize": [""], "center": ["", "10", "width=7", "'a'"], "default": ["", "'d'", "'d', true", "default_value=1", "boolean=true"],
    "d": ["'x'", "none", "'x', boolean=true"], "dictsort": ["", "true", "by='value'", "reverse=true", "false, 'value', true", "by='x'"],
    "escape": [""], "e": [""], "filesizeformat": ["", "true", "binary=true"], "first": [""], "float": ["", "1.5", "default='x'", "none"],
    "forceescape": [""], "format": ["", "1", "'a', 2", "a=1"], "groupby": ["'r'", "'n'", "attribute='r'", "'d.k'", "0", "'r', case_sensitive=true",
    "'zz', default=1"], "indent": ["", "2", "width=1, first=true", "'> '", "2, true, true", "blank=true"],
    "int": ["", "7", "default='x'", "0, 16", "base=8", "base=16, default=-1", "0, 2", "none"], "items": [""],
    "join": ["", "', '", "d='-'", "attribute='r'", "'-', 'n'", "1", "none"], "last": [""], "length": [""], "count": [""], "list": [""],
    "lower": [""], "map": ["'upper'", "attribute='n'", "attribute='d.k.0'", "'default', 'x'", "attribute='z', default='q'", "'int'", "",
                           "'replace', 'a', 'b'", "attribute=0", "'nothing'", "'join', '-'", "'attr', 'n'"],
    "max": ["", "attribute='n'", "true", "case_sensitive=true, attribute='r'"], "min": ["", "attribute='n'", "attribute='r'", "true"],
    "pprint": [""], "reject": ["", "'odd'", "'equalto', 1", "'in', [1, 2]", "'none'"], "rejectattr": ["'n'", "'n', 'eq', 1", "'r', 'upper'", ""],
    "replace": ["'a', 'b'", "'', '-'", "'a', 'b', 1", "old='b', new='c', count=1", "1, 2", "'a'", "'a', 'b', none", "' ', ''"],
    "reverse": [""], "round": ["", "1", "2, 'floor'", "method='ceil'", "-1", "precision=1", "0, 'x'"], "safe": [""],
    "select": ["", "'odd'", "'equalto', 1", "'gt', 1", "'string'", "'nothing'"], "selectattr": ["'n'", "'n', 'gt', 1", "'r', 'in', ['u', 'a']",
    "'d.k'", "'n', 'defined'", "0"], "slice": ["2", "3, 'x'", "slices=2", "0"], "sort": ["", "true", "attribute='n'", "attribute='r,n'",
    "case_sensitive=true", "reverse=true, attribute='r'", "false, true", "attribute=0"], "string": [""], "striptags": [""],
    "sum": ["", "attribute='n'", "start=10", "'n', 1", "start=[]", "attribute=1"], "title": [""],
    "tojson": ["", "indent=2", "ensure_ascii=true", "sort_keys=true", "separators=(',', ':')", "true", "false, 4", "indent=0", "indent='\\t'"],
    "trim": ["", "'a'", "chars=' c'", "none", "1"], "truncate": ["", "5", "5, true", "8, false, '..'", "length=3, leeway=0", "9, end='', leeway=0",
    "2", "4, true, 'x', 0"], "unique": ["", "true", "attribute='r'", "attribute='n'", "case_sensitive=true, attribute='r'"], "upper": [""],
    "urlencode": [""], "urlize": [""], "wordcount": [""], "wordwrap": ["", "5", "4, false", "width=6, wrapstring='|'",
    "7, break_on_hyphens=false", "0"], "xmlattr": ["", "false"], "nothing": [""],
}
TESTS = {
    "defined": [""], "undefined": [""], "none": [""], "boolean": [""], "true": [""], "false": [""], "integer": [""], "float": [""],
    "number": [""], "string": [""], "mapping": [""], "sequence": [""], "iterable": [""], "callable": [""], "odd": [""], "even": [""],
    "lower": [""], "upper": [""], "escaped": [""], "filter": [""], "test": [""], "nothing": [""],
    "divisibleby": ["2", "0", "2.5", "'a'", ""], "sameas": ["none", "true", "1", "'a'", "false"], "in": ["[1, 'a', none]", "'abc'", "{'a': 1}", "1"],
    "eq": ["1", "'a'", "none", "missing", "[1, 2, 3]"], "equalto": ["1.0"], "==": [], "ne": ["1", "true"], "lt": ["2", "'b'", "[2]"], "lessthan": ["2"],
    "le": ["1", "'a'"], "gt": ["0", "'A'", "none"], "greaterthan": ["1"], "ge": ["3", "(1, 2)"],
}
FORMATS = ["'{}'", "'{:>5}|'", "'{:*^7}'", "'{:05.1f}'", "'{:,}'", "'{:d}'", "'{:x}'", "'{:#b}'", "'{:e}'", "'{:.3}'", "'{:%}'", "'{!r}'", "'{0}{0}'",
           "'{0[0]}'", "'{a}'", "'{{}}'", "'{:+}'", "'{:_}'", "'{:08.3f}'", "'{:c}'", "'{:g}'", "'{:<4}|'", "'{'", "'{:=+6}'", "'{0.x}'", "'{!s:>4}'",
           "'{:{}}'", "'{:n}'", "'{:s}'", "'{:X}'", "'{:.0f}'", "'{:z}'", "'{:.2%}'", "'{:#x}'", "'{:10,.2f}'"]
PERCENTS = ["%s", "%r", "%d", "%5d|", "%-5s|", "%05.1f", "%x", "%#x", "%o", "%e", "%g", "%.3s", "%c", "%%", "%i", "%+d", "% d", "%X", "%5.2f%%", "%q", "%a",
            "%(a)s", "%*d", "%.0f", "%G", "%u", "%s %s", "abc", "%", "%-08d|", "%.10d", "%#o", "%E", "%5%"]
STR_METHODS = {
    "capitalize": [""], "casefold": [""], "center": ["9", "9, '*'", "0", ""], "count": ["'a'", "''", "'b', 2", "'a', 0, 3", "1"],
    "endswith": ["'a'", "('x', 'c')", "''", "'a', 1", "1"], "expandtabs": ["", "4", "tabsize=2"], "find": ["'b'", "''", "'a', 1", "'b', -2", "'zz'"],
    "format": ["", "1", "a=1"], "format_map": ["{'a': 1}"], "index": ["'a'", "'zz'"], "isalnum": [""], "isalpha": [""], "isascii": [""], "isdecimal": [""], "isdigit": [""],
    "isidentifier": [""], "islower": [""], "isnumeric": [""], "isprintable": [""], "isspace": [""], "istitle": [""], "isupper": [""],
    "join": ["['x', 'y']", "'abc'", "[]", "{'a': 1}", "[1]", "('a',)"], "ljust": ["9", "5, '.'"], "lower": [""], "lstrip": ["", "' a'", "none"],
    "partition": ["'b'", "','", "''"], "removeprefix": ["'a'", "'He'"], "removesuffix": ["'c'", "''", "'ld'"],
    "replace": ["'a', 'b'", "'', '.'", "'a', '', 1", "'b', 'c', -1", "'x'"], "rfind": ["'b'", "''", "'b', 0, 3"], "rindex": ["'a'"], "rjust": ["9", "3, '-'"],
    "rpartition": ["'b'", "','"], "rsplit": ["", "','", "none, 1", "' ', 1", "sep=',', maxsplit=1", "''", "maxsplit=1"], "rstrip": ["", "'c '"],
    "split": ["", "','", "none, 1", "' '", "maxsplit=1", "',', 1", "sep=','", "''", "1", "none", "',', maxsplit=-1"],
    "splitlines": ["", "true", "keepends=true", "false"], "startswith": ["'a'", "('H', 'f')", "'b', 2", "'ell', 1, 4", "''"], "strip": ["", "'a'", "none", "'abc '"],
    "swapcase": [""], "title": [""], "translate": ["{97: 'z'}"], "upper": [""], "zfill": ["6", "0"], "encode": [], "nothing": [""], "__class__": [""],
}
LIST_METHODS = {"count": ["1", "'a'"], "index": ["1", "3", "9", "1, 1"], "append": ["1"], "pop": [""], "sort": [""], "copy": [""], "insert": ["0, 1"], "extend": ["[1]"],
                "reverse": [""], "clear": [""], "remove": ["1"], "upper": [""]}
DICT_METHODS = {"get": ["'a'", "'zz'", "'zz', 5", "1", "'a', 0", "none"], "items": [""], "keys": [""], "values": [""], "pop": ["'a'"], "update": ["{}"], "copy": [""], "setdefault": ["'a'"],
                "clear": [""], "popitem": [""], "fromkeys": ["[1, 2]", "'ab', 0"]}
NUMBER_METHODS = {"bit_length": [""], "is_integer": [""], "bit_count": [""], "as_integer_ratio": [""], "hex": [""], "conjugate": [""], "real": None, "imag": None, "numerator": None}
BINARY = ["+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or", "~", "is sameas"]
KEYS = ["0", "-1", "5", "'a'", "'n'", "true", "none", "1.0", "'0'", "(0, 1)", "missing", "[1]", "'length'", "'upper'", "2**65"]
SLICES = [":", "1:", ":2", "-2:", ":-1", "::2", "::-1", "1:3", "5:1:-1", "-3:-1", "::-2", "::0", "none:none", "true:", "10:", "-10:2"]


def calls(value, methods):
    for name, variants in methods.items():
        if variants is None:
            yield "(%s).%s" % (value, name)
        for args in variants or []:
            yield "(%s).%s(%s)" % (value, name, args)


def expressions():
    for value in VALUES:
        yield value
        yield "[%s]" % value
        yield "'yes' if %s else 'no'" % value
        yield "not %s" % value
        yield "-(%s)" % value
        yield "+(%s)" % value
        yield "(%s) ~ '|' ~ 1" % value
        for name, variants in FILTERS.items():
            for args in variants:
                yield "(%s)|%s%s" % (value, name, "(%s)" % args if args else "")
                if name in ("map", "select", "reject", "selectattr", "rejectattr", "unique", "batch", "slice", "items", "reverse"):
                    yield "(%s)|%s%s|list" % (value, name, "(%s)" % args if args else "")
        for name, variants in TESTS.items():
            for args in variants:
                yield "(%s) is %s%s" % (value, name, "(%s)" % args if args else "")
        for key in KEYS:
            yield "(%s)[%s]" % (value, key)
        for part in SLICES if value in STRINGS + LISTS[:-4] else []:
            yield "(%s)[%s]" % (value, part)
        for name in ("a", "n", "upper", "0", "1", "items", "_x", "count"):
            yield "(%s).%s" % (value, name)
        for format_ in FORMATS:
            yield "%s.format(%s)" % (format_, value)
        for format_ in PERCENTS:
            yield "%s %% %s" % (json.dumps(format_), value if value[0] == "(" else "(%s)" % value)
            yield "%s|format(%s)" % (json.dumps(format_), value)
    for value in STRINGS:
        yield from calls(value, STR_METHODS)
    for value in LISTS:
        yield from calls(value, LIST_METHODS)
    for value in DICTS + LISTS[:2]:
        yield from calls(value, DICT_METHODS)
    for value in NUMBERS:
        yield from calls(value, NUMBER_METHODS)


def pair_expressions():
    for a, b in itertools.product(VALUES, VALUES):
        for op in BINARY:
            yield "%s %s %s" % (a if a[0] not in "-" else "(%s)" % a, op, b)


CHAINS = ["1 < 2 < 3", "1 < 3 < 2", "1 == 1.0 == true", "not 1 in [2]", "1 in [1] == true", "-2 ** 2", "2 ** 3 ** 2", "2 ** -1", "-7 // 2", "-7 % 3", "7 % -3", "-7.5 // 2",
          "7.5 % -2", "1 / 3", "1e22", "1e21", "123456789012345678", "0.1 + 0.2", "1e15", "1e16 + 1", "1.0e-4", "0.00001", "100 * 1.1", "3.0", "5 // 2.0", "0x1F", "0b101", "0o17",
          "1_000", "1_0.5", "1.5e3", "1e+2", "'a' 'b'", "'a' ~ 'b' ~ 1.0", "1 if false", "(1 if false) is defined", "1 if true else 2 if true else 3", "[1, 2,]", "(1,)", "{'a': 1,}",
          "{'a': 1, 'a': 2}", "{1: 1, true: 2, 1.0: 3}", "[[1]][0][0]", "'\\x41\\u00e9\\U0001F600\\101\\q\\N{BULLET}'", "'a\\\nb'", "\"it's\"", "'say \"hi\"'", "'both \\' and \"'", "['a\\nb', \"it's\"]",
          "9223372036854775807 + 1", "9223372036854775808", "-9223372036854775808", "99999999999 * 99999999999", "2 ** 64", "2 ** 200 // 3 ** 50", "2 ** 100 % 97", "-2 ** 63 - 1", "10 ** 20 / 3",
          "10 ** 25 == 1e25", "10 ** 18 * 10 ** 18 - 1", "'%d' % 10 ** 20", "(10 ** 20)|string|length", "10 ** 20 > 10 ** 19", "(2 ** 70)|int", "'100000000000000000000'|int", "1e20|int", "[10 ** 20]|tojson", "1 << 2",
          "a.b", "missing.a", "missing.a.b", "missing()", "missing|upper", "missing + 1", "missing == missing", "missing in [1]", "1 in missing", "missing[0]", "missing|list", "missing|length",
          "{'a': 1}.a", "{'items': 1}.items", "{'items': 1}['items']", "{'a': {'b': [1, 2]}}.a.b.1", "[[1, 2]].0.1", "{'x': 1}['y'] is defined", "{'x': 1}.y|default(3)", "'abc'.0", "'abc'[true]", "[1, 2][-1]",
          "[1, 2][5] is defined", "(1, 2) + (3,)", "[1] + [2]", "[1] + (2,)", "[1] * 2", "2 * 'ab'", "'ab' * -1", "[] or 'x'", "0 or none", "1 and 'x'", "none and 1", "true + true", "true|int", "true ~ 1",
          "none ~ ''", "[none, true, 1.0, 'x', (1,), {}]", "{'a': none}", "{(1, 2): 3}", "{(1, 2): 3}[(1, 2)]", "{none: 1}[none]", "'%s and %s' % ('a', 'b')", "'%s' % [1, 2]", "'%(x)s %(y)03d' % {'x': 1, 'y': 2}",
          "'%s' % ('a', 'b')", "dict(a=1, b=2)", "dict({'a': 1}, b=2)", "dict([('a', 1)])", "dict.fromkeys(['a', 'b'])", "range(3)|list", "range(2, 5)|list", "range(5, 0, -2)|list", "range(3)", "range(1, 5)|sum", "range(10)[2:5]",
          "range(3) is iterable", "range(3)|length", "3 in range(5)", "range(5)[-1]", "namespace(a=1).a", "namespace(a=1)", "namespace(a=1).b is defined", "lipsum(1) is string", "[1, 2, 3]|map('string')|join",
          "['a', 'b']|map('upper')|join(',')", "[1, 2]|map('string') is string", "'x' if [1]|select else 'y'", "'x' if []|select else 'y'", "[3, 1]|sort|first", "('a' * 3)|upper", "'a'|upper|lower ~ 'B'|lower",
          "-1|abs", "(-1)|abs", "1.5|int + 1", "'a' in 'abc' and 'b' not in 'xyz'", "[1, 2] == [1, 2.0]", "(1, 2) == [1, 2]", "{'a': 1} == {'a': 1.0}", "none == none", "none is none", "'a' < 'B'", "'' < 'a'", "[1, 2] < [1, 3]",
          "1 < 'a'", "none < 1", "'é' < 'z'", "1 == '1'", "true is true", "1 is true", "true is boolean", "1 is boolean", "true is integer", "true is number", "1.0 is integer", "1.0 is float", "'a' is sequence",
          "{} is sequence", "1 is sequence", "none is iterable", "[] is mapping", "namespace() is mapping", "range is callable", "1 is not none", "not 1 is none", "4 is divisibleby 2", "4 is divisibleby(3)", "1 is in [1]",
          "'x' is in 'xyz'", "1 is eq 1", "1 is not eq 1", "3 is odd", "3.0 is odd", "'a' is filter", "'upper' is filter", "'odd' is test", "'odd' is filter", "1 is lt 2 and 2 is gt 1", "1 is sameas 1", "1.0|round", "2.5|round",
          "3.5|round", "2.675|round(2)", "-2.5|round", "1234.5|round(-2)", "1234|round(-2)", "42.55|round(1, 'ceil')", "5|round", "'3'|int", "'3.7'|int", "'abc'|int", "'abc'|int(5)", "none|int", "'1e3'|int", "'inf'|int(3)",
          "'nan'|float", "'inf'|float", "' 12 '|int", "'1,000'|int", "'0b11'|int(0, 2)", "'ff'|int(0, 16)", "'0xff'|int(0, 16)", "'z'|int(0, 36)", "'٣'|int", "'½'.isnumeric()", "'²'.isdigit()", "'²'.isdecimal()", "[1, 2, 3]|sum / 2",
          "'a-b'|replace('-', '+')|upper", "{'a': [1, {'b': none}]}|tojson(indent=2)", "[]|tojson(indent=2)", "{}|tojson(indent=2)", "'é\\u2028</script>'|tojson", "'é😀'|tojson(ensure_ascii=true)", "1.0|tojson",
          "1e100|tojson", "'a\"b\\\\c'|tojson", "[1,2]|tojson(separators=(',',':'))", "missing|tojson", "none|tojson", "{1: 2}|tojson", "{none: 1}|tojson", "{true: 1}|tojson", "{1.5: 1}|tojson", "{(1,): 1}|tojson", "(1, 2)|tojson",
          "{'b': 1, 'a': 2}|tojson(sort_keys=true)", "range(3)|tojson", "[1]|map('int')|tojson", "{'a': 1}.items()|tojson", "{'b': 1, 'a': 2}.items()|sort", "{'b': 1, 'a': 2}|items|list", "{'b': 1, 'a': 2}|list",
          "'abc'|list", "'abc'|first", "'abc'|last", "'abc'|reverse", "[1, 2, 3]|reverse|list", "'a b'|title", "'a'.upper", "'abc'|length", "'a'|indent", "'a\\n\\nb'|indent(2)", "'a b c'|wordcount", "'foo'|center(9) ~ '|'",
          "'%s'|format('x')", "'%s %s'|format('x', 1)", "'%(a)s'|format(a=1)", "[1, 2, 3, 4]|batch(3)|list", "[1, 2, 3, 4, 5]|slice(3)|list", "'foo bar baz qux'|truncate(9)", "'foo bar baz qux'|truncate(9, true)",
          "'foo bar baz qux'|wordwrap(5)", "'<b>x</b>  y'|striptags", "1024|filesizeformat", "1000000|filesizeformat", "{'a': 1, 'b': none}|xmlattr", "'a b/ä'|urlencode", "{'a': 'b c'}|urlencode", "[('a', 1)]|urlencode",
          "['<']|join|e", "'<'|e|e", "'<'|safe|e", "('<'|e) ~ '<'", "('<'|e) + '<'", "'<'|forceescape", "[1, [2, {'a': 'x'}]]|pprint", "{'a': [1] * 40}|pprint", "[1, 1, 2]|unique|list", "['a', 'A']|unique|list", "[{'a': 1}]|map(attribute='a')|list",
          "'a.b.c'.split('.')[-1]", "'a b'.split()[0]", "'{:.2f}'.format(1.005)", "'{a} {b}'.format(a=1, b=2)", "'{0[a]} {1.x}'.format({'a': 1}, 2)", "'{:>10}'.format('é')", "'{!r}'.format('x')", "'%5.2f|%-6s|%+d' % (1.0, 'a', 3)",
          "'a'.__class__", "''.__class__.__mro__", "[].append", "{}.update({})", "[].append(1)", "'x'.format.__globals__", "loop", "self", "caller", "varargs", "true", "True", "TRUE", "None", "nil", "null"]

STATEMENTS = [
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.changed(x) }}{{ loop.depth }}{% endfor %}",
    "{% for x in [1, 2] %}{{ loop }}{% endfor %}", "{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "{% for k, v in {'a': 1}|items %}{{ k }}{{ v }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for [a, b] in [(1, 2)] %}{{ a }}{% endfor %}", "{% for x in 'abc' %}{{ x }},{% endfor %}", "{% for x in [] %}a{% else %}b{% endfor %}", "{% for x in missing %}a{% else %}b{% endfor %}",
    "{% for x in none %}a{% endfor %}", "{% for x in 5 %}a{% endfor %}", "{% for x in range(3) if x is odd %}{{ x }}{% else %}none{% endfor %}", "{% for x in [1, 2, 3] if loop %}{{ x }}{% endfor %}",
    "{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}[{{ loop(x) }}]{% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}", "{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{{ x }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for x in [1, 2] %}{% set outer = loop %}{% for y in [1] %}{{ outer.index }}{% endfor %}{% endfor %}", "{% for x in [1,2]|map('string') %}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in [1] %}{% else %}b{% endfor %}", "{% for loop in [1] %}{{ loop }}{% endfor %}", "{% for x in [1, 2, 2] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}", "{% for x in {'b': 1, 'a': 2} %}{{ x }}{% endfor %}", "{% for x in {'b': 1, 'a': 2}|dictsort %}{{ x }}{% endfor %}",
    "{% for k, v in rows|groupby('r') %}{{ k }}:{{ v|length }};{% endfor %}", "{% for g in rows|groupby('r') %}{{ g.grouper }}={{ g.list|map(attribute='n')|join(',') }}{{ g[0] }}{% endfor %}", "{{ rows|groupby('r') }}", "{% for x, y in [[1, 2, 3]] %}{% endfor %}", "{% for x, y in [1] %}{% endfor %}",
    "{% set a = 1 %}{{ a }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set a, (b, c) = 1, (2, 3) %}{{ c }}", "{% set a %}x{{ 1 }}{% endset %}[{{ a }}]", "{% set a | upper %}x{% endset %}{{ a }}", "{% set a | replace('x', 'y') | upper %}x{% endset %}{{ a }}",
    "{% set n = namespace(a=1) %}{% set n.a = 2 %}{{ n.a }}", "{% set n = namespace() %}{% set n.a, n.b = 3, 4 %}{{ n.a }}{{ n.b }}", "{% set n = namespace(a=1) %}{% set n.a %}blk{% endset %}{{ n.a }}", "{% set n = namespace({'a': 1}, b=2) %}{{ n.a }}{{ n.b }}{{ n }}", "{% set d = {} %}{% set d.a = 1 %}",
    "{% set n = namespace(_a=1) %}", "{% set a = 1 %}{% if true %}{% set a = 2 %}{% endif %}{{ a }}", "{% set a = 1 %}{% for i in [1] %}{% set a = 2 %}{{ a }}{% endfor %}{{ a }}", "{% set a = a + 1 if a is defined else 0 %}{{ a }}", "{% set x = 1, 2 %}{{ x }}", "{% set none = 1 %}", "{% set x.y.z = 1 %}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ b }}{% endwith %}", "{% with a, b = 1, 2 %}{{ a }}{{ b }}{% endwith %}",
    "{% if missing %}a{% elif 0 %}b{% elif 'x' %}c{% else %}d{% endif %}", "{% if not missing %}a{% endif %}", "{% if 1 %}{% if 0 %}a{% else %}b{% endif %}{% endif %}", "{% if missing.x %}a{% endif %}", "{% if x is defined and x.y %}a{% else %}b{% endif %}",
    "{% macro m(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(a=4) }}{{ m(b=1, a=2) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}",
    "{% macro m() %}x{% endmacro %}{{ m(1) }}", "{% macro m() %}x{% endmacro %}{{ m(a=1) }}", "{% macro m(a) %}{{ varargs|length }}{{ a }}{% endmacro %}{{ m(*[1, 2, 3]) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(**{'a': 1, 'b': 2}) }}{{ m(*[1], b=2) }}{{ m(1, **{'b': 5}) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{{ kwargs }}{% endmacro %}{{ m(*[1], *[2]) }}", "{% macro m(x) %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}{% endmacro %}{{ m(1) }}", "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}body{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a }}{{ b }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}", "{% macro m() %}{% if caller %}{{ caller() }}{% else %}none{% endif %}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}", "{% macro m(a) %}{% if a %}{{ a }}{{ m(a - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}",
    "{% for i in [1] %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% for i in [1, 2] %}{% macro m() %}x{% endmacro %}{% endfor %}{{ m is defined }}", "{% macro m() %}{% set z = 1 %}{% endmacro %}{{ m() }}{{ z is defined }}", "{% macro m(caller) %}{{ caller }}{% endmacro %}{{ m(1) }}", "{{ m }}{% macro m() %}{% endmacro %}{{ m }}",
    "{% macro m(a, a2, b=1, c) %}{% endmacro %}", "{% call 1 %}{% endcall %}", "{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}", "{% macro m(l) %}{{ l|join(',') }}{% endmacro %}{{ m([1, 2]) ~ m([3]) }}", "{% macro m() %} x {% endmacro %}[{{ m()|trim }}]", "{% macro m() %}a{% endmacro %}{{ 'b' if m() == 'a' }}",
    "{% filter upper %}abc{% endfilter %}", "{% filter replace('a', 'b')|upper %}abc{% endfilter %}", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter trim %}  {{ 1 }} {% endfilter %}", "{% do [1].count(1) %}", "{% do 1 %}x", "{% block a %}x{% endblock %}", "{% block a %}x{{ y }}{% endblock a %}{{ self.a() }}", "{% for i in [1] %}{% block b scoped %}{{ i }}{% endblock %}{% endfor %}",
    "{% set y = 1 %}{% block a %}{{ y }}{% endblock %}", "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% from 'x' import y %}", "{% autoescape true %}{{ '<' }}{% endautoescape %}", "{% autoescape false %}{{ '<' }}{% endautoescape %}", "{% debug %}", "{% trans %}x{% endtrans %}", "{% foo %}", "{% endif %}", "{% if %}", "{% for %}", "{% for x in [1] %}",
    "{% generation %}x{% endgeneration %}y", "{% for i in [1] %}{% generation %}{{ i }}{% set q = 1 %}{% endgeneration %}{{ q is defined }}{% endfor %}", "{% raw %}{{ x }}{% if %}{% endraw %}", "{%- raw -%} {{ x }} {%- endraw -%} y", "{# c #}a{#- d -#} b", "{# {{ x }} #}a", "{% raw %}a{% endraw %}\nb", "a {% raw -%}  b  {%- endraw %} c",
    "a\n  {% if 1 %}\n  b\n  {% endif %}\nc\n", "a\n  {%- if 1 -%}\n  b\n  {%- endif -%}\nc", "  {{ 1 }}\n  {{- 2 -}}\n 3", "a  {%+ if 1 %} b {%+ endif %} c", "  {%+ if 1 +%}\nb{% endif %}", "{% if 1 %}\n\n  x\n{% endif %}\n\n", "\n\n{% set x = 1 %}\n\n{{ x }}\n\n", "x\r\n{% if 1 %}\r\ny\r\n{% endif %}\r\nz", "  {# c #}\n x", "{{ 1 }}  {% if 1 %}x{% endif %}", "\t{% if 1 %}\t\n\tx{% endif %}",
    "{{ 1 -}}  \n x {{- 2 }}", "{{- '  a' -}}", "a{{ '\n' }}b\n", "{% set a -%}  x  {%- endset %}[{{ a }}]", "{{ '{{' }}{{ '%}' }}", "{{ {'a': {'b': 1}}.a.b }}", "{{ {'a': {}} }}", "{{ [1, 2\n, 3] }}", "{{ 'a'\n'b' }}", "{{ 1 }}{{", "{{ }}", "{% %}", "{{ 1 2 }}", "{{ 'x }}", "{{ (1 }}", "{{ 1) }}", "{{ [1 }}", "{{ {1 }}", "{{ 1 | }}", "{{ a b }}", "{{ 1 is }}", "{{ x = 1 }}",
    "{% set s = joiner(', ') %}{{ s() }}a{{ s() }}b{{ s() }}c", "{% set s = joiner() %}{{ s() }}a{{ s() }}b", "{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.next() }}", "{% set c = cycler() %}", "{{ raise_exception('no') }}", "{{ raise_exception() }}", "{{ strftime_now('%Y') | length }}",
    "{{ range(3, 0) | list }}{{ range(0) }}{{ range(2, 8, 3) }}", "{{ range(100001) }}", "{{ range('a') }}", "{{ range() }}", "{{ range(1, 2, 0) }}", "{{ namespace(a=1, b={'c': 2}).b.c }}", "{{ dict(a=1).items() | list }}", "{{ dict.fromkeys('ab', 1) }}", "{% set g = [1, 2] | map('string') %}{{ g | list }}{{ g | list }}", "{% set g = [1, 2] | select %}{{ g | first }}{{ g | list }}",
    "{% if [] | select %}a{% else %}b{% endif %}", "{% if messages is string %}a{% endif %}{% if messages is iterable and messages is not mapping %}b{% endif %}", "{{ messages[0].role }}{{ messages[0]['content'] }}{{ messages[-1].role }}{{ messages[1:] | length }}", "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | list }}", "{{ (messages | selectattr('role', 'equalto', 'user') | first).content }}",
    "{{ messages | map(attribute='role') | join(',') }}", "{{ messages | tojson }}", "{{ messages | tojson(indent=4) }}", "{{ messages | length }}", "{{ messages[0].missing }}", "{{ messages[0].missing.x }}", "{{ messages[9] }}", "{{ messages[9].x }}", "{{ messages.0.role }}", "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\\n' }}{% endfor %}",
    "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' }}{% if loop.nextitem is defined and loop.nextitem.role == 'user' %}!{% endif %}{% endfor %}", "{{ messages[0].content.strip().split()[0] }}", "{{ messages[0]['content'][:3] }}", "{% set ns = namespace(last='') %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = m.content %}{% endif %}{% endfor %}{{ ns.last }}",
    "{% for m in messages[::-1] %}{{ m.role }}{% endfor %}", "{% for m in messages|reverse %}{{ m.role }}{% endfor %}", "{{ messages|rejectattr('role', 'in', ['system'])|list|length }}", "{{ messages|groupby('role') }}", "{{ messages|sort(attribute='role')|map(attribute='role')|join }}", "{{ tools|tojson }}", "{{ tools is none }}{{ tools is not defined }}", "{{ messages[0].items()|list }}", "{{ messages[0].keys() }}{{ messages[0].values() }}{{ messages[0].items() }}",
    "{{ messages[0].get('role') }}{{ messages[0].get('x') }}{{ messages[0].get('x', 'd') }}", "{{ messages[0].pop('role') }}", "{{ messages.append(1) }}", "{{ messages[0] }}", "{{ messages[0]|items|list }}", "{{ messages[0] | dictsort }}", "{{ 'role' in messages[0] }}{{ 'x' not in messages[0] }}", "{{ messages[0] is mapping }}{{ messages is sequence }}", "{{ [messages[0]] == messages[:1] }}",
    "{{ messages[0]['role', 'x'] }}", "{{ f }}{{ f + 1 }}{{ i // 2 }}{{ i / 2 }}{{ b }}{{ u }}", "{{ i ~ f }}{{ '%d' % f }}", "{{ nested.a.b[1].c }}{{ nested['a']['b'][0] }}", "{{ nested }}", "{{ nested|tojson }}", "{{ e }}|{{ e|length }}|{{ e or 'x' }}", "{{ big }}{{ big + 1 }}",
]
CONTEXT = {"rows": [{"r": "u", "n": 3}, {"r": "U", "n": 1}, {"r": "a", "n": 2}], "f": 1.5, "i": 7, "b": True, "u": None, "e": "", "big": 12345678901234567890,
           "nested": {"a": {"b": [1, {"c": "é"}]}, "z": [], "y": {}, "x": 1e-7}, "tools": None,
           "messages": [{"role": "system", "content": " Be <brief>. "}, {"role": "user", "content": "Hi\nthere"}, {"role": "assistant", "content": "ok", "extra": None}]}

# ---- conversations for chat templates ------------------------------------------------------------------

TOOLS = [{"type": "function", "function": {"name": "weather", "description": "A forecast", "parameters": {"type": "object", "properties": {
    "place": {"type": "string", "description": "town, or \"here\""}, "days": {"type": "integer", "default": 1}, "unit": {"type": "string", "enum": ["°C", "°F"]},
    "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["place"]}}}]
SYSTEM, ASK = {"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Rain in Ulm? <é>"}
CALL = {"role": "assistant", "content": "", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": {"place": "Ulm", "days": 2, "deep": {"x": [1.0, None, True]}}}}]}
CALL_TEXT = {"role": "assistant", "content": "I look.", "reasoning_content": "think", "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "weather", "arguments": "{\"place\": \"Ulm\"}"}}]}
RESULT = {"role": "tool", "name": "weather", "tool_call_id": "abcdefghi", "content": "{\"sky\": \"grey\"}"}
ANSWER = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nGrey.", "thinking": "because"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "See"}, {"type": "image", "url": "x"}, {"type": "text", "text": " this "}]}
CONVERSATIONS = [[ASK], [SYSTEM, ASK], [ASK, ANSWER, {"role": "user", "content": "Why?"}], [SYSTEM, ASK, CALL, RESULT], [ASK, CALL_TEXT, RESULT, ANSWER, ASK], [ASK, CALL, RESULT, RESULT, ANSWER],
                 [SYSTEM, PARTS], [{"role": "developer", "content": "d"}, ASK], [ASK, ASK], [SYSTEM, ASK, ANSWER], [ANSWER], [], [ASK, {"role": "assistant", "content": None}], [{"role": "system", "content": [{"type": "text", "text": "s"}]}, ASK, ANSWER, ASK]]
SETTINGS = [{"add_generation_prompt": True}, {"add_generation_prompt": False}, {"add_generation_prompt": True, "tools": TOOLS}, {"add_generation_prompt": True, "enable_thinking": False, "tools": TOOLS},
            {"add_generation_prompt": True, "enable_thinking": True, "reasoning_effort": "high"}, {"add_generation_prompt": False, "tools": TOOLS, "documents": [{"title": "T", "text": "x"}], "thinking": True, "date_string": "1 Jan 2025"}]
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def chat_cases(paths):
    seen = set()
    for path in sorted(itertools.chain.from_iterable(glob.glob(os.path.join(p, "**"), recursive=True) if os.path.isdir(p) else [p] for p in paths)):
        for name, source in templates_of(path):
            digest = hashlib.sha1(source.encode()).hexdigest()
            if digest in seen:
                continue
            seen.add(digest)
            for conversation, settings in itertools.product(CONVERSATIONS, SETTINGS):
                yield name, source, {**SPECIAL, "tools": None, "documents": None, **settings, "messages": conversation}


def templates_of(path):
    if path.endswith((".jinja", ".jinja2", ".j2")):
        yield path, open(path, encoding="utf-8").read()
    elif path.endswith(".py"):
        try:
            tree = ast.parse(open(path, encoding="utf-8").read())
        except (SyntaxError, ValueError):
            return
        for n in ast.walk(tree):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and "{%" in n.value and "messages" in n.value:
                yield "%s:%d" % (path, n.lineno), n.value
    elif path.endswith(".json") and os.path.isfile(path):
        try:
            found = json.load(open(path, encoding="utf-8"))
        except ValueError:
            return
        found = found.get("chat_template") if isinstance(found, dict) else None
        for entry in found if isinstance(found, list) else [{"name": "default", "template": found}]:
            if isinstance(entry.get("template"), str):
                yield path + ":" + entry["name"], entry["template"]


# ---- Jinja2's own tests ---------------------------------------------------------------------------------

RECORDER = '''
import json, jinja2, os
seen, render = set(), jinja2.Template.render
sources = {}
from_string = jinja2.Environment.from_string
def recorded_from_string(self, source, *a, **k):
    t = from_string(self, source, *a, **k)
    if isinstance(source, str): sources[id(t)] = (t, source)
    return t
def recorded_render(self, *a, **k):
    try:
        source, context = sources[id(self)][1], json.dumps(dict(*a, **k))
        if (source, context) not in seen:
            seen.add((source, context))
            with open(os.environ["JINJA_RECORD"], "a") as f: f.write(json.dumps([source, context]) + "\\n")
    except Exception: pass
    return render(self, *a, **k)
jinja2.Environment.from_string, jinja2.Template.render = recorded_from_string, recorded_render
'''


def sdist_cases(archive):
    with tempfile.TemporaryDirectory() as directory:
        tarfile.open(archive).extractall(directory)
        tests = glob.glob(directory + "/*/tests")[0]
        conftest = os.path.join(tests, "conftest.py")
        text = open(conftest).read()
        open(conftest, "w").write(RECORDER + text)
        record = os.path.join(directory, "record")
        subprocess.run([sys.executable, "-m", "pytest", "-q", "--continue-on-collection-errors", tests], cwd=tests,
                       env={**os.environ, "JINJA_RECORD": record}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for line in open(record):
            source, context = json.loads(line)
            yield source, json.loads(context)


# ---- running --------------------------------------------------------------------------------------------

class Slow(Exception):
    pass


def slow(*_):
    raise Slow()


def wanted(source, context):
    """The text by transformers, or None for an error.  Raises Slow."""
    signal.signal(signal.SIGALRM, slow)
    signal.alarm(3)
    try:
        return _cached_compile_jinja_template(source).render(**context)
    except Slow:
        raise
    except Exception:
        return None
    finally:
        signal.alarm(0)


RUNNER = r'''
local jinja = require "grpo.jinja"
local out = io.open(os.getenv "JINJA_OUT", "wb")
local compiled = {}
for line in io.lines(os.getenv "JINJA_IN") do
  local case = jinja.from_json(line).map
  local ok, text = pcall(function()
    local t = compiled[case.source] or grpo.template(case.source)
    compiled = { [case.source] = t }
    return (t:render(case.context))
  end)
  out:write(grpo.json.encode { ok = ok, text = tostring(text) }, "\n")
end
out:close()
'''


def ours(cases):
    with tempfile.TemporaryDirectory() as directory:
        script, into, out = (os.path.join(directory, n) for n in ("run.lua", "in", "out"))
        open(script, "w").write(RUNNER)
        with open(into, "w", encoding="utf-8") as f:
            for case in cases:
                f.write(json.dumps({"source": case["source"], "context": case["context"]}, ensure_ascii=False) + "\n")
        done = subprocess.run([os.path.join(ROOT, "grpo"), "repl"], stdin=open(script),
                              env={**os.environ, "JINJA_IN": into, "JINJA_OUT": out, "NO_COLOR": "1"}, cwd=ROOT, capture_output=True, text=True)
        lines = open(out, encoding="utf-8", errors="surrogateescape").read().split("\n")[:-1] if os.path.exists(out) else []
        if len(lines) != len(cases):
            sys.exit("grpo rendered %d of %d: %s" % (len(lines), len(cases), done.stderr[-2000:]))
        return [json.loads(line) for line in lines]


def made(limit, seed=36):
    chosen = random.Random(seed)
    found = list(dict.fromkeys(expressions()))
    pairs = set(pair_expressions())
    rest = [e for e in found if e not in pairs]
    pairs = sorted(pairs)
    for group in (rest, pairs):
        chosen.shuffle(group)
    kept = CHAINS + rest[:limit * 4 // 5] + pairs[:limit // 5]
    return [("made", "{{ %s }}" % e, {}) for e in kept] + [("statement", s, CONTEXT) for s in STATEMENTS]


def judge(want, got):
    if want is None:
        return "lenient" if got["ok"] else "equal"
    return "refused" if not got["ok"] else "equal" if got["text"] == want else "wrong"


def write(cases, path):
    """Keeps the statements, the chains and one of 60 others, as far as both sides agree."""
    first = len(CHAINS)
    kept = [c for i, c in enumerate(cases) if i < first or i % 60 == 0 or c["name"] == "statement"]
    with open(path, "w", encoding="utf-8") as f:
        for case, got in zip(kept, ours(kept)):
            if judge(case["want"], got) != "equal":
                print("left out: %r" % case["source"])
            else:
                context = {k: v for k, v in case["context"].items() if re.search(r"\b%s\b" % k, case["source"])}
                f.write(json.dumps({"source": case["source"], "context": context, "want": case["want"]}, ensure_ascii=False) + "\n")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sdist")
    p.add_argument("--templates", nargs="*", default=[])
    p.add_argument("--limit", type=int, default=24000)
    p.add_argument("--show", type=int, default=0)
    p.add_argument("--log")
    p.add_argument("--only")
    p.add_argument("--write")
    o = p.parse_args()
    found = [] if o.only == "templates" else made(o.limit)
    if o.sdist:
        found += [("jinja2", s, c) for s, c in sdist_cases(o.sdist)]
    found += list(chat_cases(o.templates))
    cases = []
    for name, source, context in found:
        try:
            want = wanted(source, context)
        except Slow:
            continue
        try:
            json.dumps([source, want], ensure_ascii=False).encode()
        except UnicodeEncodeError:
            continue
        if not (want and ADDRESS.search(want)) and "|random" not in source:
            cases.append({"name": name, "source": source, "context": context, "want": want})
    if o.write:
        return write(cases, o.write)
    log = open(o.log, "w") if o.log else None
    counts = collections.defaultdict(collections.Counter)
    for case, got in zip(cases, ours(cases)):
        verdict = judge(case["want"], got)
        group = case["name"] if case["name"] in ("made", "statement", "jinja2") else "templates"
        counts[group][verdict] += 1
        if verdict != "equal" and log:
            log.write(json.dumps({"verdict": verdict, "got": got["text"], **case}, ensure_ascii=False) + "\n")
    for group, c in counts.items():
        print("%-10s %6d: %s" % (group, sum(c.values()), ", ".join("%s %d" % (k, c[k]) for k in ("equal", "refused", "wrong", "lenient"))))


if __name__ == "__main__":
    main()
